"""Marks the bytes that accesses touch, each once, and counts what was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kerncap.replay.limits.launch_work import SECTOR_BYTES, Traffic
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.memory import NOWHERE, Memory
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import Operation

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_MOST_MARKS = 1 << 30  # of one storage and direction: past it, sectors are marked in place of elements
_SECTOR_SHIFT = SECTOR_BYTES.bit_length() - 1
_DIRECTIONS = {"load": ("read",), "store": ("written",), "atomic": ("read", "written")}


class Marks:
    """The bytes of one storage that were touched, in units as small as its accesses need."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self._lead = address % SECTOR_BYTES  # so that a unit of 32 bytes is a sector
        self._size = size_bytes + self._lead
        self._unit = 0
        self._marks: Bools = np.zeros(0, dtype=np.bool_)

    def add(self, offsets: Ints, width: int) -> None:
        """Touch ``width`` bytes at each offset into the storage; what leaves it is left out."""
        if offsets.size and (int(offsets.min()) < 0 or int(offsets.max()) + width + self._lead > self._size):
            offsets = offsets[(offsets >= 0) & (offsets + width + self._lead <= self._size)]
        if not offsets.size:
            return
        places = offsets + self._lead if self._lead else offsets
        self._refine(self._wanted(places, width))
        shift = self._unit.bit_length() - 1
        for more in range(0, width, self._unit):
            self._marks[(places + more) >> shift] = True
        if width % self._unit:  # sectors stand for elements: the last one, too
            self._marks[(places + (width - 1)) >> shift] = True

    def _wanted(self, places: Ints, width: int) -> int:
        """The largest unit of which each of these elements is a whole number, at most a sector."""
        bits = int(np.bitwise_or.reduce(places, axis=None)) | width
        unit = min(bits & -bits, SECTOR_BYTES)
        return unit if self._size // unit <= _MOST_MARKS else SECTOR_BYTES

    def _refine(self, unit: int) -> None:
        if self._unit == 0:
            self._unit = unit
            self._marks = np.zeros(-(-self._size // unit), dtype=np.bool_)
        elif unit < self._unit:
            self._marks = np.repeat(self._marks, self._unit // unit)[: -(-self._size // unit)]
            self._unit = unit

    @property
    def unique_bytes(self) -> int:
        return min(int(np.count_nonzero(self._marks)) * self._unit, self._size)

    def sectors(self) -> int:
        """How many sectors hold a byte that was touched."""
        if not self._unit:
            return 0
        per = SECTOR_BYTES // self._unit
        padded = np.zeros(-(-len(self._marks) // per) * per, dtype=np.bool_)
        padded[: len(self._marks)] = self._marks
        return int(np.count_nonzero(padded.reshape(-1, per).any(axis=1)))


@dataclass
class _Direction:
    marks: dict[int, Marks] = field(default_factory=dict)
    requested_bytes: int = 0
    l2_bytes: int = 0


class Touched:
    """An observer of accesses; counts those of the operations and programs that `watch` names."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._memory = Memory(launch)
        self._directions = {"read": _Direction(), "written": _Direction()}
        self._wanted: frozenset[Operation] = frozenset()
        self._weights: Ints = np.zeros(0, dtype=np.int64)
        self.lanes = 0
        self.masked_lanes = 0
        self.atomics = 0
        self.outside = 0  # elements that are in no storage that is known

    def watch(self, operations: frozenset[Operation], programs: Ints, weights: Ints) -> None:
        """What to take from here on. ``weights``: for how many programs each of ``programs`` stands."""
        self._wanted = operations
        self._weights = np.zeros(self._launch.program_count, dtype=np.int64)
        self._weights[programs] = weights

    def access(self, event: AccessEvent) -> None:
        if event.operation not in self._wanted:
            return
        count = len(event.programs)
        weights = self._weights[event.programs]
        enabled = np.count_nonzero(event.mask.reshape(count, -1), axis=1)
        elements = int(enabled @ weights)
        lanes = event.mask.size // count * int(weights.sum())
        self.lanes += lanes
        self.masked_lanes += lanes - elements
        if not elements:
            return
        if event.kind == "atomic":
            self.atomics += elements
        self._take(event, weights, elements, whole=int(enabled.sum()) == event.mask.size)

    def _take(self, event: AccessEvent, weights: Ints, elements: int, whole: bool) -> None:
        storages, inside = self._memory.locate(event.argument, event.offsets)
        order = _order(inside)
        inside, mask, width = inside.transpose(order), event.mask.transpose(order), event.width_bytes
        rows = _rows(inside, width) if whole and isinstance(storages, int) else None
        if rows is not None and isinstance(storages, int):
            inside, width = rows  # as if each row of the tile were one wide element
            lead = self._launch.storages[storages].address % SECTOR_BYTES if storages != NOWHERE else 0
            first, last = inside + lead, inside + (lead + width - 1)
            sectors = (last >> _SECTOR_SHIFT) - (first >> _SECTOR_SHIFT) + 1
        else:
            sectors = _fresh_sectors(inside, mask, width)
        l2_bytes = int(sectors.reshape(len(weights), -1).sum(axis=1) @ weights) * SECTOR_BYTES
        for name in _DIRECTIONS[event.kind]:
            direction = self._directions[name]
            direction.requested_bytes += elements * event.width_bytes
            direction.l2_bytes += l2_bytes
            if isinstance(storages, int):
                self._add(direction, storages, inside if whole else inside[mask], width)
                continue
            held = storages.transpose(order)
            for one in np.unique(held):
                self._add(direction, int(one), inside[(held == one) & mask], width)

    def _add(self, direction: _Direction, storage: int, offsets: Ints, width: int) -> None:
        if storage == NOWHERE:
            self.outside += offsets.size
            return
        marks = direction.marks.get(storage)
        if marks is None:
            described = self._launch.storages[storage]
            marks = direction.marks[storage] = Marks(described.address, described.size_bytes)
        marks.add(offsets, width)

    # --- what came of it -----------------------------------------------------------------------------

    def traffic(self, name: str) -> Traffic:
        """Of one direction, ``read`` or ``written``."""
        direction = self._directions[name]
        return Traffic(
            direction.requested_bytes,
            direction.l2_bytes,
            sum(one.unique_bytes for one in direction.marks.values()),
            sum(one.sectors() for one in direction.marks.values()) * SECTOR_BYTES,
        )

    def tensors(self) -> list[tuple[str, int, int]]:
        """Name, unique bytes read and written, of each storage that is touched."""
        reads, writes = self._directions["read"].marks, self._directions["written"].marks
        return [
            (
                self._launch.storages[storage].name or f"storage {storage}",
                reads[storage].unique_bytes if storage in reads else 0,
                writes[storage].unique_bytes if storage in writes else 0,
            )
            for storage in sorted({*reads, *writes})
        ]


def _order(offsets: Ints) -> tuple[int, ...]:
    """The axes with that last along which addresses grow the least, as the compiler orders lanes."""
    steps = []
    for axis in range(1, offsets.ndim):
        step = 1 << 62
        if offsets.shape[axis] > 1:
            step = int(np.abs(np.diff(np.take(offsets[:1], [0, 1], axis=axis), axis=axis)).max())
        steps.append((-step, axis))
    return (0, *(axis for _, axis in sorted(steps)))


def _rows(offsets: Ints, width: int) -> tuple[Ints, int] | None:
    """The first offset of each row and a row's bytes, if all rows are without gaps."""
    length = offsets.shape[-1]
    if offsets.ndim < 2 or length < 2 or not (offsets[..., 1:] - offsets[..., :-1] == width).all():
        return None
    return offsets[..., 0], length * width


def _fresh_sectors(offsets: Ints, mask: Bools, width: int) -> Ints:
    """Per lane, the sectors that it asks for and the lane before it does not."""
    count = len(offsets)
    places, enabled = (offsets >> _SECTOR_SHIFT).reshape(count, -1), mask.reshape(count, -1)
    fresh = enabled.copy()
    same = places[:, 1:] == places[:, :-1]
    same &= enabled[:, :-1]
    fresh[:, 1:] &= ~same
    found: Ints = fresh.astype(np.int64) * max(1, width >> _SECTOR_SHIFT)
    return found
