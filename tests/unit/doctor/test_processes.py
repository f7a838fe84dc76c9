"""`kerncap doctor -- CMD`: processes as they are met, and what is said of those that nothing was seen of."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kerncap import env
from kerncap.api.doctor import processes as doctor_processes
from kerncap.api.doctor.processes import Seen, Watcher, barrier
from kerncap.api.doctor.watched_program import _known, _missed, _steps


@pytest.fixture(autouse=True)
def _shims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "cuda_shim", lambda: Path("/shim.so"))
    monkeypatch.setattr(env, "hip_shim", lambda: Path("/hip.so"))


def seen(*libraries: str, **facts: object) -> Seen:
    one = Seen(7, 1, ("prog",), "/bin/prog", set(libraries), preload=True, pythonpath=True, session=True)
    for name, value in facts.items():
        setattr(one, name, value)
    return one


@pytest.mark.parametrize(
    ("one", "live", "marks", "said"),
    [
        (seen("libcuda", "CUDA shim"), ["CUDA shim"], {"cuda"}, None),
        (seen(), [], set(), None),
        (seen("libcuda", problem="is linked statically: nothing"), [], set(), "program is linked statically"),
        (seen("libcuda", preload=False), [], set(), "LD_PRELOAD was dropped"),
        (seen("libcuda", session=False), [], set(), "its environment was cleared"),
        (seen("libcuda", "CUDA shim"), [], set(), "no call came through it"),
        (seen("libcuda"), [], set(), "the loader did not load it"),
        (seen("ROCr", "HIP shim"), [], set(), "ROCr rejected it"),
        (seen("ROCr", "rocprofiler-register", preload=False), [], set(), "another tool is registered"),
        (seen("Triton"), [], {"python"}, None),
        (seen("Triton", argv=("python", "-I", "a.py")), [], set(), "`-I` makes Python ignore"),
        (seen("Triton", pythonpath=False), [], set(), "PYTHONPATH was replaced"),
    ],
)
def test_why_nothing_was_seen(one: Seen, live: list[str], marks: set[str], said: str | None) -> None:
    found = _missed(one, live, marks)
    assert (found == []) if said is None else (len(found) == 1 and said in found[0])


def test_each_cause_has_a_next_step() -> None:
    class Result:
        launches = 0

    for one in (
        seen("libcuda", preload=False),
        seen("ROCr", "HIP shim"),
        seen("Triton", argv=("python", "-S")),
    ):
        assert list(_steps(_missed(one, [], set()), Result))
    assert "--self-test" in "".join(_steps([], Result))


def test_a_process_that_ended_too_soon_to_be_read_names_itself() -> None:
    def log(pid: int) -> Any:
        return SimpleNamespace(pid=pid, process=SimpleNamespace(argv=("./app", "3"), executable="/opt/app"))

    before_its_exec = Seen(7, 1, ("sh", "-c", "./app 3"), "/bin/sh")
    found = _known([Seen(6, 1), before_its_exec], [log(6), log(7), log(8)])
    assert [(one.pid, one.argv, one.executable) for one in found] == [
        (pid, ("./app", "3"), "/opt/app") for pid in (6, 7, 8)
    ]


def test_a_shim_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "cuda_shim", lambda: None)
    assert "not in this installation" in _missed(seen("libcuda"), [], set())[0]


def test_barriers_of_programs(tmp_path: Path) -> None:
    assert barrier(Path(sys.executable), sys.executable) is None
    script = tmp_path / "a.sh"
    script.write_text("#!/bin/sh\n")
    assert barrier(script, str(script)) is None
    script.chmod(0o4755)
    assert "setuid" in (barrier(script, str(script)) or "")
    # An ELF64 program with no PT_INTERP, one of 32 bits, one that asks for musl.
    head = bytearray(Path(os.path.realpath(sys.executable)).read_bytes()[:4096])
    narrow = tmp_path / "narrow"
    narrow.write_bytes(bytes(head[:4]) + b"\1" + bytes(head[5:]))
    assert "32-bit" in (barrier(narrow, str(narrow)) or "")
    static = tmp_path / "static"
    head[56:58] = b"\0\0"  # e_phnum
    static.write_bytes(bytes(head))
    assert "statically" in (barrier(static, str(static)) or "")


def test_what_is_not_there_yet_during_an_exec_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Seen(os.getpid(), os.getppid())
    shown: tuple[str, ...] = ()
    monkeypatch.setattr(doctor_processes, "_words", lambda pid, name: shown)
    doctor_processes._update(one)
    assert one.bare and one.session is False
    shown = ("KERNCAP_SESSION=x",)
    doctor_processes._update(one)
    assert not one.bare and one.session is True
    shown = ()
    doctor_processes._update(one)
    assert one.session is True


def test_descendants_are_met_with_what_they_were_given() -> None:
    """A child that started another, which has an environment of its own; both wait until they were seen."""
    ready, told = os.pipe()
    inner = f"import os; os.write({told}, b'x'); import signal; signal.pause()"
    program = (
        "import os, subprocess, sys\n"
        f"inner, given = {inner!r}, {{'KERNCAP_SESSION': 'x'}}\n"
        f"subprocess.run([sys.executable, '-c', inner], pass_fds=[{told}], env=given)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], pass_fds=[told], env={"LD_PRELOAD": ""}, start_new_session=True
    )
    watcher = Watcher(os.getpid())
    try:
        os.read(ready, 1)
        watcher.start()
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            mine = [one for one in list(watcher.seen.values()) if child.pid in (one.pid, one.parent)]
            if sum(one.session is not None for one in mine) == 2:
                break
            time.sleep(doctor_processes.POLL_S)
    finally:
        os.killpg(child.pid, 9)
        child.wait()
        os.close(ready)
        os.close(told)
    mine = [one for one in watcher.stop() if child.pid in (one.pid, one.parent)]
    assert [one.session for one in mine] == [False, True]
    assert all("python" in os.path.basename(one.executable) for one in mine)
