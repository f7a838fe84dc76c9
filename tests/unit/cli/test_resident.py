"""`verify --resident`: one process for commands that follow each other, for nobody but this user."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.cli.resident import client, judge_socket, server
from kerncap.cli.resident.judge_socket import Folder, own_name
from kerncap.errors import UsageError
from tests.processes import descendants
from tests.unit.replay import native, rig

START = Path(judge_socket.kerncap.__file__).with_name("start.py")


@pytest.fixture(autouse=True)
def own_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    yield
    for pid in client.stop():
        gone(pid)


@pytest.fixture
def repro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rig.use(monkeypatch, rig.kernels(tmp_path))
    return native.add().seal(tmp_path / "repros")


def gone(pid: int) -> None:
    """Wait until a process has ended; the test's own limit ends one that never does."""
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([ended], [], [])
    os.close(ended)


def verify(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, START, "kerncap.__main__", "verify", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def judge() -> int:
    """The process that stays."""
    with Folder() as folder:
        [name] = folder.names()
        connected = folder.connect(name)
        assert connected is not None
        with connected:
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                if name.encode() in entry.read_bytes():
                    return int(entry.parent.name)
    raise AssertionError("it is not there")


def test_commands_share_a_process_and_say_what_they_say_alone(repro: Path) -> None:
    alone = verify(repro)
    assert alone.returncode == 0 and alone.stderr == ""
    first = verify(repro, "--resident")
    pid = judge()
    workers = set(descendants(pid))
    second = verify("--resident", repro)
    assert first.stdout == second.stdout == alone.stdout
    assert (judge(), set(descendants(pid))) == (pid, workers), "a worker of the first verdict gave the second"
    wrong = verify(repro, "--resident", "--stages", "nothing")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == verify(repro, "--stages", "nothing").stderr
    stopped = verify("--stop")
    assert stopped.stdout == f"ended: process {pid}\n"
    for each in (pid, *workers):
        gone(each)
    assert verify("--stop").stdout == "no process of --resident is running\n"


def test_what_it_has_started_ends_with_it(repro: Path) -> None:
    verify(repro, "--resident")
    pid = judge()
    started = descendants(pid)
    assert len(started) >= 2  # what forks, and a worker
    os.kill(pid, signal.SIGKILL)
    for each in (pid, *started):
        gone(each)
    again = verify(repro, "--resident")  # in place of one that left its socket
    assert again.returncode == 0 and judge() != pid


def test_another_environment_is_another_judge(repro: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = own_name()
    monkeypatch.setenv("SHLVL", "17")
    assert own_name() == name
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert own_name() != name
    monkeypatch.setattr(judge_socket.kerncap, "__version__", "0.0.0")
    assert len({name, own_name()}) == 2


def test_it_ends_when_nobody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.001)
    with Folder() as folder:
        listening = folder.listen("a.judge")
        waiting = folder.connect("a.judge")
        assert waiting is not None
        with waiting, listening:
            found = server._next(folder, "a.judge", listening)
            assert found is not None, "one that has found it is still served"
            found.close()
            assert folder.names() == ["a.judge"]
            assert server._next(folder, "a.judge", listening) is None
            assert folder.names() == []


def test_one_who_leaves_in_the_middle_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it runs; one who leaves with the answer does not."""
    told = threading.Event()
    monkeypatch.setattr(os, "kill", lambda pid, number: told.set() if number == signal.SIGTERM else None)
    ours, theirs = socket.socketpair()
    with ours, server._Watched(ours) as watched:
        watched.send({"stream": 1, "text": "x"})
        theirs.close()
        told.wait()
    told.clear()
    ours, theirs = socket.socketpair()
    with ours:
        with server._Watched(ours) as watched:
            pass
        theirs.close()
        for thread in threading.enumerate():
            if thread.daemon and thread is not threading.current_thread() and thread.name.endswith("(_wait)"):
                thread.join()
    assert not told.is_set()


def test_a_folder_that_others_can_open_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kerncap").mkdir(mode=0o750)
    (tmp_path / "kerncap").chmod(0o750)
    with pytest.raises(UsageError, match="other users may open it"):
        Folder()
    (tmp_path / "kerncap").rmdir()
    (tmp_path / "kerncap").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="set XDG_RUNTIME_DIR"):
        Folder()
    (tmp_path / "kerncap").unlink()


def test_a_process_of_another_user_is_not_talked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with Folder() as folder, folder.listen("a.judge") as listening:
        assert not os.get_inheritable(listening.fileno())
        uid = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
        with pytest.raises(UsageError, match="another user's process"):
            folder.connect("a.judge")
        connected, _ = listening.accept()
        with connected:
            assert not judge_socket.is_own(connected)
        monkeypatch.setattr(os, "geteuid", lambda: uid)
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(f"/proc/self/fd/{folder._fd}/a.judge")
            assert judge_socket.is_own(stranger)
        folder.remove("a.judge")
