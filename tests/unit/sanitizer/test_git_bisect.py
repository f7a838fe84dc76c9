"""`git bisect run kerncap sanitize …` finds the commit that brought a finding; undecided ones are skipped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap.cli import main
from tests.git import git
from tests.unit.format.damage import GOLDEN_BLOCK

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")

BLOCK_TTIR = (GOLDEN_BLOCK / "code" / "kernel.ttir").read_bytes()
MASKED = BLOCK_TTIR.replace(b"tt.store %1, %2 :", b"tt.store %1, %2, %x_5 :")
OPEN = MASKED.replace(b"tt.get_program_id x : i32", b'"tt.unheard_of"() : () -> i32')
ARGUMENTS = ["--grid", "2", "--arg", "x_ptr=f32[250]", "--arg", "out_ptr=f32[250]", "--arg", "n=250"]
JUDGE = [sys.executable, "-m", "kerncap", "sanitize", "--bisect", "k.ttir", *ARGUMENTS]


def test_the_commit_that_brought_a_finding_is_found(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    for number, text in enumerate((MASKED, OPEN, BLOCK_TTIR, b"// moved\n" + BLOCK_TTIR)):
        (tmp_path / "k.ttir").write_bytes(text)
        git(tmp_path, "add", "k.ttir")
        git(tmp_path, "commit", "--quiet", "-m", f"revision {number}")
    git(tmp_path, "bisect", "start", "HEAD", "HEAD~3")
    done = subprocess.run(
        ["git", "bisect", "run", *JUDGE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    # Revision 1 is neither: git names it and the first bad one as the two that it may have been.
    log = git(tmp_path, "bisect", "log")
    assert "revision 2" in log.rpartition("# bad: ")[2].splitlines()[0], done.stdout + done.stderr + log
    assert "revision 1" in log.partition("# skip: ")[2].splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["k.ttir", *ARGUMENTS, "--strict"], 1),  # undecided
        (["k.ttir"], 128),  # no revision would change that
        (["--", "no-such-program"], 128),
        (["--", "sh", "-c", "exit 1"], 125),
        (["--", "sh", "-c", "kill -9 $$"], 125),
    ],
)
def test_statuses_for_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.ttir").write_bytes(OPEN)
    assert main(["sanitize", "--bisect", *arguments]) == status
