"""What judges and compiles, with no import of torch or numpy for each command: a process has it, and forks.

`kerncap` starts a nursery, a process that loads what workers need and forks them (`kerncap.replay.nursery`).
Under `forked_commands` that process is a fork itself: for Triton's interpreter and its compiler of one that
has torch, for all else of one that was started as the nursery would be. How users start it,
`tests/unit/replay` shows.
Compilers are always forks here, as they are for a user where more verdicts follow (`kerncap.replay.pool`).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from unittest import mock

from tests.integration.forked_torch import make_forks_cheap, of_start

if TYPE_CHECKING:
    from kerncap.replay.nursery import Nursery
    from kerncap.replay.pool import Pool
    from kerncap.replay.worker_process import Program

INTERPRETER, COMPILERS = ("interpreter",), ("compiled", "compiler")
_MOST_BYTES = 1 << 17  # of a request
_MOST_STARTED = 12
_ROOT = Path(__file__).parents[2]


def install(nurseries: str, compilers: str) -> None:
    """In a command: its nurseries, workers and compilers are forks."""
    from kerncap.replay.nursery import Nursery
    from kerncap.replay.pool import Pool

    Nursery._started = _started_by({INTERPRETER: nurseries, COMPILERS: compilers}, nurseries)  # type: ignore[method-assign]
    use_compilers(compilers, setattr)
    use_nurseries(Pool(), setattr)


def use_nurseries(pool: Pool, put: Callable[[Any, str, Any], None]) -> None:
    """Workers that no nursery would fork are forked by the pool's; ``put`` as in `use_compilers`."""
    from kerncap.replay.connection import Connection

    connect = Connection.__init__

    def connected(self: Connection, choice: Any, job: Any, opened: Any, ahead: Nursery | None = None) -> None:
        connect(self, choice, job, opened, ahead or pool.nursery(choice))

    put(Connection, "__init__", connected)


def use_compilers(address: str, put: Callable[[Any, str, Any], None]) -> None:
    """What is compiled apart is compiled by forks; ``put`` is `setattr`, or a test's."""
    from kerncap.api import compiled_stages, compiled_ttir
    from kerncap.replay import engine, worker_process

    own, run, forked = worker_process.program, compiled_ttir.run_compiler, _program(address)

    def run_compiler(program: Program, *rest: Any) -> Any:
        return run(forked if program is own else program, *rest)

    for module in (engine, worker_process):
        put(module, "program", forked)
    for module in (compiled_ttir, compiled_stages):
        put(module, "run_compiler", run_compiler)


@functools.cache
def _program(address: str) -> Program:
    from kerncap.replay import worker_process
    from kerncap.replay.nursery import Nursery
    from kerncap.replay.pool import Pool, _compilers, _Started
    from kerncap.replay.running_worker import Process

    pool, lock, own = Pool(), threading.Lock(), worker_process.program
    started = _started_by({COMPILERS: address}, None)
    atexit.register(pool.close)

    def program(
        python: str, words: Sequence[str], environment: Mapping[str, str], log: Path, module: Path
    ) -> Process:
        nursery = None
        if python == sys.executable:
            with lock, mock.patch.object(Nursery, "_started", started):
                nursery = pool._nursery(_Started.of(_compilers(module), python, environment, ()))
        return nursery.program(words, log) if nursery else own(python, words, environment, log, module)

    return program


def of_pool(address: str) -> Any:
    """Nurseries of a test's own process are forks, too: a context manager."""
    from kerncap.replay.nursery import Nursery

    return mock.patch.object(Nursery, "_started", _started_by({INTERPRETER: address}, None))


def _started_by(addresses: dict[tuple[str, ...], str], others: str | None) -> Callable[[Any, int], Any]:
    """In place of `Nursery._started`: by the process that serves its kind, or by ``others``."""
    from kerncap.replay.nursery import Nursery

    own = Nursery._started

    def started(nursery: Nursery, control: int) -> Any:
        address = next((at for kinds, at in addresses.items() if nursery.kind in kinds), others)
        forked = None
        if address is not None and nursery.python == sys.executable:
            forked = _fork(address, nursery, control)
        return forked or own(nursery, control)

    return started


