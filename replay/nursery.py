"""Workers without the wait for their start: each is a fork of a process that has loaded what they need.

What is forked is as private to its job as a process that is started: nothing ran in it before. See
`worker/nursery.py` for the other side.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from kerncap import child
from kerncap.child import Tie
from kerncap.errors import ReplayError
from kerncap.replay.running_worker import Process, Running
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.cuda_bindings import has_driver
from kerncap.replay.worker.nursery_messages import Asked, Told
from kerncap.replay.worker_environment import environment_of

Kind: TypeAlias = Literal["cuda", "hip", "compiler", "compiled", "interpreter"]

_BOOTSTRAP = Path(__file__).parent / "worker" / "bootstrap.py"
_LOAD_TIMEOUT_S = 300.0  # torch and Triton from a cold disk
_MOST_BYTES = 1 << 12


class Nursery:
    """A process that loads what workers of a kind need, and then forks any number of them.

    It starts, and loads, beside whatever else its owner does. It ends with its owner, and so do its forks.
    """

    def __init__(
        self, python: str, environment: dict[str, str], kind: Kind, prefix: Sequence[str] = (),
        begin: bool = False,
    ) -> None:  # fmt: skip
        """``prefix`` as for `process.Started`. ``begin``: the first fork starts CUDA's driver before it is
        asked for. Raises ReplayError if it can't be started.
        """
        self.kind: Kind = kind
        self._begins = begin
        self.python, self.environment, self.prefix = python, environment, tuple(prefix)
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = self._started(theirs.fileno())
            self._control.settimeout(_LOAD_TIMEOUT_S)
            self._control.send(typed_json.line(Asked("load", [kind])))
        except OSError as error:
            self._control.close()
            raise ReplayError(f"{[*prefix, python][0]}: can't be started: {error}") from error
        finally:
            theirs.close()

    def _started(self, control: int) -> Process:
        """The process that loads, and forks. Raises OSError."""
        words = child.python(self.python, _BOOTSTRAP, "nursery", str(control))
        if self._begins:
            words.append("begin")
        return child.Child(
            [*self.prefix, *words], env=self.environment, pass_fds=(control,), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def fits(self, python: str, environment: dict[str, str], prefix: Sequence[str] = ()) -> bool:
        """Whether its forks are as processes that are started now would be."""
        same = (python, environment, tuple(prefix)) == (self.python, self.environment, self.prefix)
        return same and self.is_alive

    @property
    def is_alive(self) -> bool:
        return self._control.fileno() >= 0 and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def become(self, log: Path, arguments: Sequence[str]) -> Running:
        """A fork that does as its arguments say, in the folder of its log. Raises ReplayError."""
        return Forked(self, log, arguments)

    def program(self, words: Sequence[str], log: Path) -> Process:
        """A fork that does as its words say, in the folder of its log, and ends. Raises ReplayError."""
        tie = Tie()
        try:
            return _Fork(self, self.fork([*words, str(log)], (tie.held,)), tie)
        except BaseException:
            tie.cut()
            raise

    def fork(self, words: Sequence[str], given: Sequence[int]) -> int:
        """The process of a new fork, which gets these descriptors. Raises ReplayError."""
        return self._ask(Asked("fork", list(words)), given)

    def reap(self, pid: int) -> int:
        """The status of a fork that has ended."""
        try:
            return self._ask(Asked("reap", [str(pid)]), ())
        except ReplayError:
            return -signal.SIGKILL  # its parent is gone, which knew

    def close(self) -> None:
        """End it; its forks live on, for as long as its owner. Nothing happens the second time."""
        with self._lock:
            if self._control.fileno() >= 0:
                self._control.close()
                self._process.end()

    def _ask(self, asked: Asked, given: Sequence[int]) -> int:
        with self._lock:
            try:
                socket.send_fds(self._control, [typed_json.line(asked)], list(given))
                return typed_json.read(Told, self._control.recv(_MOST_BYTES)).number
            except (OSError, typed_json.Unreadable) as error:
                raise ReplayError(
                    f"{self.python}: the process that forks workers is gone: {error}"
                ) from error


_begun: list[Nursery | None] = []  # before the command that wants it was loaded


@contextlib.contextmanager
def early(words: Sequence[str]) -> Iterator[None]:
    """What `ahead` will give, before the command of these words is loaded, if it only replays or judges."""
    with contextlib.ExitStack() as stack:
        if all(word in ("--trust", "--json") or not word.startswith("-") for word in words):
            _begun.append(stack.enter_context(ahead()))
        yield
        _begun.clear()


@contextlib.contextmanager
def ahead() -> Iterator[Nursery | None]:
    """One for CUDA launches, if they may be replayed here, before it is known what will be."""
    begun = _begun.pop() if _begun else None
    if begun is None and has_driver():
        with contextlib.suppress(ReplayError):
            begun = Nursery(sys.executable, environment_of("native"), "cuda", begin=True)
    try:
        yield begun
    finally:
        if begun is not None:
            begun.close()


class Forked(Running):
    """A fork, and the pipes to it."""

    def __init__(self, nursery: Nursery, log: Path, arguments: Sequence[str]) -> None:
        reading, self.requests = os.pipe()
        self.replies, writing = os.pipe()
        tie = Tie()
        try:
            pid = nursery.fork([*arguments, str(log)], (reading, writing, tie.held))
        except BaseException:
            os.close(self.requests)
            os.close(self.replies)
            tie.cut()
            raise
        finally:
            os.close(reading)
            os.close(writing)
        self.process = _Fork(nursery, pid, tie)


class _Fork:
    """A process that is not this one's child: its nursery keeps its number until it is reaped."""

    def __init__(self, nursery: Nursery, pid: int, tie: Tie) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery
        self._tie = tie
        tie.bind(pid)
        try:
            self._ended = os.pidfd_open(pid)
        except OSError:
            self._ended = -1  # its nursery has ended, and it too

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its status. Raises TimeoutExpired after ``timeout`` seconds."""
        if self.returncode is None:
            if self._ended >= 0 and not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            self.returncode = self._nursery.reap(self.pid)
            self._tie.cut()
            if self._ended >= 0:
                os.close(self._ended)
        return self.returncode

    def end(self) -> int:
        """End it, and what it started, at once; its status."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        return self.wait()
