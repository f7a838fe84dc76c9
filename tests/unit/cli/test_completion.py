"""What the shells ask for, and in bash the script itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "v1.1", tmp_path / "kerncap-out" / "scale-1111")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "kerncap"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kerncap "$@"\n')
    program.chmod(0o755)
    return tmp_path


def run(folder: Path, words: list[str], **variables: str) -> str:
    environment = {
        **os.environ,
        **variables,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(GOLDEN.parents[1]),
    }
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=100
    ).stdout


def test_bash_completes_commands_and_names(folder: Path) -> None:
    script = 'eval "$(_KERNCAP_COMPLETE=bash_source kerncap)"; complete -p kerncap; '
    for words in ("kerncap insp", "kerncap inspect sc"):
        script += f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        script += 'COMPREPLY=(); _kerncap_completion kerncap 2>/dev/null; echo "${COMPREPLY[*]}"; '
    shown = run(folder, ["bash", "--norc", "-c", script]).splitlines()
    assert shown[0].startswith("complete") and shown[1:] == ["inspect", "scale-1111"]


@pytest.mark.parametrize(
    ("shell", "variables", "expected"),
    [
        ("zsh", {"COMP_WORDS": "kerncap unp", "COMP_CWORD": "1"}, "plain\nunpack\nUnpack the folder"),
        ("fish", {"COMP_WORDS": "kerncap unp", "COMP_CWORD": "unp"}, "unpack"),
    ],
)
def test_the_other_shells_get_their_script_and_answers(
    folder: Path, shell: str, variables: dict[str, str], expected: str
) -> None:
    assert "_KERNCAP_COMPLETE" in run(folder, ["kerncap"], _KERNCAP_COMPLETE=f"{shell}_source")
    assert expected in run(folder, ["kerncap"], _KERNCAP_COMPLETE=f"{shell}_complete", **variables)
