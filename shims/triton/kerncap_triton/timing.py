"""`kerncap list`: how long each kernel took, without capturing anything."""

from __future__ import annotations

import time
from typing import Any, Callable, List, Optional, Tuple

from . import cuda
from .kernels import Counters
from .session import Session

MAX_PENDING = 1024
EXIT_TIMEOUT_S = 5.0


class Timing:
    """The two halves around a launch: the clock under the interpreter, events on a device."""

    def __init__(self, session: Session, counters: Counters) -> None:
        self.session = session
        self.counters = counters
        self.again: Optional[Callable[[], Any]] = None
        self._start: Any = None
        self._started_ns = 0

    def begin(self) -> None:
        if self.counters.kernel.mode != "interpreter" and cuda.is_live() and not cuda.is_capturing():
            self._start = cuda.torch_module().cuda.Event(enable_timing=True)
            self._start.record()
        self._started_ns = time.perf_counter_ns()

    def finish(self, result: Any) -> None:
        if self._start is None:
            elapsed = time.perf_counter_ns() - self._started_ns
            if self.counters.kernel.mode == "interpreter":
                self.counters.time_ns += elapsed
            return
        end = cuda.torch_module().cuda.Event(enable_timing=True)
        end.record()
        pending = pending_of(self.session)
        pending.add(self._start, end, self.counters)
        self.session.tick_counts()

    def raised(self, error: BaseException) -> None:
        pass

    def fail(self, reason: str) -> None:
        self.session.failed(self.counters.kernel.qualified_name, f"a launch could not be timed: {reason}")

    def refuse(self, reason: str) -> None:
        pass


class Pending:
    """Pairs of events whose work may not be done yet; read when it is, so that no launch waits."""

    def __init__(self) -> None:
        self._pairs: List[Tuple[Any, Any, Counters]] = []

    def add(self, start: Any, end: Any, counters: Counters) -> None:
        self._pairs.append((start, end, counters))
        if len(self._pairs) >= MAX_PENDING:
            self.collect()

    def collect(self, wait: bool = False) -> None:
        left = []
        for start, end, counters in self._pairs:
            if end.query() or (wait and cuda.drain(end, EXIT_TIMEOUT_S)):
                counters.time_ns += int(start.elapsed_time(end) * 1e6)
            else:
                left.append((start, end, counters))
        self._pairs = left


def pending_of(session: Session) -> Pending:
    pending = session.resources.get("timing")
    if pending is None:
        pending = session.resources["timing"] = Pending()
        session.at_exit.append(lambda: pending.collect(wait=True))
    return pending
