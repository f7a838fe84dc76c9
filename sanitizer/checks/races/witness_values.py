"""What the two programs of a conflict store: each of them is run alone, on the memory before the launch."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.elements import addresses_of
from kerncap.sanitizer.checks.races.pairs import Race
from kerncap.sanitizer.checks.races.sides import Side
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import Limits, evaluate
from kerncap.sanitizer.diagnose.confirm import MAX_ELEMENT_OPERATIONS, MAX_SECONDS
from kerncap.sanitizer.diagnose.place import linear_program, place_of, value_at
from kerncap.sanitizer.symbolic.expr import Variable
from kerncap.sanitizer.ttir.ir import Operation


def equal_at(analysis: Analysis, race: Race) -> bool | None:
    """Whether both stores of a conflict leave the same; None if they overlap in part or are not known."""
    here = value_at(analysis, race.left.address, race.left_point)
    there = value_at(analysis, race.right.address, race.right_point)
    if here is None or here != there or race.left.width != race.right.width:
        return None
    one = _stored(analysis, race.left, race.left_point, here)
    other = _stored(analysis, race.right, race.right_point, here)
    return None if one is None or other is None else one == other


def _stored(analysis: Analysis, side: Side, point: dict[Variable, int], address: int) -> bytes | None:
    """The bytes that the program of a point leaves at an address; None if they are not known."""
    watcher = _At(analysis, side.access.operation, address)
    program = linear_program(analysis.launch, place_of(analysis, side.access, point).program_id)
    outcome = evaluate(
        analysis.module,
        analysis.function,
        analysis.launch,
        Memory(analysis.launch),
        programs=np.array([program], dtype=np.int64),
        observer=watcher,
        limits=Limits(MAX_ELEMENT_OPERATIONS, MAX_SECONDS),
    )
    return watcher.stored if outcome.complete else None


class _At:
    """The last bytes that an operation stores at an address."""

    def __init__(self, analysis: Analysis, operation: Operation, address: int) -> None:
        self._launch, self._operation, self._address = analysis.launch, operation, address
        self.stored: bytes | None = None

    def access(self, event: AccessEvent) -> None:
        if event.operation is not self._operation:
            return
        found = np.flatnonzero(event.mask & (addresses_of(self._launch, event) == self._address))
        if found.size:
            values = None if event.new is None else np.broadcast_to(event.new, event.mask.shape)
            self.stored = None if values is None else values.reshape(-1)[found[-1]].tobytes()