def _fork(address: str, nursery: Any, control: int) -> Any:
    """None if it can't be started."""
    from kerncap import child
    from kerncap.child import Tie
    from kerncap.replay.nursery import _Fork

    class Reaped:
        def reap(self, pid: int) -> int:
            """Its parent has done so: nobody asks how a nursery ended."""
            return 0

    asked = json.dumps([nursery.kind, nursery.prefix, child.environment(nursery.environment)])
    tie = Tie()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(address)
        socket.send_fds(asking, [asked.encode()], [control, tie.held])
        pid = int(asking.recv(64) or 0)
        if not pid:
            tie.cut()
            return None
        return _Fork(Reaped(), pid, tie)  # type: ignore[arg-type]


# --- in the process that has torch -----------------------------------------------------------------------


def serve(kinds: tuple[str, ...], listening: socket.socket) -> NoReturn:
    """Fork for each request, or let a process do so that was started for its kind and environment."""
    at_start = of_start(os.environ)
    os.environ.pop("TRITON_INTERPRET", None)
    if kinds == INTERPRETER:
        os.environ["TRITON_INTERPRET"] = "1"
    bootstrap: Any = None
    others: dict[bytes, socket.socket] = {}  # the one used last is the last
    while True:
        asked, _ = listening.accept()
        message, given, _, _ = socket.recv_fds(asked, _MOST_BYTES, 2)
        kind, prefix, environment = json.loads(message)
        if kind in kinds and not prefix and of_start(environment) == at_start:
            bootstrap = bootstrap or _loaded(kinds[0])
            pid = _forked(bootstrap, given, environment, [listening, asked, *others.values()])
        else:
            other = others.pop(message, None) or _started(kind, prefix, environment)
            pid = _asked(other, given)
            if pid:
                others[message] = other
            if len(others) > _MOST_STARTED:
                others.pop(next(iter(others))).close()
        for fd in given:
            os.close(fd)
        with contextlib.suppress(OSError):  # whoever asked is gone
            asked.send(str(pid).encode())
        asked.close()


def _started(kind: str, prefix: list[str], environment: dict[str, str]) -> socket.socket:
    """The socket of a process that has loaded this kind; of none if it can't be started."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, contextlib.suppress(OSError):
        subprocess.Popen(
            [*prefix, sys.executable, "-m", __name__, kind, str(theirs.fileno())], env=environment, cwd=_ROOT,
            pass_fds=[theirs.fileno()],
        ).returncode = 0  # nobody waits for it  # fmt: skip
    return ours


def _asked(other: socket.socket, given: list[int]) -> int:
    """The process that it has forked; 0 if it is gone."""
    try:
        socket.send_fds(other, [b"?"], given)
        return int(other.recv(64) or 0)
    except OSError:
        return 0


def _forked(
    bootstrap: Any, given: list[int], environment: dict[str, str] | None, of_parent: list[Any]
) -> int:
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        for each in of_parent:
            each.close()
        _be(bootstrap, environment, given[0])
    with contextlib.suppress(OSError):  # it has done so itself
        os.setpgid(pid, pid)
    return pid


def _loaded(kind: str) -> Any:
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
    importlib.import_module("_kerncap_worker.nursery")._load(kind)
    make_forks_cheap()
    return bootstrap


def _be(bootstrap: Any, environment: dict[str, str] | None, control: int) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if environment is not None:
            os.environ.clear()
            os.environ.update(environment)
        what, *rest = sys.modules["_kerncap_worker.nursery"].serve(control)
        bootstrap._be(what, *rest)
        bootstrap._end()
    finally:
        os._exit(1)


# --- in a process that was started ------------------------------------------------------------------------


def _serve_kind(kind: str, control: socket.socket) -> None:
    """Fork for each request until the other side is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    bootstrap = _loaded(kind)
    while True:
        message, given, _, _ = socket.recv_fds(control, 1, 2)
        if not message:
            return
        pid = _forked(bootstrap, given, None, [control])
        for fd in given:
            os.close(fd)
        control.send(str(pid).encode())


if __name__ == "__main__":
    del sys.path[0]  # the folder of the checkout
    with socket.socket(fileno=int(sys.argv[2])) as _control:
        _serve_kind(sys.argv[1], _control)
