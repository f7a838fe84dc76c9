"""Many replays of a HIP launch in a row, timed by the device's own clock; what a run dirties is restored.

A dispatch's times are taken by the GPU at its start and its end, so the host's part of a launch is in none
of them, and nothing has to be queued ahead to keep the GPU busy.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from ..common.timing_plan import CACHES, turns
from ..native.bulk import Bulk
from ..native.cuda_repeat import Ranges, Repeat
from ..native.in_a_row import InARow
from ..native.states import States
from ..protocol import Replays, Timings
from .device import Device
from .launcher import Launcher

_WARMUP_RUNS = 3
_MOST_TIMES = 100_000
_WARM_RUNS = 20
_COLD_RUNS = 12


class _Restore:
    """Puts a state's bytes into memory as the kernel sees it, range by range."""

    def __init__(
        self, device: Device, states: States, launcher: Launcher, state: str, ranges: Ranges
    ) -> None:
        self._device, self._states, self._state = device, states, state
        self._variables = launcher.variables
        self._ranges = ranges
        # Words that point to a variable are those of the capture in every state: they need the slow way.
        self._copies = None if self._variables.sites else states.resident(state)
        self._regions = sorted({region for region, _, _ in ranges})

    def run(self) -> None:
        if self._copies is None:
            self._variables.leave()
            self._states.restore(self._state, self._regions)
            self._variables.enter()
            return
        for region, start, stop in self._ranges:
            home = self._variables.home(region)
            self._device.copy(home + start, self._copies[region] + start, stop - start)


class HipRepeat(Repeat):
    """Replays of one launcher in a row."""

    _device: Any
    _launcher: Any

    def times(self, n: int, state: str, ranges: Ranges, limit_s: float) -> Replays:
        """``n`` replays; milliseconds of each launch, and how long all of it took.

        Raises TimedOut or Fault.
        """
        restore = _Restore(self._device, self._states, self._launcher, state, ranges)
        deadline = time.monotonic() + limit_s
        self._launcher.variables.enter()
        for _ in range(_WARMUP_RUNS):
            restore.run()
            _timed(self._device, self._launcher, deadline)
        times: list[float] = []
        begin = time.perf_counter()
        for _ in range(n):
            restore.run()
            took = _timed(self._device, self._launcher, deadline)
            if len(times) < _MOST_TIMES:
                times.append(took)
        seconds = time.perf_counter() - begin
        self._launcher.variables.leave()
        return Replays(n, times_ms=times, seconds=seconds)

    def until(self, n: int, state: str, expected: str, limit_s: float) -> Replays:
        """As for CUDA, one by one: nothing of ours runs on the device to compare there."""
        return self._until_one_by_one(n, state, expected, time.monotonic() + limit_s)


def timings(
    device: Device, _bulk: Bulk, states: States, launcher: Launcher, ranges: Ranges, again: bool,
    limit_s: float,
) -> Timings:  # fmt: skip
    """Medians in milliseconds, None if they can't be measured here.

    ``warm_ms``: of launches that follow each other, where ``again`` says that one may follow itself with no
    restore between. ``cold_ms``: with a cache that holds other data.
    """
    deadline = time.monotonic() + limit_s
    restore = _Restore(device, states, launcher, "pre", ranges)
    launcher.variables.enter()
    restore.run()
    warm = None
    if again:
        found = [_timed(device, launcher, deadline) for _ in range(_WARMUP_RUNS + _WARM_RUNS)]
        warm = statistics.median(found[_WARMUP_RUNS:])
    cold = _cold(device, launcher, restore, deadline)
    launcher.variables.leave()
    return Timings(warm, cold)


def interleaved(
    device: Device, _bulk: Bulk, states: States, launchers: list[Launcher], rounds: int, ranges: Ranges,
    limit_s: float,
) -> list[list[float]]:  # fmt: skip
    """Milliseconds of each launcher, ``rounds`` times in turns, each on the pre-state of ``ranges``."""
    deadline = time.monotonic() + limit_s
    restores = [_Restore(device, states, launcher, "pre", ranges) for launcher in launchers]
    times: list[list[float]] = [[] for _ in launchers]
    orders = [*[list(range(len(launchers)))] * 2, *turns(len(launchers), rounds)]
    for number, order in enumerate(orders):
        for i in order:
            launchers[i].variables.enter()
            restores[i].run()
            took = _timed(device, launchers[i], deadline)
            launchers[i].variables.leave()
            if number > 1:
                times[i].append(took)
    return times


def _timed(device: Device, launcher: Launcher | InARow, deadline: float) -> float:
    """Of launches in a row the sum: what passes between two of them is in no dispatch's times."""
    if isinstance(launcher, InARow):
        return sum(_timed(device, each, deadline) for each in launcher.launchers)
    launcher.run()
    device.finish(max(0.001, deadline - time.monotonic()))
    return device.elapsed_ms()


def _cold(device: Device, launcher: Launcher, restore: _Restore, deadline: float) -> float | None:
    """The cache is filled by a copy of other data; None if its size is not known, or there is no room."""
    size = CACHES * device.cache_bytes
    if not size or not device.room_for(2 * size):
        return None
    fill = device.allocate(2 * size)
    times = []
    for number in range(_COLD_RUNS):
        restore.run()
        device.copy(fill, fill + size, size)
        took = _timed(device, launcher, deadline)
        if number > 1:
            times.append(took)
    device.free(fill)
    return statistics.median(times)
