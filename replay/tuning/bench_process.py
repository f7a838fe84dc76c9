"""A bench in a separate process.

What speaks with a cluster takes the interpreter's lock thousands of times a second: in the process that
runs trials, each would wait for it.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from kerncap import child
from kerncap.errors import KerncapError, ReplayError
from kerncap.replay import trust
from kerncap.replay.tuning.bench import Bench, ReproducerBench
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import Final, Trial
from kerncap.replay.tuning.trial_launch import BenchOptions

_END_S = 30.0  # for the engines to end; then the process is killed
# A reply of an engine waits for the interpreter's lock while configurations are announced: so long at most.
_SWITCH_S = 0.0002


class BenchApart:
    """A `Bench` in a process that this one starts, and that ends with it; a context manager.

    Several threads may ask at once: trials wait for each other over there, without a gap between them.
    Raises ReplayError for what went wrong in it, and where it is gone.
    """

    def __init__(
        self, reproducers: Mapping[str, Path], options: BenchOptions, ahead: Sequence[Point] = ()
    ) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            fd = theirs.fileno()
            self._process = child.Child(child.kerncap(__name__, str(fd)), pass_fds=(fd,))
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._gone = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._facts: dict[str, Any] = self._ask("open", dict(reproducers), options, list(ahead)).result()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> BenchApart:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def facts(self) -> dict[str, Any]:
        """As `Bench.facts`."""
        return self._facts

    def announce(self, digests: Sequence[str], points: Sequence[Point]) -> None:
        """As `Bench.announce`; returns at once."""
        self._ask("announce", list(digests), list(points))

    def trials(
        self, digests: Sequence[str], given: Point, best_ms: Mapping[str, float], listed: bool = False
    ) -> list[Trial]:
        """As `Bench.trials`."""
        found: list[Trial] = self._ask("trials", list(digests), given, dict(best_ms), listed).result()
        return found

    def finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        """As `Bench.finals`."""
        found: list[Final] = self._ask("finals", dict(points), rounds).result()
        return found

    def close(self) -> None:
        """End the process and what it started; nothing happens the second time."""
        with contextlib.suppress(OSError, ReplayError):
            self._ask("close")
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.end()
        self._reader.join()
        self._connection.close()

    def _ask(self, what: str, *given: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._gone:
                raise ReplayError(self._how())
            number = next(self._numbers)
            self._waiting[number] = future
            try:
                self._connection.send((number, what, given))
            except OSError as error:
                del self._waiting[number]
                raise ReplayError(self._how()) from error
        return future

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, found, problem = self._connection.recv()
                with self._lock:
                    future = self._waiting.pop(number)
                if problem is None:
                    future.set_result(found)
                else:
                    future.set_exception(ReplayError(problem))
        with self._lock:
            self._gone = True
            left = list(self._waiting.values())
            self._waiting.clear()
        for future in left:
            future.set_exception(ReplayError(self._how()))

    def _how(self) -> str:
        status = self._process.poll()
        return f"the process that runs trials ended{'' if status is None else f' with status {status}'}"


class _Server:
    """The other side: answers until it is asked to close, or the other side is gone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._device = ThreadPoolExecutor(1)  # one measurement at a time
        self._ahead = ThreadPoolExecutor(1)

    def serve(self) -> None:
        bench: Bench | None = None
        try:
            while True:
                number, what, given = self._connection.recv()
                if what == "close":
                    return
                if what == "open":
                    bench = self._open(number, given)
                    if bench is None:
                        return
                    continue
                assert bench is not None, "asked before it was opened"
                thread = self._ahead if what == "announce" else self._device
                thread.submit(self._answer, number, getattr(bench, what), given)
        except (EOFError, OSError):
            return  # the process that asked is gone
        finally:
            threads = (self._ahead, self._device)
            for thread in threads:
                thread.shutdown(wait=False, cancel_futures=True)
            if bench is not None:
                bench.close()  # a trial that runs ends with its engine
            for thread in threads:
                thread.shutdown()

    def _open(self, number: int, given: tuple[dict[str, Path], BenchOptions, list[Point]]) -> Bench | None:
        reproducers, options, ahead = given
        opened: list[Bench] = []

        def open_it() -> dict[str, Any]:
            for digest in reproducers:  # the user's yes came with them
                trust.agree(digest)
            opened.append(ReproducerBench(reproducers, options, ahead=ahead))
            return opened[0].facts()

        self._answer(number, open_it, ())
        return opened[0] if opened else None

    def _answer(self, number: int, do: Callable[..., Any], given: Sequence[Any]) -> None:
        """An exception is sent as its words: it might not survive the way."""
        found, problem = None, None
        try:
            found = do(*given)
        except KerncapError as error:
            problem = str(error)
        except Exception:
            problem = traceback.format_exc()
        with self._sending, contextlib.suppress(OSError):
            self._connection.send((number, found, problem))


def main() -> None:
    """Serve over the descriptor that the command line names."""
    sys.setswitchinterval(_SWITCH_S)
    with Connection(int(sys.argv[1])) as connection:
        _Server(connection).serve()
