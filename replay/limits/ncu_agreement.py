"""A report's shares of the device's peaks, next to those that ncu measured itself.

ncu takes its per cent of what the units could do at the clocks of its own run: memory's is fixed, so the
peak of the device's data serves; of the multiprocessors, it is the clock that ncu saw, not the highest one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.replay.limits import peaks
from kerncap.replay.limits.binding_floor import LimitReport
from kerncap.replay.limits.counters import DRAM_SHARES

_CLOCK = "smsp__cycles_elapsed.avg.per_second"


@dataclass(frozen=True)
class Agreement:
    """Per cent of the same peak: ``ours`` is work over our time, ``theirs`` is ``metric``."""

    what: str
    metric: str
    ours: float
    theirs: float

    @property
    def points(self) -> float:
        return abs(self.ours - self.theirs)


def agreement(report: LimitReport) -> list[Agreement]:
    """What can be compared: memory, and the tensor cores if one kind of product is computed.

    Empty without ncu's numbers, without ceilings or without a time.
    """
    device, head = report.ceilings, report.times.headline
    if device is None or head is None or not report.counter_metrics:
        return []
    seconds = head[1] * 1e-3
    found = []
    peak = peaks.dram_bytes_per_s(device)
    told = [name for name in DRAM_SHARES if name in report.counter_metrics]
    if peak and told:
        ours = 100 * report.work.dram_bytes / seconds / peak
        found.append(Agreement("DRAM", told[0], ours, report.counter_metrics[told[0]]))
    clock = report.counter_metrics.get(_CLOCK)
    pipes = {name: value for name, value in report.counter_metrics.items() if "pipe_tensor" in name}
    kinds = [kind for kind in report.counted.operations if kind.startswith("tensor ")]
    if pipes and len(kinds) == 1:
        # Of several (the half-precision pipe, the integer one) the busy one did this work. "Elapsed" is of
        # the whole time, as ours is; "active" leaves out what a multiprocessor waits for its first block.
        metric = max(pipes, key=lambda name: ("elapsed" in name, pipes[name]))
        whole = peaks.operations_per_s(device, kinds[0].replace(" ", "_"))
        if whole and pipes[metric]:
            at = clock / (device.clock_khz * 1e3) if clock else 1.0
            ours = 100 * report.counted.operations[kinds[0]] / seconds / (whole * at)
            found.append(Agreement(kinds[0], metric, ours, pipes[metric]))
    return found
