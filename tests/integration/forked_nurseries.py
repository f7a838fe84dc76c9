"""What judges on the CPU, with no import of torch for each command: one process has loaded it, and forks.

`kerncap` starts a process that loads torch and Triton, and forks its workers (`kerncap.replay.nursery`).
Under `forked_commands` that process is a fork itself. How users start it, `tests/unit/replay` shows.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

# Prefixes of variables that only the start of a process, or the import of torch, reads.
_AT_START = ("PYTHON", "LD_", "LANG", "LC_", "OMP_", "MKL_", "OPENBLAS_", "MALLOC_", "GLIBC_", "TORCH")
_PR_SET_PDEATHSIG = 1
_MOST_BYTES = 1 << 17  # of a request
_KIND = "interpreter"


def serve_apart() -> str:
    """The address of a process that forks; it loads nothing before it is asked, and ends with this one."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    address = f"\0kerncap-tests-{os.getpid()}"
    listening.bind(address)
    listening.listen(64)
    if not os.fork():
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _serve(listening)
    listening.close()
    return address


def install(address: str, at_start: Mapping[str, str]) -> None:
    """In a command: its nurseries are forks, if they would be started in the environment of that process."""
    from kerncap.replay.nursery import Nursery
    from kerncap.replay.worker_process import Process

    own = Nursery._started

    def started(nursery: Nursery, control: int) -> Process:
        same_python = (nursery.kind, nursery.python, nursery.prefix) == (_KIND, sys.executable, ())
        if same_python and _of_start(nursery.environment) == at_start:
            return _fork(address, nursery.environment, control)
        return own(nursery, control)

    Nursery._started = started  # type: ignore[method-assign]


def at_start() -> dict[str, str]:
    """What an environment must have in common with this process's."""
    return _of_start(os.environ)


def _of_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


def _fork(address: str, environment: dict[str, str], control: int) -> Any:
    from kerncap.child import Tie
    from kerncap.replay.nursery import _Fork

    class Reaped:
        def reap(self, pid: int) -> int:
            """Its parent has done so: nobody asks how a nursery ended."""
            return 0

    tie = Tie()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(address)
        socket.send_fds(asking, [json.dumps(environment).encode()], [control, tie.held])
        return _Fork(Reaped(), int(asking.recv(64)), tie)  # type: ignore[arg-type]


# --- in the process ------------------------------------------------------------------------------------


def _serve(listening: socket.socket) -> NoReturn:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != listening.fileno():
            with contextlib.suppress(OSError):
                os.close(fd)
    os.environ["TRITON_INTERPRET"] = "1"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    bootstrap: Any = None
    while True:
        asked, _ = listening.accept()
        message, given, _, _ = socket.recv_fds(asked, _MOST_BYTES, 2)
        bootstrap = bootstrap or _loaded()
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            listening.close()
            asked.close()
            _be(bootstrap, json.loads(message), given[0])
        with contextlib.suppress(OSError):  # it has done so itself
            os.setpgid(pid, pid)
        for fd in given:
            os.close(fd)
        asked.send(str(pid).encode())
        asked.close()


def _loaded() -> Any:
    """`bootstrap`, with all that a nursery loads."""
    replay = importlib.util.find_spec("kerncap.replay")
    assert replay is not None and replay.submodule_search_locations
    folder = os.path.join(replay.submodule_search_locations[0], "worker")
    spec = importlib.util.spec_from_file_location("bootstrap", os.path.join(folder, "bootstrap.py"))
    assert spec is not None and spec.loader is not None
    bootstrap = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bootstrap)
    gc.disable()
    bootstrap._load(folder)
    importlib.import_module("_kerncap_worker.nursery")._load(_KIND)
    return bootstrap


def _be(bootstrap: Any, environment: dict[str, str], control: int) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(environment)
        what, *rest = sys.modules["_kerncap_worker.nursery"].serve(control)
        bootstrap._be(what, *rest)
        bootstrap._end()
    finally:
        os._exit(1)
