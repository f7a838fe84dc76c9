"""What the user names as their own code does not come out of a reproducer; little memory is one line."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap.cli import main

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("command", ["replay", "verify"])
@pytest.mark.parametrize("where", ["listed", "linked", "of another"])
def test_a_candidate_inside_a_reproducer_is_refused(
    command: str, where: str, stranger: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    candidate = stranger / "source" / "kernel.py"
    if where == "linked":
        link = tmp_path / "mine.py"
        link.symlink_to(candidate)
        candidate = link
    elif where == "of another":
        candidate = ROOT / "tests" / "golden" / "v1.0" / "source" / "kernel.py"
        candidate = candidate if candidate.exists() else next(candidate.parent.glob("*.py"))
    assert main([command, str(stranger), "--trust", "--candidate", str(candidate)]) == 2
    assert "it is inside a reproducer; copy it out first" in capfd.readouterr().err


def test_a_reference_inside_a_reproducer_is_refused(
    stranger: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reference = str(stranger / "source" / "kernel.py")
    assert main(["verify", str(stranger), "--trust", "--reference", reference]) == 2
    assert "it is inside a reproducer; copy it out first" in capfd.readouterr().err


@pytest.mark.parametrize("mebibytes", [40, 60, 80, 100, 120, 150])
@pytest.mark.parametrize(
    "command",
    ["inspect", *(pytest.param(each, marks=pytest.mark.long) for each in ("export --as script", "replay"))],
)
def test_a_small_address_space(mebibytes: int, command: str, stranger: Path) -> None:
    """It works, or says in one line that memory is missing: never 1, which is an answer."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))

    words = [sys.executable, "-m", "kerncap", *command.split(), str(stranger)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        words,
        cwd=stranger.parent,
        env=environment,
        preexec_fn=limited,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "Traceback" not in done.stderr and "OpenBLAS" not in done.stderr, done.stderr
    if done.returncode == 0:
        return
    if command == "replay" and done.returncode == 2:  # not trusted
        return
    assert done.returncode == 4 and done.stderr.count("\n") == 1, done.stderr
