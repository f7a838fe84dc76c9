"""The share of each ceiling that a launch reaches, which one binds, and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerncap.replay.limits import peaks
from kerncap.replay.limits.ceilings import Ceilings
from kerncap.replay.limits.launch_work import Work

_VECTOR = ("fp32", "fp64", "fp16", "bf16", "special")
NEAR = 0.6  # of a ceiling: below it, that ceiling is not what holds the launch back
SPREAD = 1.02  # of what is measured twice: up to it a share is all of a ceiling, above it no share at all
_LATENCY = 0.5  # of the time: from it on a launch is as long as it is because it is a launch


@dataclass(frozen=True)
class Times:
    """Medians in milliseconds: with the data in the cache, with an emptied cache, and of plain timed runs."""

    warm_ms: float | None = None
    cold_ms: float | None = None
    median_ms: float | None = None

    @property
    def headline(self) -> tuple[str, float] | None:
        """The time that the verdict is on: cold, which is what the bytes of memory are counted for."""
        for name, value in (("cold", self.cold_ms), ("warm", self.warm_ms), ("timed", self.median_ms)):
            if value:
                return name, value
        return None


@dataclass(frozen=True)
class Bound:
    """One resource: what the launch needs of it, and what the device has.

    ``amount`` in bytes or operations; ``measured`` and ``peak`` per second, None if not known.
    ``warm_floor_ms`` and ``cold_floor_ms`` are the shortest times that it allows; None if it does not
    bind then (data that fits in the cache need not come from memory when the cache is warm).
    """

    name: str
    unit: str
    amount: float
    measured: float | None
    peak: float | None
    warm_floor_ms: float | None
    cold_floor_ms: float | None

    def floor_ms(self, state: str) -> float | None:
        return self.warm_floor_ms if state == "warm" else self.cold_floor_ms

    def fraction(self, state: str, time_ms: float | None) -> float | None:
        """Of the measured ceiling; None if it would be above 1: part of this work was not done by it."""
        floor = self.floor_ms(state)
        return None if floor is None or not time_ms else _share(floor / time_ms)

    def fraction_of_peak(self, time_ms: float | None) -> float | None:
        """Of what the device's data promise; None as for `fraction`."""
        if not self.peak or not time_ms or self.unit == "launch":
            return None
        return _share(self.amount / (time_ms * 1e-3) / self.peak)


