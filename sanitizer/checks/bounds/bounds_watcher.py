"""Out-of-bounds accesses over events: the same regions as the symbolic check, as numbers."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.bounds.extents import (
    NULL_PAGE,
    Extent,
    Region,
    distance_of,
    of_storage,
    regions_of,
)
from kerncap.sanitizer.checks.events.elements import Witness, by_argument, first_witness
from kerncap.sanitizer.checks.events.watchers import Seen, Watcher
from kerncap.sanitizer.concrete.events import AccessEvent, Bools, Ints
from kerncap.sanitizer.concrete.memory import NOWHERE, storage_behind
from kerncap.sanitizer.footprint import Footprint
from kerncap.sanitizer.symbolic.expr import TRUE, const
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Target

UNKNOWN_ORIGIN = "an address of unknown origin: which memory it may reach is not known"


class BoundsWatcher(Watcher):
    """An element of which a byte lies outside of what its argument gives access to."""

    def __init__(self, operations: Collection[Operation], analysis: Analysis) -> None:
        super().__init__(operations)
        self._analysis = analysis
        self._regions: dict[int, Region] = {}
        # Violated, but so far only by elements whose address an overflow made.
        self.only_by_overflow: set[Operation] = set()

    def wants(self, event: AccessEvent) -> bool:
        """An element that is outside without any overflow is the better witness, however late it comes."""
        operation = event.operation
        return operation in self.operations and (
            operation not in self.violations or operation in self.only_by_overflow
        )

    def access(self, event: AccessEvent) -> None:
        if not self.wants(event) or event.offsets.size == 0:
            return
        for index, selected in by_argument(event):
            if index < 0:
                self._absolute(event, storage_behind(index), selected)
            elif isinstance(region := self.region(index), Extent):
                self._within(event, region, selected)
            elif region.certain:
                self.found(event, selected, region.what)
            elif selected.any():
                self.doubts.setdefault(event.operation, region.what)
            if event.operation in self.violations:
                return

    def region(self, index: int) -> Region:
        """What an argument's pointer gives access to."""
        if index not in self._regions:
            # The base is a number, so exactly one of the cases holds.
            target = Target(TRUE, index, const(0))
            cases = regions_of(self._analysis, target, 1)
            self._regions[index] = next(one for one in cases if one.when is TRUE)
        return self._regions[index]

    def _within(self, event: AccessEvent, extent: Extent, selected: Bools) -> None:
        starts, width, view = event.offsets, event.width_bytes, extent.view
        if int(starts.min()) < extent.low or int(starts.max()) + width > extent.high:
            outside = selected & ((starts < extent.low) | (starts > extent.high - width))
            witness = self._first_outside(event, outside)
            if witness is not None:
                beyond, distance = distance_of(witness.offset_bytes, width, extent.low, extent.high)
                text = f"{distance} {extent.what}"
                self.violations[event.operation] = Seen(witness, text, event.kind, width, beyond)
                return
        if view is None or not view.has_gaps or not selected.any():
            return
        if view.tangled is not None:
            self.doubts.setdefault(event.operation, f"{extent.name}: {view.tangled}")
            return
        gaps = selected & _in_gap(view, starts, width)
        self.found(event, gaps, f"between the elements of {extent.what}", beyond_bytes=0)

    def _first_outside(self, event: AccessEvent, outside: Bools) -> Witness | None:
        sober = outside if event.overflowed is None else outside & ~event.overflowed
        witness = first_witness(event, sober)
        if witness is not None:
            self.only_by_overflow.discard(event.operation)
        elif event.operation not in self.violations:
            witness = first_witness(event, outside)
            if witness is not None:
                self.only_by_overflow.add(event.operation)
        return witness

    def found(self, event: AccessEvent, bad: Bools, text: str, beyond_bytes: int | None = None) -> bool:
        found = super().found(event, bad, text, beyond_bytes)
        if found:
            self.only_by_overflow.discard(event.operation)
        return found

    def _absolute(self, event: AccessEvent, storage: int, selected: Bools) -> None:
        """Addresses from memory or from an integer; ``storage``: what they were made for, if it is known."""
        null = selected & (event.offsets >= 0) & (event.offsets < NULL_PAGE)
        if self.found(event, null, "a pointer from memory is null"):
            return
        if storage != NOWHERE:
            known = self._analysis.launch.storages[storage]
            self._within(event, of_storage(known, self._analysis.options.bounds), selected)
        elif selected.any():
            self.doubts.setdefault(event.operation, UNKNOWN_ORIGIN)


def _in_gap(view: Footprint, starts: Ints, width: int) -> Bools:
    """Elements inside the range that touch a byte between the view's runs, as `Footprint.in_gap` says it."""
    rest = starts - view.first
    bad: Bools = np.zeros(starts.shape, np.bool_)
    for level in range(len(view.axes) - 1, -1, -1):
        below = view.run + sum(axis.reach for axis in view.axes[:level])
        rest = rest % view.axes[level].stride_bytes
        bad |= rest + width > below
    return bad
