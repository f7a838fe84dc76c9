"""Which programs touched which bytes, as tables over memory, for one operation of an evaluated launch.

A cell is the smallest unit of a storage that its accesses are multiples of. Of each cell a table keeps the
first program and one other: that is enough to say for two operations whether two different programs met
there. Pages of a table that nothing touches cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MIXED = np.int64(-1)  # a tag that is not the same for all accesses of the cell


@dataclass
class Trace:
    """Who: program + 1 (0: nobody), the lane's flat index in the tile, the number of the event."""

    cells: int
    program: npt.NDArray[np.int32] = field(init=False)
    lane: npt.NDArray[np.int32] = field(init=False)
    event: npt.NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        self.program, self.lane, self.event = (np.zeros(self.cells, dtype=np.int32) for _ in range(3))

    def put(self, cells: Ints, programs: Ints, lanes: Ints, event: int) -> None:
        self.program[cells] = programs + 1
        self.lane[cells] = lanes
        self.event[cells] = event

    def refine(self, factor: int) -> None:
        self.cells *= factor
        self.program, self.lane, self.event = (
            np.repeat(a, factor) for a in (self.program, self.lane, self.event)
        )


@dataclass
class Cells:
    """What one operation did in one storage."""

    cells: int
    first: Trace = field(init=False)
    second: Trace | None = None  # of another program than the first, one that stores another value if any
    values: Ints | None = None  # what was stored, by bits; None: nothing that is known
    second_values: Ints | None = None  # by the second program
    mixed: Bools | None = None  # different values were
    unknown: Bools | None = None  # something was that is not known
    # By what the accesses of a cell are ordered: 0 none yet, MIXED, else the address of a word.
    tags: dict[int, Ints] = field(default_factory=dict)
    low: int = 0
    high: int = 0  # cells outside [low, high) are untouched

    def __post_init__(self) -> None:
        self.first = Trace(self.cells)
        self.low = self.cells

    @property
    def touched_bytes(self) -> int:
        """Memory at most: what lies outside of the touched range was never written to."""
        per_cell = 12 if self.second is None else 24
        per_cell += (9 if self.values is not None else 0) + (1 if self.unknown is not None else 0)
        per_cell += 0 if self.second_values is None else 8
        return max(0, self.high - self.low) * (per_cell + 8 * len(self.tags))

    def enter(
        self, cells: Ints, programs: Ints, lanes: Ints, event: int, values: Ints | None, tags: dict[int, Ints]
    ) -> None:
        """One event; all arrays have one entry per touched cell."""
        self.low = min(self.low, int(cells.min()))
        self.high = max(self.high, int(cells.max()) + 1)
        fresh = np.flatnonzero(self.first.program[cells] == 0)
        new = np.zeros(len(cells), dtype=np.bool_)
        new[fresh] = True
        self.first.put(cells[fresh], programs[fresh], lanes[fresh], event)
        apart = self._enter_values(cells, new, values)
        other = self.first.program[cells] != programs + 1
        if other.any():
            if self.second is None:
                self.second = Trace(self.cells)
            for some in (other & (self.second.program[cells] == 0), other & apart):
                self.second.put(cells[some], programs[some], lanes[some], event)
                if values is not None:
                    if self.second_values is None:
                        self.second_values = np.zeros(self.cells, dtype=np.int64)
                    self.second_values[cells[some]] = values[some]
        for key in {*tags, *self.tags}:
            table = self.tags.setdefault(key, np.zeros(self.cells, dtype=np.int64))
            tag = tags.get(key)
            if tag is None:
                table[cells] = MIXED
                continue
            untouched = table[cells] == 0
            table[cells[untouched]] = tag[untouched]
            table[cells[table[cells] != tag]] = MIXED

    def _enter_values(self, cells: Ints, new: Bools, values: Ints | None) -> Bools:
        """Which entries are the first to store another value than the cell's first."""
        if values is None:
            self._unknown()[cells] = True
            return np.zeros(len(cells), dtype=np.bool_)
        if self.values is None or self.mixed is None:
            self.values = np.zeros(self.cells, dtype=np.int64)
            self.mixed = np.zeros(self.cells, dtype=np.bool_)
        self.values[cells[new]] = values[new]
        differ = self.values[cells] != values
        apart = np.asarray(differ & ~self.mixed[cells])
        self.mixed[cells[differ]] = True
        return apart

    def side(self, second: bool) -> tuple[Trace | None, Ints | None]:
        """The first program's trace and values, or the second's."""
        return (self.second, self.second_values) if second else (self.first, self.values)

    def _unknown(self) -> Bools:
        if self.unknown is None:
            self.unknown = np.zeros(self.cells, dtype=np.bool_)
        return self.unknown

    def refine(self, unit: int, factor: int) -> None:
        """Split every cell of ``unit`` bytes into ``factor`` cells."""
        self.cells *= factor
        self.low, self.high = self.low * factor, self.high * factor
        self.first.refine(factor)
        if self.second is not None:
            self.second.refine(factor)
        if self.unknown is not None:
            self.unknown = np.repeat(self.unknown, factor)
        if self.values is not None and self.mixed is not None:
            # Which of the smaller ones have different values is not known.
            mixed, self.mixed = self.mixed, np.zeros(self.cells, dtype=np.bool_)
            self._unknown()[np.repeat(mixed, factor)] = True
            self.values = _split(self.values, unit, factor)
        if self.second_values is not None:
            self.second_values = _split(self.second_values, unit, factor)
        self.tags = {key: np.repeat(table, factor) for key, table in self.tags.items()}


