"""git without this user's configuration."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    environment = {
        **os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
