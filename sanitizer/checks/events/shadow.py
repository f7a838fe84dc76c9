"""Who wrote which byte: freshness before the launch, and the launch's own stores as they happen.

Only storages with bytes that nobody is known to have written have a shadow, and of those only the span
around such bytes; pages of it that nothing touches cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.checks.events.elements import by_storage
from kerncap.sanitizer.checks.events.freshness import unwritten
from kerncap.sanitizer.concrete.events import AccessEvent, Bools, Ints
from kerncap.sanitizer.launch import Launch, Unwritten

Programs = npt.NDArray[np.uint32]


@dataclass
class _Shadow:
    low: int  # offset in the storage of the shadow's first byte
    fresh: Unwritten | None  # what nobody wrote before the launch; None: not known for any byte
    first: Programs  # 1 + the linear id of the program that wrote it first in this launch; 0: none yet
    last: Programs


@dataclass(frozen=True)
class Reads:
    """Per element of an event, what is wrong with the bytes it reads."""

    unwritten: Bools  # nobody has written one of them, before the launch or in it
    foreign: Bools  # in this launch other programs wrote one of them, this one did not
    unknown: Bools  # this launch has not written one of them, and nobody knows whether it was written before


class ShadowMemory:
    """Feed it the events of one evaluation in order; ask about a read before telling it."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._shadows: dict[int, _Shadow | None] = {}
        self._too_large: set[int] = set()

    def reads(self, event: AccessEvent) -> Reads:
        shape = event.offsets.shape
        found = Reads(*(np.zeros(shape, np.bool_) for _ in range(3)))
        for storage, offsets, selected in by_storage(self._launch, event):
            shadow = self._shadow(storage)
            if storage in self._too_large:
                np.logical_or(found.unknown, selected, out=found.unknown)
            if shadow is None:
                continue
            chosen, start, program = _inside(event, shadow, offsets, selected)
            for byte in range(event.width_bytes if chosen.size else 0):
                position = start + byte
                within = (position >= 0) & (position < shadow.first.size)
                position = np.where(within, position, 0)
                first, last = shadow.first[position], shadow.last[position]
                nobody = within & (first == 0)
                others = within & (first != 0) & (first != program) & (last != program)
                if shadow.fresh is None:
                    _mark(found.unknown, chosen, nobody)
                else:
                    fresh = shadow.fresh.holds(position + shadow.low)
                    _mark(found.unwritten, chosen, nobody & fresh)
                    others &= fresh
                _mark(found.foreign, chosen, others)
        return found

    def writes(self, event: AccessEvent) -> None:
        for storage, offsets, selected in by_storage(self._launch, event):
            shadow = self._shadow(storage)
            if shadow is None:
                continue
            chosen, start, program = _inside(event, shadow, offsets, selected)
            for byte in range(event.width_bytes if chosen.size else 0):
                position = start + byte
                within = (position >= 0) & (position < shadow.first.size)
                position, writer = position[within], program[within]
                new = shadow.first[position] == 0
                shadow.first[position[new]] = writer[new]
                shadow.last[position] = writer

    def _shadow(self, storage: int) -> _Shadow | None:
        if storage not in self._shadows:
            self._shadows[storage] = self._make(storage)
        return self._shadows[storage]

    def _make(self, storage: int) -> _Shadow | None:
        """None if every byte was written, and if there is no memory for a shadow."""
        runs = unwritten(self._launch, storage)
        low, high = (0, self._launch.storages[storage].size_bytes) if runs is None else runs.span
        if low == high:
            return None
        try:
            first, last = zeros(high - low), zeros(high - low)
        except MemoryError:
            self._too_large.add(storage)
            return None
        return _Shadow(low, runs, first, last)


def zeros(count: int) -> Programs:
    """Pages that nothing touches cost nothing."""
    return np.zeros(count, np.uint32)


def _inside(
    event: AccessEvent, shadow: _Shadow, offsets: Ints, selected: Bools
) -> tuple[Ints, Ints, Programs]:
    """Flat indices of the elements that touch the shadow, where in it they start, and 1 + their program."""
    relative = offsets - shadow.low
    touching = selected & (relative > -event.width_bytes) & (relative < shadow.first.size)
    chosen = np.flatnonzero(touching)
    per_program = max(1, event.offsets.size // max(1, event.programs.size))
    program = (event.programs[chosen // per_program] + 1).astype(np.uint32)
    return chosen, relative.reshape(-1)[chosen], program


def _mark(where: Bools, chosen: Ints, bad: Bools) -> None:
    where.reshape(-1)[chosen[bad]] = True
