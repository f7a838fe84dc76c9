"""Timed runs after a warm-up, by device events; with a warm cache in a graph, and with a cold one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from ..common.timing_plan import CACHES, COLD_RUNS, GRAPHS, LAUNCHES, turns

_CYCLES_PER_SECOND = 2e9  # at least: a slower clock only makes the hold longer
_HOLD_S = (100e-6, 20e-3)


def cache_filler(torch: Any) -> Callable[[], None] | None:
    """Fills the device's cache with other data; None if it has none, or no room for what fills it.

    By reading: after a fill by writing, a launch would be charged for bringing the fill's own lines back to
    memory.
    """
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    size = CACHES * int(getattr(properties, "L2_cache_size", 0))
    if not size or size > torch.cuda.mem_get_info()[0]:
        return None
    # Words as wide as the sum: narrower ones take more instructions than memory takes time.
    fill = torch.zeros(size // 8, dtype=torch.int64, device="cuda")
    total = torch.empty((), dtype=torch.int64, device="cuda")

    def read() -> None:
        torch.sum(fill, dim=0, out=total)

    return read


def device_times(
    torch: Any, prepare: Callable[[], None], launch: Callable[[], None], warmup: int, n: int
) -> list[float]:
    """Milliseconds of each of ``n`` launches; ``prepare`` runs before each, outside of what is measured.

    The device is held busy while the host queues events and launch: without that, a kernel shorter than
    its own launch on the host would be measured as long as that launch.
    """
    hold = _HOLD_S[0]
    for _ in range(max(1, warmup)):
        prepare()
        start = time.perf_counter()
        launch()
        hold = min(max(_HOLD_S[0], 2 * (time.perf_counter() - start)), _HOLD_S[1])
    torch.cuda.synchronize()
    events = []
    for _ in range(n):
        prepare()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(int(hold * _CYCLES_PER_SECOND))
        begin.record()
        launch()
        end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    return [float(begin.elapsed_time(end)) for begin, end in events]


def device_turns(
    torch: Any, prepare: Callable[[], None], launches: list[Callable[[], None]], rounds: int
) -> list[list[float]]:
    """Milliseconds of each of ``launches``, ``rounds`` times each in turns; ``prepare`` runs before each.

    The device is held busy as in `device_times`; each round is waited for, so that a hold is never longer
    than the queue is deep.
    """
    hold = [_HOLD_S[0]] * len(launches)
    for number, launch in enumerate(launches):
        for _ in range(2):
            prepare()
            start = time.perf_counter()
            launch()
            hold[number] = min(max(_HOLD_S[0], 2 * (time.perf_counter() - start)), _HOLD_S[1])
            torch.cuda.synchronize()
    times: list[list[float]] = [[] for _ in launches]
    pairs = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in launches]
    for order in turns(len(launches), rounds):
        for number in order:
            begin, end = pairs[number]
            prepare()
            torch.cuda._sleep(int(hold[number] * _CYCLES_PER_SECOND))
            begin.record()
            launches[number]()
            end.record()
        torch.cuda.synchronize()
        for found, (begin, end) in zip(times, pairs, strict=True):
            found.append(float(begin.elapsed_time(end)))
    return times


def warm_ms(torch: Any, prepare: Callable[[], None], launch: Callable[[], None]) -> float | None:
    """The median of launches that follow each other in a graph; None if they can't be captured."""
    prepare()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(LAUNCHES):
                launch()
    except Exception:  # whatever a launcher does that a graph does not take
        torch.cuda.synchronize()
        return None
    times = []
    for number in range(GRAPHS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if number > 1:
            times.append(float(begin.elapsed_time(end)) / LAUNCHES)
    return statistics.median(times)


def cold_ms(torch: Any, prepare: Callable[[], None], launch: Callable[[], None]) -> float | None:
    """The median with a cache that holds other data; None if the device has none, or no room to fill it.

    The device is held busy as in `device_times`.
    """
    fill = cache_filler(torch)
    if fill is None:
        return None
    hold, times = _HOLD_S[0], []
    for number in range(COLD_RUNS):
        prepare()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        fill()
        torch.cuda._sleep(int(hold * _CYCLES_PER_SECOND))
        start = time.perf_counter()
        begin.record()
        launch()
        end.record()
        hold = min(max(_HOLD_S[0], 2 * (time.perf_counter() - start)), _HOLD_S[1])
        torch.cuda.synchronize()
        if number > 1:
            times.append(float(begin.elapsed_time(end)))
    return statistics.median(times)
