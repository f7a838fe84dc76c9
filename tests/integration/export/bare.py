"""An environment without kerncap: this one's packages but it, by a Python that reads no .pth file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.integration.conftest import Finished


@dataclass(frozen=True)
class Bare:
    """``folder`` has a link to each package; programs run in ``work``, which is outside of the checkout."""

    folder: Path
    work: Path

    @classmethod
    def make(cls, parent: Path) -> Bare:
        folder, work = parent / "packages", parent / "work"
        folder.mkdir()
        work.mkdir()
        for entry in map(Path, sys.path):
            if entry.name not in ("site-packages", "dist-packages") or not entry.is_dir():
                continue
            for package in entry.iterdir():
                if "kerncap" not in package.name and not (folder / package.name).exists():
                    (folder / package.name).symlink_to(package)
        return cls(folder, work)

    def __call__(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 300
    ) -> Finished:
        """Python with ``arguments``."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "KERNCAP"))}
        environment = {**kept, "PYTHONPATH": str(self.folder), **(env or {})}
        done = subprocess.run(
            [sys.executable, "-S", *map(str, arguments)], cwd=self.work, env=environment,
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        return Finished(done.returncode, done.stdout, done.stderr)
