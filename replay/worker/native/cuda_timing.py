"""How long a launch takes with its data in the cache, and with an emptied one."""

from __future__ import annotations

import statistics
import time

from ..common.failures import Refused
from ..common.timing_plan import COLD_RUNS, GRAPHS, LAUNCHES, turns
from ..cuda import driver as cu
from ..cuda.device import Device
from ..protocol import Timings
from .bulk import Bulk
from .cuda_launcher import Launcher
from .cuda_repeat import Events, Graph, Ranges, Restore
from .states import States


def timings(
    device: Device, bulk: Bulk, states: States, launcher: Launcher, ranges: Ranges, again: bool,
    limit_s: float,
) -> Timings:  # fmt: skip
    """Medians in milliseconds, None if they can't be measured here.

    ``warm_ms``: of launches that follow each other in a graph, if ``again`` says that one may follow
    itself with no restore between. ``cold_ms``: with a cache that holds other data.
    """
    deadline = time.monotonic() + limit_s
    restore = Restore(device, states, launcher, "pre", ranges)
    launcher.variables.enter()
    restore.queue()
    device.finish()
    warm = _warm(device, launcher, deadline) if again else None
    cold = _cold(device, bulk, launcher, restore, deadline)
    launcher.variables.leave()
    device.finish()
    return Timings(warm, cold)


def interleaved(
    device: Device, bulk: Bulk, states: States, launchers: list[Launcher], rounds: int, ranges: Ranges,
    limit_s: float,
) -> list[list[float]]:  # fmt: skip
    """Milliseconds of each launcher, ``rounds`` times in turns, the device held busy while one is queued.

    Each variant has variables of its own module, which are brought in before its launch and back after it.
    """
    deadline = time.monotonic() + limit_s
    restores = [Restore(device, states, launcher, "pre", ranges) for launcher in launchers]
    events = Events(device, len(launchers))
    times: list[list[float]] = [[] for _ in launchers]
    orders = [*[list(range(len(launchers)))] * 2, *turns(len(launchers), rounds)]
    for number, order in enumerate(orders):
        for i in order:
            launcher, pair = launchers[i], events.pairs[i]
            launcher.variables.enter()
            restores[i].queue()
            with bulk.held():
                events.record(pair[0])
                launcher.run()
                events.record(pair[1])
            launcher.variables.leave()
        device.finish(max(0.001, deadline - time.monotonic()))
        if number > 1:
            for found, pair in zip(times, events.pairs, strict=True):
                found.append(events.elapsed_ms(pair))
    events.close()
    return times


def _warm(device: Device, launcher: Launcher, deadline: float) -> float | None:
    try:
        graph = Graph(device, launcher.run, LAUNCHES)
    except (cu.CudaError, Refused):
        return None
    events, times = Events(device, 1), []
    pair = events.pairs[0]
    for number in range(GRAPHS):
        events.record(pair[0])
        graph.queue()
        events.record(pair[1])
        device.finish(max(0.001, deadline - time.monotonic()))
        if number > 1:
            times.append(events.elapsed_ms(pair) / LAUNCHES)
    events.close()
    graph.close()
    return statistics.median(times)


def _cold(device: Device, bulk: Bulk, launcher: Launcher, restore: Restore, deadline: float) -> float | None:
    """As `device_timing.cold_ms` of torch. Where our kernels don't run, the cache is filled by writing."""
    size = 2 * device.l2_bytes
    if not size or not device.room_for(2 * size):
        return None
    fill = device.allocate(2 * size)
    device.zero(fill, 2 * size)
    events, times = Events(device, 1), []
    pair = events.pairs[0]
    for number in range(COLD_RUNS):
        restore.queue()
        if bulk.on_device:
            bulk.count(fill, fill + size, size, 0)
        else:
            device.zero(fill, size)
        with bulk.held():
            events.record(pair[0])
            launcher.run()
            events.record(pair[1])
        device.finish(max(0.001, deadline - time.monotonic()))
        if number > 1:
            times.append(events.elapsed_ms(pair))
    events.close()
    device.free(fill)
    return statistics.median(times)
