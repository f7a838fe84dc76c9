"""Many replays in a row, queued: none waits for the host, and only what a run dirties is restored."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cuda.device import Device
from ..protocol import Range, Replays
from .bulk import MAX_COUNTERS, Bulk, pieces
from .cuda_launcher import Launcher
from .states import States

_WARM_UP = 3
_BATCH = 128  # replays between two looks at the clock
_COUNTED = 64  # replays between two looks at what differs
_MOST_TIMES = 100_000

Ranges = list[Range]


class Events:
    """Pairs of timed events, used again and again."""

    def __init__(self, device: Device, pairs: int) -> None:
        self._device = device
        self._record = device.driver.function("cuEventRecord")
        self.pairs = [(self._event(), self._event()) for _ in range(pairs)]

    def _event(self) -> Any:
        return self._device.driver.call("cuEventCreate", 0)

    def record(self, event: Any) -> None:
        self._record(event, self._device.stream)

    def elapsed_ms(self, pair: tuple[Any, Any]) -> float:
        return float(self._device.driver.call("cuEventElapsedTime", *pair))

    def close(self) -> None:
        for pair in self.pairs:
            for event in pair:
                self._device.driver.status("cuEventDestroy", event)


class Graph:
    """A launch that follows itself ``times`` times."""

    def __init__(self, device: Device, launch: Callable[[], None], times: int) -> None:
        """Raises CudaError or Refused if launches can't be captured."""
        self._driver, self._stream = device.driver, device.stream
        mode = self._driver.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._driver.call("cuStreamBeginCapture", self._stream, mode)
        try:
            for _ in range(times):
                launch()
        except BaseException:  # a stream that captures is of no use for anything else
            self._driver.status("cuStreamEndCapture", self._stream)
            raise
        self._graph = self._driver.call("cuStreamEndCapture", self._stream)
        self._executable = self._driver.call("cuGraphInstantiate", self._graph, 0)

    def queue(self) -> None:
        self._driver.call("cuGraphLaunch", self._executable, self._stream)

    def close(self) -> None:
        self._driver.status("cuGraphExecDestroy", self._executable)
        self._driver.status("cuGraphDestroy", self._graph)


class Restore:
    """Queues a state's bytes into memory as the kernel sees it, range by range."""

    def __init__(
        self, device: Device, states: States, launcher: Launcher, state: str, ranges: Ranges
    ) -> None:
        self._stream = device.stream
        self._states = states
        self._state = state
        self._variables = launcher.variables
        self._copy = device.driver.function("cuMemcpyAsync")
        copies = states.resident(state)
        # Words that point to a variable are those of the capture in every state, and arrays have no address.
        self.direct = copies is not None and not self._variables.indirect
        self._calls: list[tuple[Any, Any, int]] = []
        if copies is not None:
            pointer = device.driver.api.CUdeviceptr
            self._calls = [
                (pointer(self._variables.home(region) + start), pointer(copies[region] + start), stop - start)
                for region, start, stop in ranges
            ]
        self._regions = sorted({region for region, _, _ in ranges})

    def queue(self) -> None:
        if self.direct:
            for target, source, size in self._calls:
                self._copy(target, source, size, self._stream)
            return
        self._variables.leave()
        self._states.restore(self._state, self._regions)
        self._variables.enter()


class Repeat:
    """Replays of one launcher in a row."""

    def __init__(self, device: Device, bulk: Bulk, states: States, launcher: Launcher) -> None:
        self._device = device
        self._bulk = bulk
        self._states = states
        self._launcher = launcher

    def times(self, n: int, state: str, ranges: Ranges, limit_s: float) -> Replays:
        """``n`` replays; milliseconds of each launch by events, with the device held busy while the host
        queues, and how many replays came in a second. Raises TimedOut or Fault."""
        launcher, variables = self._launcher, self._launcher.variables
        restore = Restore(self._device, self._states, launcher, state, ranges)
        deadline = time.monotonic() + limit_s
        variables.enter()
        for _ in range(_WARM_UP):
            restore.queue()
            launcher.run()
            self._device.finish(max(0.001, deadline - time.monotonic()))
        events = Events(self._device, min(n, _BATCH))
        times: list[float] = []
        begin = time.perf_counter()
        for start in range(0, n, _BATCH):
            pairs = events.pairs[: min(_BATCH, n - start)]
            with self._bulk.held():
                for first, last in pairs:
                    restore.queue()
                    events.record(first)
                    launcher.run()
                    events.record(last)
            self._device.finish(max(0.001, deadline - time.monotonic()))
            if len(times) < _MOST_TIMES:
                times += [events.elapsed_ms(pair) for pair in pairs]
        took = time.perf_counter() - begin
        variables.leave()
        self._device.finish()
        events.close()
        return Replays(n, times_ms=times, seconds=took)

    # --- until one differs -------------------------------------------------------------------------

    def until(self, n: int, state: str, expected: str, limit_s: float) -> Replays:
        """Up to ``n`` replays, each with all of memory from ``state`` and compared with ``expected``.

        Ends after the batch in which one differed: how many ran, how many differed, which was the first
        (from 0, -1 for none); memory then is as the first that differed left it.
        """
        sizes = self._states.sizes
        ranges = [(region, 0, size) for region, size in enumerate(sizes) if size]
        restore = Restore(self._device, self._states, self._launcher, state, ranges)
        other = self._states.resident(expected)
        deadline = time.monotonic() + limit_s
        if restore.direct and other is not None and self._bulk.on_device:
            self._states.snapshot("first that differs")
            kept = self._states.resident("first that differs")
            if kept is not None:
                return self._until_on_device(n, restore, other, kept, deadline)
        return self._until_one_by_one(n, state, expected, deadline)

    def _until_on_device(
        self, n: int, restore: Restore, expected: list[int], kept: list[int], deadline: float
    ) -> Replays:
        batch = min(_COUNTED, MAX_COUNTERS)
        spans = [
            (self._launcher.variables.home(region) + at, expected[region] + at, kept[region] + at, size)
            for region, whole in enumerate(self._states.sizes)
            for at, size in pieces(whole)
        ]
        runs = different = 0
        first = -1
        while runs < n and not different:
            count = min(batch, n - runs)
            self._bulk.clear(count)
            for run in range(count):
                restore.queue()
                self._launcher.run()
                for now, other, _, size in spans:
                    self._bulk.count(now, other, size, run)
                for now, _, copy, size in spans:
                    self._bulk.keep_first(copy, now, size, run)
            self._device.finish(max(0.001, deadline - time.monotonic()))
            counts = np.array(self._bulk.counts(count))
            if counts.any():
                different = int((counts > 0).sum())
                first = runs + int(np.argmax(counts > 0))
            runs += count
        if different:
            self._states.restore("first that differs", list(range(len(self._states.sizes))))
        else:
            self._launcher.variables.leave()
        self._device.finish()
        self._states.drop("first that differs")
        return Replays(runs, different, first)

    def _until_one_by_one(self, n: int, state: str, expected: str, deadline: float) -> Replays:
        regions = list(range(len(self._states.sizes)))
        for run in range(n):
            self._states.restore(state, regions)
            self._launcher.variables.enter()
            self._launcher.run()
            self._device.finish(max(0.001, deadline - time.monotonic()))
            self._launcher.variables.leave()
            if self._states.differing(expected):
                return Replays(run + 1, 1, run)
        return Replays(n)
