"""`git bisect run` with kerncap as its judge."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.git import git
from tests.unit.replay.build import ADD, HEADER, add

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


@pytest.mark.long
def test_the_commit_that_broke_a_kernel_is_found(tmp_path: Path) -> None:
    """One of the revisions between does not even import: it is skipped, not called bad."""
    repro = add(n=64, block=64).seal(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "--quiet")
    wrong = ADD.replace("mask=mask) + tl", "mask=mask) - tl")
    texts = [ADD, ADD.replace("mask =", "mask = ("), wrong + "# one\n", wrong + "# two\n"]
    for number, text in enumerate(texts):
        (work / "kernel.py").write_text(HEADER + text)
        git(work, "add", "kernel.py")
        git(work, "commit", "--quiet", "-m", f"revision {number}")
    git(work, "bisect", "start", "HEAD", "HEAD~3")
    judge = [sys.executable, "-m", "kerncap", "replay", str(repro), "--compare", "rebuilt,candidate",
             "--candidate", "kernel.py", "--bisect", "-n", "0"]  # fmt: skip
    done = subprocess.run(
        ["git", "bisect", "run", *judge], cwd=work, capture_output=True, text=True, check=False, timeout=300
    )
    # Revision 1 can't be tested: git names it and the first bad one as the two that it may have been.
    log = git(work, "bisect", "log")
    assert "bad: " in log and "revision 2" in log.partition("bad: [")[2], done.stdout + done.stderr + log
    assert "# skip: " in log and "# good: " in log
    assert "revision 1" in log.partition("# skip: ")[2].splitlines()[0]