@dataclass(frozen=True)
class LimitReport:
    """How far a launch is from what its device can do.

    ``work`` is what the bounds are made of (with ``counters``, ncu's numbers if it has them);
    ``counted`` what was counted from TTIR or the closure.
    """

    path: Path
    kernel: str
    engine: str
    device: str
    times: Times
    work: Work
    counted: Work
    counters: Work | None = None
    ceilings: Ceilings | None = None
    bounds: tuple[Bound, ...] = ()
    counter_metrics: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def binding(self) -> Bound | None:
        """The ceiling with the longest floor; None if nothing was measured or counted."""
        state = self._state
        found = [one for one in self.bounds if one.floor_ms(state)]
        return max(found, key=lambda one: one.floor_ms(state) or 0.0, default=None)

    @property
    def _state(self) -> str:
        head = self.times.headline
        return "cold" if head is None or head[0] == "cold" else "warm"

    @property
    def latency_ms(self) -> float | None:
        """What of the time an empty launch takes, if that is most of it: no ceiling says anything then."""
        bound, head = self.binding, self.times.headline
        if bound is None or head is None or bound.unit != "launch":
            return None
        floor = bound.floor_ms(self._state) or 0.0
        return min(floor, head[1]) if floor >= _LATENCY * head[1] else None

    @property
    def too_fast(self) -> tuple[Bound, float] | None:
        """A ceiling that the time is below what it permits, and the milliseconds that the work takes by it.

        Only work that has to be done counts: no upper bounds, no bytes that a cache may keep or have.
        """
        head = self.times.headline
        if head is None or not self.work.exact:
            return None
        found = [(one, self._certain_ms(one)) for one in self.bounds]
        worst = max(found, key=lambda each: each[1], default=None)
        return worst if worst is not None and worst[1] > SPREAD * head[1] else None

    def _certain_ms(self, bound: Bound) -> float:
        if bound.name == "DRAM" and self.ceilings is not None:
            # A cache may hold what is written last, and when warm what is read first.
            cache = self.ceilings.l2_bytes
            read = self.work.dram_read_bytes - (0 if self._state == "cold" else cache)
            read, written = max(0, read), max(0, self.work.dram_written_bytes - cache)
            return _floor(read + written, self.ceilings.dram(read, written)) or 0.0 if read + written else 0.0
        return bound.floor_ms(self._state) or 0.0 if bound.unit == "operations" else 0.0

    @property
    def achieved(self) -> float | None:
        """The share of the binding ceiling, at most 1; None if a share says nothing.

        Of memory's bandwidth it is the least that it can be, if what is written last may be in the cache.
        """
        bound, head = self.binding, self.times.headline
        if bound is None or head is None or self.latency_ms is not None or self.too_fast is not None:
            return None
        share = bound.fraction(self._state, head[1])
        if share is None and bound.name == "DRAM" and self.work.exact:
            return min(1.0, self._certain_ms(bound) / head[1]) or None  # the rest may still be in the cache
        return share

    @property
    def headroom(self) -> float | None:
        """How many times faster the launch could be, at the most, with this work; at least 1.

        None far from every ceiling if it is not known what an empty launch takes, which may be most of it.
        """
        achieved, empty = self.achieved, self.ceilings and self.ceilings.rate("launch_us")
        if not achieved or (achieved < NEAR and empty is None):
            return None
        return max(1.0, 1.0 / achieved)

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        head, bound = self.times.headline, self.binding
        return {
            "path": str(self.path),
            "kernel": self.kernel,
            "engine": self.engine,
            "device": self.device,
            "times_ms": {
                "warm": self.times.warm_ms,
                "cold": self.times.cold_ms,
                "timed": self.times.median_ms,
            },
            "judged_time": head[0] if head else None,
            "work": self.work.as_dict(),
            "counted": self.counted.as_dict(),
            "counters": self.counters.as_dict() if self.counters else None,
            "counter_metrics": dict(self.counter_metrics),
            "ceilings": self.ceilings.as_dict() if self.ceilings else None,
            "bounds": [self._row(one) for one in self.bounds],
            "binding": bound.name if bound else None,
            "achieved": self.achieved,
            "headroom": self.headroom,
            "latency_ms": self.latency_ms,
            "too_fast_for": None if self.too_fast is None else self.too_fast[0].name,
            "notes": list(self.notes),
        }

    def _row(self, bound: Bound) -> dict[str, Any]:
        warm, cold = self.times.warm_ms or self.times.median_ms, self.times.cold_ms
        if self.latency_ms is not None:
            warm = cold = None
        return {
            "name": bound.name, "unit": bound.unit, "amount": bound.amount,
            "measured_per_s": bound.measured, "peak_per_s": bound.peak,
            "warm_floor_ms": bound.warm_floor_ms, "cold_floor_ms": bound.cold_floor_ms,
            "warm_fraction": bound.fraction("warm", warm), "cold_fraction": bound.fraction("cold", cold),
            "warm_fraction_of_peak": bound.fraction_of_peak(warm) if bound.warm_floor_ms else None,
            "cold_fraction_of_peak": bound.fraction_of_peak(cold),
        }  # fmt: skip


def bounds(work: Work, ceilings: Ceilings | None) -> tuple[Bound, ...]:
    """What the launch needs of each resource; without ceilings, with no floors."""
    return tuple(_bounds(work, ceilings))


def _bounds(work: Work, device: Ceilings | None) -> Iterator[Bound]:
    if work.dram_bytes:
        rate = device.dram(work.dram_read_bytes, work.dram_written_bytes) if device else None
        peak = peaks.dram_bytes_per_s(device) if device else None
        floor = _floor(work.dram_bytes, rate)
        # What fits in the cache is still there when the launch follows itself.
        fits = device is not None and work.dram_bytes <= device.l2_bytes
        yield Bound("DRAM", "bytes", work.dram_bytes, rate, peak, None if fits else floor, floor)
    if work.l2_bytes:
        rate = device.rate("l2_bytes_per_s") if device else None
        floor = _floor(work.l2_bytes, rate)
        yield Bound("L2", "bytes", work.l2_bytes, rate, None, floor, floor)
    for kind, amount in work.operations.items():
        tensor = kind.startswith("tensor ")
        if tensor or kind in _VECTOR:
            unit = kind.replace(" ", "_")
            rate = device.rate(f"{unit}_per_s") if device else None
            peak = peaks.operations_per_s(device, unit) if device else None
            floor = _floor(amount, rate)
            yield Bound(kind, "operations", amount, rate, peak, floor, floor)
    if device is not None:
        row, alone = device.rate("launch_us"), device.rate("event_us")
        if row is not None or alone is not None:
            yield Bound(
                "launch", "launch", 1, None, None, row / 1e3 if row else None, alone / 1e3 if alone else None
            )


def _floor(amount: float, rate: float | None) -> float | None:
    return None if rate is None else amount / rate * 1e3


def _share(share: float) -> float | None:
    return None if share > SPREAD else min(share, 1.0)
