"""Copies to shared memory that have begun, by thread, and which of them a wait ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kerncap.sanitizer.equality.numbers import Array, Bools, Ints
from kerncap.sanitizer.equality.ptx.values import Value, of_active


@dataclass(frozen=True)
class Copy:
    """A copy to shared memory that has begun: by thread, its group, where from, whether at all, where to."""

    lanes: Ints
    group: Ints
    source: int
    origin: Array
    live: Bools
    target: int
    into: Array
    value: Value
    width: int

    def of(self, chosen: Bools) -> Copy:
        """Of some of its threads."""
        lanes, group, origin = self.lanes[chosen], self.group[chosen], self.origin[chosen]
        live, into, value = self.live[chosen], self.into[chosen], of_active(chosen, self.value)
        return Copy(lanes, group, self.source, origin, live, self.target, into, value, self.width)


class Copies:
    """Of the threads that run together."""

    def __init__(self, threads: int) -> None:
        self._pending: list[Copy] = []
        self._committed = np.zeros(threads, dtype=np.int64)

    def group(self, lanes: Ints) -> Ints:
        """Of a copy that begins now."""
        return self._committed[lanes]

    def add(self, one: Copy) -> None:
        self._pending.append(one)

    def commit(self, active: Bools) -> None:
        self._committed[active] += 1

    def ended(self, active: Bools, but: int) -> list[Copy]:
        """What these threads committed, without their last ``but`` groups; it is pending no more."""
        ended, left = [], []
        for one in self._pending:
            done = active[one.lanes] & (one.group < self._committed[one.lanes] - but)
            if done.any():
                ended.append(one.of(done))
            if not done.all():
                left.append(one.of(~done))
        self._pending = left
        return ended
