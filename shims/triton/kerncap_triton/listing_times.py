"""`kerncap list`: how long each kernel took, without capturing anything."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import native_shims, nvtx_ranges, timeline, torch_device
from .call import Call
from .contract import key, word
from .kernels import Counters
from .listing_rows import Key, Row, Rows
from .session import Session

MAX_PENDING = 1024
ORIGIN_TIMEOUT_S = 1.0
ORIGIN_LASTS_NS = 4_000_000_000  # events tell the time between two as a float of milliseconds
EXIT_TIMEOUT_S = 5.0
_BY_HOST: Dict[str, Any] = {
    key.clock: word.clock.host,
    key.clock_reason: "Triton's interpreter runs on the CPU",
}
_BY_EVENTS: Dict[str, Any] = {
    key.clock: word.clock.events,
    key.clock_reason: "no native shim of kerncap is live in this process",
}
_BY_NONE: Dict[str, Any] = {
    key.clock: None,
    key.clock_reason: "launches outside of torch's CUDA or inside a graph capture are not timed",
}


class Timing:
    """The two halves around a launch: the clock under the interpreter, events on a device.

    Where a native shim is live, it alone measures; the hook tells it what the launch is.
    """

    def __init__(self, session: Session, counters: Counters, call: Call) -> None:
        self.session = session
        self.counters = counters
        self.call = call  # Inductor's is known better once its launcher is
        self._config = ""
        self.again: Optional[Callable[[], Any]] = None
        self._row: Optional[Row] = None
        self._thing: Optional[Dict[str, Any]] = None  # for the timeline
        self._start: Any = None
        self._started_ns = 0

    def begin(self) -> None:
        kernel = self.counters.kernel
        configuration, self._config = self.call.configuration(self.counters.configurations)
        with self.session.lock:
            self.counters.configs.add(configuration)
        shim = native_shims.serving(kernel.mode)
        if shim is not None and shim.takes_config:
            shim.config(f"{kernel.qualified_name}\t{self._config}")
            self.session.resources.setdefault("clock", {key.clock: None, key.clock_reason: None})
            return
        with self.session.lock:
            alike = self._key()
            self._row = self.counters.rows.launched(alike)
        if timeline.is_on:
            self._thing = {key.kind: word.timed.launch, key.name: kernel.qualified_name}
            self._thing.update({key.config: self._config or None, key.stream: alike.stream})
            self._thing.update({key.device: alike.device, key.grid: alike.grid})
        clock = _BY_HOST
        if kernel.mode != word.mode.interpreter:
            clock = _BY_EVENTS if torch_device.is_live() and not torch_device.is_capturing() else _BY_NONE
        self._said(clock)
        if clock is _BY_EVENTS:
            self._start = torch_device.torch_module().cuda.Event(enable_timing=True)
            self._start.record()
        self._started_ns = time.perf_counter_ns()

    def finish(self, result: Any) -> None:
        elapsed_ns = time.perf_counter_ns() - self._started_ns
        if self._row is None:
            return self.session.tick_counts()
        if self._start is not None:
            end = torch_device.torch_module().cuda.Event(enable_timing=True)
            end.record()
            pending_of(self.session).add(self._start, end, self.counters.rows, self._row, self._thing)
        elif self.counters.kernel.mode == word.mode.interpreter:
            with self.session.lock:
                self.counters.rows.took(self._row, elapsed_ns)
            if self._thing is not None:
                timeline.add(self._thing, self._started_ns, elapsed_ns)
        self.session.tick_counts()

    def _key(self) -> Key:
        call, on_host = self.call, self.counters.kernel.mode == word.mode.interpreter
        try:
            grid: Optional[Tuple[int, int, int]] = call.grid_value()
        except Exception:  # the launch itself is about to say so
            grid = None
        return Key(
            grid=grid,
            config=self._config,
            stream=None if on_host else str(call.stream_number()),
            device=None if on_host else call.device()[1],
            range=tuple(nvtx_ranges.names()),
            route=self.counters.kernel.mode,
        )

    def _said(self, clock: Dict[str, Any]) -> None:
        """The best clock that measured anything is the process's."""
        known = self.session.resources.get("clock")
        if known is None or known is _BY_NONE or clock is _BY_EVENTS:
            self.session.resources["clock"] = clock

    def raised(self, error: BaseException) -> None:
        pass

    def fail(self, reason: str) -> None:
        self.session.failed(self.counters.kernel.qualified_name, f"a launch could not be timed: {reason}")

    def refuse(self, reason: str) -> None:
        pass


class Pending:
    """Pairs of events whose work may not be done yet; read when it is, so that no launch waits."""

    def __init__(self) -> None:
        self._pairs: List[Tuple[Any, ...]] = []
        self._origins: Dict[Any, Tuple[Any, int]] = {}  # by device: an event, and its time on the host

    def add(self, start: Any, end: Any, rows: Rows, row: Row, thing: Optional[Dict[str, Any]]) -> None:
        origin = self._origin(thing[key.device]) if thing is not None else (None, 0)
        self._pairs.append((start, end, rows, row, thing, origin))
        if len(self._pairs) >= MAX_PENDING:
            self.collect()

    def collect(self, wait: bool = False) -> None:
        left = []
        for pair in self._pairs:
            start, end, rows, row, thing, origin = pair
            if end.query() or (wait and torch_device.drain(end, EXIT_TIMEOUT_S)):
                elapsed_ns = int(start.elapsed_time(end) * 1e6)
                rows.took(row, elapsed_ns)
                event, time_ns = origin
                if event is not None:
                    timeline.add(thing, time_ns + int(event.elapsed_time(start) * 1e6), elapsed_ns)
            else:
                left.append(pair)
        self._pairs = left

    def _origin(self, device: Any) -> Tuple[Any, int]:
        """Recorded on a stream of ours, which waits for no other: the target's work goes on as it is."""
        known = self._origins.get(device)
        may_renew = known is not None and known[0] is not None
        if known is None or (may_renew and time.perf_counter_ns() - known[1] > ORIGIN_LASTS_NS):
            module = torch_device.torch_module().cuda
            event = module.Event(enable_timing=True)
            stream, started_ns = module.Stream(), time.perf_counter_ns()
            event.record(stream)
            # Streams may share a queue with a kernel that waits for this thread.
            passed = torch_device.drain(event, ORIGIN_TIMEOUT_S)
            middle_ns = (started_ns + time.perf_counter_ns()) // 2
            known = self._origins[device] = event if passed else None, middle_ns
        return known


def pending_of(session: Session) -> Pending:
    pending = session.resources.get("timing")
    if pending is None:
        pending = session.resources["timing"] = Pending()
        session.at_exit.append(lambda: pending.collect(wait=True))
    return pending
