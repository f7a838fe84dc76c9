"""The figures of `kerncap list`: time, share, spread, and what a faster kernel could gain at most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kerncap.capture.listed import Row
from kerncap.capture.outcome import CaptureResult, KernelSummary
from kerncap.capture.payloads import RowRecord
from kerncap.report.listing_names import short_names

FACTOR = 2  # "2x faster"


@dataclass(frozen=True)
class Times:
    """Of some launches: the sum over the timed ones, the shortest and the longest of them."""

    launches: int = 0
    time_ns: int = 0
    timed: int = 0
    min_ns: int | None = None
    max_ns: int | None = None

    @property
    def mean_ns(self) -> float | None:
        return self.time_ns / self.timed if self.timed else None

    @classmethod
    def of(cls, parts: Iterable[RowRecord | Times]) -> Times:
        every = list(parts)
        least = [each.min_ns for each in every if each.min_ns is not None]
        most = [each.max_ns for each in every if each.max_ns is not None]
        return cls(
            sum(each.launches for each in every),
            sum(each.time_ns for each in every),
            sum(each.timed for each in every),
            min(least, default=None),
            max(most, default=None),
        )


@dataclass(frozen=True)
class Gain:
    """How much faster the whole gets at most: if this were twice as fast, if it were gone.

    None: no bound, for it is the whole.
    """

    share: float
    twice: float
    gone: float | None

    @classmethod
    def of(cls, share: float) -> Gain:
        """Source: Amdahl, 1 / (1 - share * (1 - 1 / factor))."""
        share = min(max(share, 0.0), 1.0)
        rest = 1 - share
        return cls(share, 1 / (rest + share / FACTOR), 1 / rest if rest > 1e-9 else None)


@dataclass(frozen=True)
class Listed:
    """One kernel's line."""

    kernel: KernelSummary
    name: str
    times: Times
    configurations: int | None
    more_configurations: bool  # than were counted
    device: Gain | None  # against the time of all kernels
    wall: Gain | None  # against the program's wall time


@dataclass(frozen=True)
class Figures:
    """The whole listing; kernels by time."""

    kernels: tuple[Listed, ...]
    device_ns: int
    wall_ns: int  # the program's own: what kerncap cost it is taken off
    overhead_ns: int  # that cost; if processes run side by side, the largest

    def of(self, kernel: KernelSummary) -> Listed:
        return next(each for each in self.kernels if each.kernel is kernel)


def figures(result: CaptureResult) -> Figures:
    """Most expensive first; equal ones by launches, then by name."""
    device_ns = sum(kernel.counts.time_ns for kernel in result.kernels)
    wall_ns = max(result.wall_ns - result.overhead_ns, result.wall_ns // 2)
    ordered = sorted(
        result.kernels,
        key=lambda kernel: (-kernel.counts.time_ns, -kernel.counts.launches, kernel.qualified_name),
    )
    names = short_names(ordered)
    return Figures(
        tuple(
            _listed(kernel, name, result, device_ns, wall_ns)
            for kernel, name in zip(ordered, names, strict=True)
        ),
        device_ns,
        wall_ns,
        result.overhead_ns,
    )


def gain(rows: Sequence[Row], result: CaptureResult, whole_ns: int) -> Gain | None:
    """Against ``whole_ns`` of wall time; processes side by side count once, the longest."""
    if not whole_ns or not any(row.record.timed for row in rows):
        return None
    return Gain.of(result.listing.side_by_side(lambda row: row.record.time_ns, rows) / whole_ns)


def configurations(rows: Sequence[Row]) -> tuple[int | None, bool]:
    """How many, as ``--per-config`` tells them apart, and whether there may be more."""
    texts = {row.record.config for row in rows if row.record.config is not None}
    more = any(row.record.rest for row in rows)
    if texts:
        return len(texts), more
    shapes = {
        (row.record.grid, row.record.block, row.record.shared_bytes)
        for row in rows
        if row.record.grid is not None and row.record.block is not None
    }
    return (len(shapes) if shapes else None), more


def _listed(kernel: KernelSummary, name: str, result: CaptureResult, device_ns: int, wall_ns: int) -> Listed:
    times = (
        Times.of(row.record for row in kernel.rows)
        if kernel.rows
        else Times(kernel.counts.launches, kernel.counts.time_ns)
    )
    count, more = configurations(kernel.rows)
    return Listed(
        kernel,
        name,
        times,
        count if count is not None else kernel.counts.configs or None,
        more,
        Gain.of(times.time_ns / device_ns) if device_ns and times.timed else None,
        gain(kernel.rows, result, wall_ns),
    )
