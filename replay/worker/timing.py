"""Timed runs after a warm-up: device events on a GPU, the monotonic clock on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def device_times(
    torch: Any, prepare: Callable[[], None], launch: Callable[[], None], warmup: int, n: int
) -> list[float]:
    """Milliseconds of each of ``n`` launches; ``prepare`` runs before each, outside of what is measured."""
    for _ in range(warmup):
        prepare()
        launch()
    torch.cuda.synchronize()
    events = []
    for _ in range(n):
        prepare()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        launch()
        end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    return [float(begin.elapsed_time(end)) for begin, end in events]
