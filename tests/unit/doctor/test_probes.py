"""Probes that misbehave, and those of packages and shims in processes."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from kerncap.api.doctor import probes as doctor_probes


def script(folder: Path, body: str) -> str:
    """An executable that stands in for a Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_probe_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    # The probe's child holds the write end of a pipe; reading the other end returns when it is gone.
    read_end, write_end = os.pipe()
    program = (
        "import os, subprocess, sys\n"
        f"pipe = os.open('/proc/{os.getpid()}/fd/{write_end}', os.O_WRONLY)\n"
        "subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'], pass_fds=[pipe])\n"
    )
    answer = doctor_probes.probe(sys.executable, program, timeout_s=1.5)
    os.close(write_end)
    assert answer["error"] == "no answer within 2 s"
    with os.fdopen(read_end, "rb") as pipe:
        assert pipe.read() == b""


def test_a_probe_that_crashes_says_how() -> None:
    answer = doctor_probes.probe(sys.executable, "import os; os.kill(os.getpid(), 11)", timeout_s=30)
    assert answer == {"error": "the probe ended with status -11", "stage": "probe"}


def test_a_probe_that_talks_is_still_understood() -> None:
    answer = doctor_probes.probe(sys.executable, "print('banner'); print('{\"a\": 1}')", timeout_s=30)
    assert answer == {"a": 1}


@pytest.mark.parametrize("last_line", ["nonsense", "[1]", "3", ""])
def test_an_answer_that_is_no_object_is_an_error(last_line: str) -> None:
    answer = doctor_probes.probe(sys.executable, f"print({last_line!r})", timeout_s=30)
    assert answer["stage"] == "probe"


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    answer = doctor_probes.packages(str(tmp_path / "nothing"))
    assert "can't be started: No such file or directory" in answer["error"]


def test_a_python_that_fails_quotes_its_last_words(tmp_path: Path) -> None:
    answer = doctor_probes.packages(script(tmp_path, "echo first >&2; echo 'no encodings' >&2; exit 7"))
    assert answer["error"] == "the probe ended with status 7: no encodings"


def test_packages_that_are_broken_are_told_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("print('noise on stdout')\nraise SystemError('undefined symbol: x')\n")
    (tmp_path / "triton.py").write_text("__version__ = '3.8.1'\n")
    (tmp_path / "sitecustomize.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = doctor_probes.packages(sys.executable)
    assert answer["torch"] == {"error": "SystemError: undefined symbol: x"}
    assert answer["triton"] == {"version": "3.8.1"}
    assert "error" in answer["interpreter"]
    assert answer["sitecustomize"] == str(tmp_path / "sitecustomize.py")


def test_a_process_of_its_own_asks_for_each_entry(tmp_path: Path) -> None:
    """With no ROCr here, or a tool that is none: why, for both, and nothing is left behind."""
    found = doctor_probes.entries("hip", tmp_path / "none.so")
    assert set(found) == {"HSA_TOOLS_LIB", "LD_PRELOAD"}
    assert all(found.values())
