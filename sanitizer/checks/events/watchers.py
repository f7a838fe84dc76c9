"""The checks over access events: each watcher looks at every event and keeps the first witness.

What a watcher has not seen by the end of a complete evaluation does not happen in this launch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.elements import Witness, by_argument, first_witness
from kerncap.sanitizer.checks.events.shadow import ShadowMemory
from kerncap.sanitizer.checks.value_origin import fresh_text, reads_memory, steered_text, undefined_text
from kerncap.sanitizer.concrete.events import AccessEvent, Bools
from kerncap.sanitizer.diagnose.place import base_address
from kerncap.sanitizer.findings import NOT_KNOWN
from kerncap.sanitizer.symbolic.expr import FALSE
from kerncap.sanitizer.ttir.ir import Operation

FOREIGN = "other programs of the launch write these bytes; whether they do so first is not known here"
LOADS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather")
MASK_NOT_KNOWN = "whether the mask is defined is not known"
VALUE_NOT_KNOWN = "what is stored is not known, nor whether it is defined"


@dataclass(frozen=True)
class Seen:
    """A violation, as far as the event tells. ``text`` says what is wrong, after the access's own name."""

    witness: Witness
    text: str
    kind: Literal["load", "store", "atomic"]
    width_bytes: int
    beyond_bytes: int | None = None
    unwritten: bool = False


class Watcher:
    """Base: which operations are of interest, and what was found out about them."""

    def __init__(self, operations: Collection[Operation]) -> None:
        self.operations = frozenset(operations)
        self.violations: dict[Operation, Seen] = {}
        self.doubts: dict[Operation, str] = {}

    def access(self, event: AccessEvent) -> None:
        raise NotImplementedError

    def wants(self, event: AccessEvent) -> bool:
        """One witness per operation is enough."""
        return event.operation in self.operations and event.operation not in self.violations

    def found(self, event: AccessEvent, bad: Bools, text: str, beyond_bytes: int | None = None) -> bool:
        witness = first_witness(event, bad)
        if witness is None:
            return False
        self.violations[event.operation] = Seen(witness, text, event.kind, event.width_bytes, beyond_bytes)
        return True


class OverflowWatcher(Watcher):
    """An integer operation wrapped around on its way to an address that is really accessed."""

    def access(self, event: AccessEvent) -> None:
        if event.overflowed is not None and self.wants(event):
            text = "an integer wraps around on its way to the address"
            self.found(event, event.overflowed & event.mask, text)


class AlignmentWatcher(Watcher):
    """An address that is no multiple of the element's size."""

    def __init__(self, operations: Collection[Operation], analysis: Analysis) -> None:
        super().__init__(operations)
        self._launch = analysis.launch

    def access(self, event: AccessEvent) -> None:
        width = event.width_bytes
        if width <= 1 or not self.wants(event):
            return
        for index, selected in by_argument(event):
            base = base_address(self._launch, None if index < 0 else index)
            crooked = selected & ((event.offsets + base) % width != 0)
            if self.found(event, crooked, f"the address is not a multiple of the element's {width} bytes"):
                return


def stores_in_doubt(analysis: Analysis, operations: Collection[Operation]) -> frozenset[Operation]:
    """Stores and atomics of which the walk does not already say that what they store is defined."""
    defined = {one.operation for one in analysis.walked.accesses}
    defined -= {one.operation for one in analysis.walked.accesses if one.undefined is not FALSE}
    return frozenset(one for one in operations if one.name not in LOADS and one not in defined)


def counts_left_out(analysis: Analysis) -> bool:
    """Whether an evaluation is to tell left-out lanes: only if one may be used, as far as the walk knows."""
    accesses = analysis.walked.accesses
    return not accesses or any(
        one.undefined is not FALSE or one.steered_by_undefined is not FALSE for one in accesses
    )


class UninitWatcher(Watcher):
    """Fresh memory that is read, and undefined lanes that reach a store, an address or a mask."""

    def __init__(self, operations: Collection[Operation], analysis: Analysis) -> None:
        super().__init__(operations)
        self._values = stores_in_doubt(analysis, operations)
        accesses = analysis.walked.accesses
        # If left-out lanes count: by the walk no undefined value decides where these go.
        steady = {one.operation for one in accesses if counts_left_out(analysis)}
        self._steady = steady - {one.operation for one in accesses if one.steered_by_undefined is not FALSE}
        self._masks = frozenset(one.operation for one in accesses if one.mask_undefined is not FALSE)
        self._shadow = ShadowMemory(analysis.launch)
        self._function = analysis.function

    def access(self, event: AccessEvent) -> None:
        if self.wants(event):
            self._undefined(event)
        if self.wants(event) and reads_memory(event.operation, event.kind, self._function):
            self._fresh(event)
        if event.kind != "load":
            self._shadow.writes(event)

    def _undefined(self, event: AccessEvent) -> None:
        self._steered(event)
        if event.operation in self.violations or event.operation not in self._values:
            return
        if event.undefined is not None:
            self.found(event, _like(event, event.undefined), undefined_text(event.operation))
        elif event.new is None and event.mask.any():
            self.doubts.setdefault(event.operation, VALUE_NOT_KNOWN)

    def _steered(self, event: AccessEvent) -> None:
        if event.operation in self._steady:
            return
        followed = None if event.steered_by_undefined is None else _like(event, event.steered_by_undefined)
        if event.mask_undefined is not None:
            unsure = np.broadcast_to(event.mask_undefined, event.mask.shape)
            followed = unsure if followed is None else followed | unsure
        if followed is not None and self.found(event, followed, steered_text(event.operation)):
            return
        if event.operation in self._masks and event.mask_undefined is None and followed is not None:
            # The event does not tell an undefined mask from an undefined address that the mask leaves out.
            assert event.steered_by_undefined is not None
            if (np.broadcast_to(event.steered_by_undefined, event.mask.shape) & ~event.mask).any():
                self.doubts.setdefault(event.operation, MASK_NOT_KNOWN)

    def _fresh(self, event: AccessEvent) -> None:
        reads = self._shadow.reads(event)
        if self.found(event, reads.unwritten, fresh_text(event.kind)):
            seen = self.violations[event.operation]
            self.violations[event.operation] = replace(seen, unwritten=True)
            return
        if reads.unknown.any():
            self.doubts.setdefault(event.operation, NOT_KNOWN)
        elif reads.foreign.any():
            self.doubts.setdefault(event.operation, FOREIGN)


def _like(event: AccessEvent, flags: Bools) -> Bools:
    """Flags of the elements that are really accessed; they may come with axes of extent 1."""
    result: Bools = np.broadcast_to(flags, event.mask.shape) & event.mask
    return result
