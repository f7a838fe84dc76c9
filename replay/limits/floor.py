"""The shortest time in which a launch can leave what it leaves: a time below it is no launch's.

Only bytes that are others after the launch count, because these are written by whatever gives the result.
They go through the cache, and what does not fit into it goes to memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.errors import BackendUnavailable
from kerncap.replay import bitmap
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.limits import ceilings
from kerncap.replay.limits.ceilings import Ceilings
from kerncap.replay.limits.roofline import SPREAD

# Bytes per second: no GPU that is supported is slower, so below it nothing has to be measured.
_ALWAYS_POSSIBLE = 50e9


@dataclass
class Floor:
    """Of one launch: the bytes that it changes, on CUDA device ``ordinal``."""

    changed_bytes: int
    python: str
    ordinal: int
    measured: Ceilings | None = None

    def problem(self, ms: float) -> str:
        """What no launch that took ``ms`` can have done; nothing if it can, or if no ceilings can be had."""
        if self.changed_bytes <= _ALWAYS_POSSIBLE * ms / 1e3:
            return ""
        try:
            self.measured = self.measured or ceilings.of_device(self.python, self.ordinal)
        except BackendUnavailable:
            return ""
        least_ms, why = least(self.changed_bytes, self.measured)
        if least_ms <= SPREAD * ms:
            return ""
        return (
            f"{ms:.3g} ms is less than the {least_ms:.3g} ms that writing {self.changed_bytes:,} bytes takes "
            f"{why} of this device: not all of the work can have been done"
        )


def of_launch(engine: Engine, measured: Measured) -> Floor | None:
    """None where no device's clock times it. Changes memory."""
    if engine.choice.memory != "cuda":
        return None
    engine.restore()
    changed = sum(
        bitmap.count(engine.diff(region, "post") & written) for region, written in measured.written.items()
    )
    return Floor(changed, engine.choice.python, engine.choice.device)


def least(changed_bytes: int, device: Ceilings) -> tuple[float, str]:
    """Milliseconds, and by which ceiling."""
    memory = max(0, changed_bytes - device.l2_bytes)
    found = [
        (amount / rate * 1e3, why)
        for amount, rate, why in (
            (memory, device.rate("dram_write_bytes_per_s"), "at the measured rate of the memory"),
            (changed_bytes, device.rate("l2_bytes_per_s"), "at the measured rate of the cache"),
        )
        if rate is not None
    ]
    return max(found, default=(0.0, ""))
