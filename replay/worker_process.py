"""One worker process: started, spoken to in JSON lines, timed, buried."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from kerncap import child, unexpected_error
from kerncap.errors import ReplayError
from kerncap.replay.choose_engine import Choice
from kerncap.replay.outcome import KILLED
from kerncap.replay.running_worker import Process, Running
from kerncap.replay.worker import protocol, typed_json
from kerncap.replay.worker.protocol import Backend, Failure, Hello, Place

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_BOOTSTRAP = Path(__file__).parent / "worker" / "bootstrap.py"
_HELLO_TIMEOUT_S = 120.0
_LOG_TAIL_BYTES = 8192


class WorkerDied(Exception):
    """The worker's process is gone; the message says how."""


class WorkerKilled(WorkerDied):
    """It got SIGKILL, and not from us: that says nothing of the kernel."""

    def __init__(self) -> None:
        super().__init__(KILLED)


class WorkerFailed(ReplayError):
    """kerncap's own code in the worker met what it did not expect: that says nothing of the kernel either."""


class WorkerTimeout(Exception):
    """No answer in time; the worker was killed."""


class Refusal(Exception):
    """The worker can't do what was asked, with its reason; it lives on."""


class TargetError(Exception):
    """The kernel or a user's file raised while loading; ``detail`` is the traceback."""

    def __init__(self, message: str, detail: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.detail = detail
        self.place = place


class Started(Running):
    """One that was started; its arguments say what it does.

    ``prefix`` is what its Python is started by: a program that becomes it, and keeps its descriptors.
    """

    def __init__(
        self, python: str, environment: dict[str, str], arguments: Sequence[str], log: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """``log`` takes what it prints, and the process is in its folder; else in an empty one."""
        to_worker_read, self.requests = os.pipe()
        self.replies, from_worker_write = os.pipe()
        given = (*arguments, str(to_worker_read), str(from_worker_write))
        try:
            with open(log or os.devnull, "ab") as output:
                self.process = child.Child(
                    [*prefix, *child.python(python, _BOOTSTRAP, *given)], stdout=output, stderr=output,
                    env=environment, cwd=None if log is None else log.parent,
                    pass_fds=(to_worker_read, from_worker_write),
                )  # fmt: skip
        except OSError as error:
            os.close(self.requests)
            os.close(self.replies)
            raise ReplayError(f"{[*prefix, python][0]}: can't be started: {error}") from error
        finally:
            os.close(to_worker_read)
            os.close(from_worker_write)


class Ahead(Protocol):
    """What was started before it is known what for: see `nursery.Nursery`."""

    def fits(self, python: str, environment: dict[str, str], prefix: Sequence[str] = ()) -> bool:
        """Whether what it becomes is as a process that is started now would be."""
        ...

    def become(self, log: Path, arguments: Sequence[str]) -> Running:
        """A process that does as its arguments say. Raises ReplayError if it is gone."""
        ...


Program: TypeAlias = "Callable[[str, Sequence[str], Mapping[str, str], Path, Path], Process]"


class Shared(Protocol):
    """What engines share: see `pool.Pool`."""

    def nursery(self, choice: Choice) -> Ahead | None:
        """What becomes a worker for a choice, if there is anything."""
        ...

    def program(
        self, python: str, words: Sequence[str], environment: Mapping[str, str], log: Path, module: Path
    ) -> Process:
        """See `program`."""
        ...


def program(
    python: str, words: Sequence[str], environment: Mapping[str, str], log: Path, module: Path
) -> Process:  # fmt: skip
    """A process of the worker's code that does as its words say, and ends; in the folder of its log.

    ``module`` is what it compiles. Raises OSError.
    """
    with log.open("wb") as file:
        command = child.python(python, _BOOTSTRAP, *words)
        return child.Child(command, stdout=file, stderr=file, env=environment, cwd=log.parent)


class Worker:
    """A running worker. ``taken`` are the regions that it could not place; ``is_idle``: it has answered all
    that it was asked.

    ``prefix`` as for `Started`; ``ahead`` is what fits, and becomes it. ``meanwhile`` is called as it starts.
    """

    def __init__(
        self, python: str, job: Path, log: Path, environment: dict[str, str], relocate: bool,
        prefix: Sequence[str] = (), ahead: Ahead | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._log = log
        arguments = ["serve", str(job), "1" if relocate else "0"]
        started: Running
        if ahead is not None:
            started = ahead.become(log, arguments)
        else:
            started = Started(python, environment, arguments, log, prefix)
        self._ended_by_us = False
        self.is_idle = False
        self._process, self._requests, self._replies = started.process, started.requests, started.replies
        self._lines = typed_json.Lines(self._replies)
        try:
            meanwhile()
            hello = self._read(_HELLO_TIMEOUT_S, functools.partial(typed_json.read, Hello))
        except BaseException:
            self.close()
            raise
        self.refused, self.taken = hello.refused, hello.taken

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def request(
        self, timeout_s: float, operation: Callable[Concatenate[Backend, P], R], *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:  # fmt: skip
        """The result of one operation.

        Raises Refusal, TargetError, WorkerDied or WorkerTimeout; after the last two the worker is gone.
        """
        self.is_idle = False
        try:
            typed_json.send(self._requests, protocol.request(operation, *args, **kwargs))
        except OSError as error:
            self.close()
            raise self._death() from error
        result = self._read(timeout_s, functools.partial(protocol.read_reply, operation))
        self.is_idle = True
        if isinstance(result, Failure):
            raise self._error(operation.__name__, result)
        return result

    def _error(self, operation: str, failed: Failure) -> Exception:
        if failed.kind == "refused":
            return Refusal(failed.message)
        if failed.kind == "error":
            return TargetError(failed.message, failed.detail, failed.place)
        if failed.kind == "internal":
            detail = "; ".join(unexpected_error.debugged(failed.detail))
            message = f"the replay worker failed in {operation}: {failed.message}"
            return WorkerFailed(f"{message}{detail and '; ' + detail}")
        if failed.kind == "killed":
            return WorkerKilled()
        self.close()
        return WorkerDied(failed.message) if failed.kind == "fault" else WorkerTimeout(failed.message)

    def let_end(self) -> None:
        """Nothing more is asked of it: it ends by itself."""
        for fd in (self._requests, self._replies):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._requests = self._replies = -1

    def close(self) -> None:
        """End the process; nothing happens the second time."""
        self.let_end()
        try:
            self._process.wait(timeout=1.0 if self._process.poll() is None else None)
        except subprocess.TimeoutExpired:
            self._kill()

    def log_tail(self) -> str:
        """The end of what the worker and the kernel printed."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL_BYTES))
                return file.read().decode(errors="replace").strip()
        except OSError:
            return ""

    def _kill(self) -> None:
        self._ended_by_us = True
        self._process.end()  # with its group: a launch on the host runs in a child of the worker

    def _read(self, timeout_s: float, decode: Callable[[bytes], T]) -> T:
        try:
            line = self._lines.next(timeout_s)
            if line is not None:
                return decode(line)
        except TimeoutError:
            self._kill()
            self.close()
            raise WorkerTimeout(f"no answer within {timeout_s:g} s") from None
        except typed_json.Unreadable as error:
            self._kill()
            self.close()
            why = f"its answer can't be read: something else writes to its pipe ({error})"
            raise WorkerDied(why) from None
        self.close()
        raise self._death()

    def _death(self) -> WorkerDied:
        code = self._process.returncode
        if code == -signal.SIGKILL and not self._ended_by_us:
            return WorkerKilled()
        if code is not None and code < 0:
            return WorkerDied(f"the kernel died with {signal.Signals(-code).name}")
        last = self.log_tail().splitlines()[-1:] or ["it printed nothing"]
        return WorkerDied(f"the replay worker ended with status {code}: {last[0]}")
