"""The shortest time in which a launch can leave what it leaves: no launch takes less.

Only bytes that are others after the launch count, because these are written by whatever gives the result.
They go through the cache, and what does not fit into it goes to memory. What has to be read is not known byte
by byte, and is left out. Nor is any launch much shorter than an empty one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kerncap.errors import BackendUnavailable
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.limits import peaks, published
from kerncap.replay.limits.binding_floor import SPREAD
from kerncap.replay.limits.ceilings import Ceilings, of_device
from kerncap.replay.worker.common import bitmap

# Bytes per second: no GPU that is supported is slower, so below it nothing has to be measured.
_ALWAYS_POSSIBLE = 50e9
# Ceilings may have been measured beside other work. A success is doubted only by what is beyond all doubt.
_SHORTEST_MS = 0.001  # of any launch, if half of an empty one's time is not less
_CACHE_SLACK = 2.0


@dataclass
class Floor:
    """Of one launch: the bytes that it changes. CUDA device ``ordinal`` is measured if that is needed."""

    changed_bytes: int
    python: str
    ordinal: int
    ceilings: Ceilings | None = None

    def problem(self, ms: float) -> str:
        """What no launch that took ``ms`` can have done; nothing if it can, or without ceilings."""
        if self.changed_bytes <= _ALWAYS_POSSIBLE * ms / 1e3 and ms >= _SHORTEST_MS:
            return ""
        try:
            self.ceilings = self.ceilings or of_device(self.python, self.ordinal)
        except BackendUnavailable:
            return ""
        least_ms, why = least(self.changed_bytes, self.ceilings)
        if least_ms <= SPREAD * ms:
            return ""
        return f"{ms:.3g} ms is less than the {least_ms:.3g} ms that {why}: not all of the work was done"


def of_launch(engine: Engine, measured: Measured) -> Floor | None:
    """None if no device's clock times it, or nothing is known of an AMD GPU. Changes memory."""
    if not engine.choice.on_device:
        return None
    public = published.of(engine.facts.device)
    if public is None and engine.choice.memory != "cuda":
        return None
    engine.restore()
    changed = sum(
        bitmap.count(engine.diff(region, "post") & bits) for region, bits in measured.results().items()
    )
    return Floor(changed, engine.choice.python, engine.choice.device, public)


def least(changed_bytes: int, device: Ceilings) -> tuple[float, str]:
    """Milliseconds, and by which ceiling."""
    writing = f"writing {changed_bytes:,} bytes takes at the rate of the device's"
    rates = (device.rate("dram_write_bytes_per_s"), peaks.dram_bytes_per_s(device))
    memory = max((rate for rate in rates if rate), default=math.inf)
    cache = _CACHE_SLACK * (device.rate("l2_bytes_per_s") or math.inf)
    empty_ms = (device.rate("event_us") or 0.0) / 1e3
    return max(
        (max(0, changed_bytes - device.l2_bytes) / memory * 1e3, f"{writing} memory"),
        (changed_bytes / cache * 1e3, f"{writing} cache"),
        (min(empty_ms / 2, _SHORTEST_MS), "half of an empty launch takes"),
    )