def _split(values: Ints, unit: int, factor: int) -> Ints:
    return values.astype(f"<i{unit}").view(f"<i{unit // factor}").astype(np.int64)


def stored_the_same(left: Cells, right: Cells, cells: Ints) -> tuple[Bools, Bools]:
    """Of each of these cells, which both touched: whether what was stored is known, whether it differs."""
    known = np.ones(len(cells), dtype=np.bool_)
    for one in (left, right):
        known &= one.values is not None
        if one.unknown is not None:
            known &= ~one.unknown[cells]
    if left.values is None or right.values is None or left.mixed is None or right.mixed is None:
        return known, np.zeros(len(cells), dtype=np.bool_)
    differ = (left.values[cells] != right.values[cells]) | left.mixed[cells] | right.mixed[cells]
    return known, known & differ


@dataclass(frozen=True)
class Conflict:
    """Cells where two programs met: which (index into the table), and for each the two traces' entries."""

    cells: Ints
    left_second: Bools  # whether the left's second program is meant, not its first
    right_second: Bools


def conflicts(left: Cells, right: Cells) -> Conflict:
    """All cells that two different programs touched, one through ``left``, one through ``right``."""
    low, high = max(left.low, right.low), min(left.high, right.high)
    if low >= high:
        nothing = np.zeros(0, dtype=np.int64)
        return Conflict(nothing, nothing.astype(np.bool_), nothing.astype(np.bool_))
    a, b = left.first.program[low:high], right.first.program[low:high]
    both = (a != 0) & (b != 0)
    differ = both & (a != b)
    found = [np.flatnonzero(differ)]
    # If both begin with one program, the second of either side is another one.
    left_second = right_second = np.zeros(0, dtype=np.int64)
    if left.second is not None:
        left_second = np.flatnonzero(both & ~differ & (left.second.program[low:high] != 0))
    if right.second is not None:
        also = both & ~differ & (right.second.program[low:high] != 0)
        if left.second is not None:
            also &= left.second.program[low:high] == 0
        right_second = np.flatnonzero(also)
    found += [left_second, right_second]
    sizes = [len(one) for one in found]
    of = np.repeat(np.arange(3), sizes)
    return Conflict(np.concatenate(found).astype(np.int64) + low, of == 1, of == 2)


def turn_to_differing(left: Cells, right: Cells, met: Conflict, positions: Ints) -> int:
    """One of these positions, whose stores differ: ``met`` then names two programs that differ there.

    Where one operation stores several values, it may have named two that store the same.
    """
    cells = met.cells[positions]
    both = (False,) if left is right else (False, True)
    for here in both:
        for there in (True,) if left is right else both:
            (one, bits), (other, beside) = left.side(here), right.side(there)
            if one is None or other is None or bits is None or beside is None:
                continue
            a, b = one.program[cells], other.program[cells]
            found = np.flatnonzero((a != 0) & (b != 0) & (a != b) & (bits[cells] != beside[cells]))
            if len(found):
                position = int(positions[found[0]])
                met.left_second[position], met.right_second[position] = here, there
                return position
    return int(positions[0])
