"""Timed runs after a warm-up, by device events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_CYCLES_PER_SECOND = 2e9  # at least: a slower clock only makes the hold longer
_HOLD_S = (100e-6, 20e-3)


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
