"""A witness is believed only after its program has been run up to it.

The solver reasons about expressions that the walk made of the kernel; the evaluator executes the
kernel's operations one by one. A mistake in one of the two shows as a disagreement here, and then the
check says "unproven" instead of raising an alarm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.concrete.events import AccessEvent, StopEvaluation
from kerncap.sanitizer.diagnose.place import Assignment, base_address, linear_program, place_of, value_at
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Access, Target

# One program, and only what its addresses need: what takes longer has a very long loop before the witness.
MAX_ELEMENT_OPERATIONS = 200_000_000
MAX_SECONDS = 10.0


@dataclass(frozen=True)
class Confirmation:
    """``by``: the evaluator ran into it; or, if it can't run, the expressions say so at that point."""

    holds: bool
    by: Literal["evaluator", "expressions"]
    reason: str = ""  # why it does not hold, or why the evaluator had no say


@dataclass
class _Witness:
    """Watches for one operation in one iteration to touch one address with one lane."""

    analysis: Analysis
    operation: Operation
    shape: tuple[int, ...]
    lane: tuple[int, ...]
    trips: tuple[int, ...]
    address: int
    found: bool = field(default=False, init=False)
    # What the lane did instead, for the message if it was not confirmed.
    seen: list[tuple[int, bool]] = field(default_factory=list, init=False)

    def access(self, event: AccessEvent) -> None:
        if event.operation is not self.operation:
            return
        if len(event.trips) == len(self.trips):
            at = tuple(int(trip[0]) for trip in event.trips)
            if at != self.trips:
                return
        # With other loops around it than the walk knows (it unrolled some), any iteration will do.
        offsets, mask = event.offsets[0], event.mask[0]
        bases = self._bases(event)
        if offsets.shape == self.shape:
            address = int(offsets[self.lane]) + int(np.broadcast_to(bases, offsets.shape)[self.lane])
            accessed = bool(np.broadcast_to(mask, offsets.shape)[self.lane])
            self.found = accessed and address == self.address
            self.seen.append((address, accessed))
        else:
            self.found = bool(np.any((offsets + bases == self.address) & mask))
            self.seen.append((0, False))
        if self.found:
            raise StopEvaluation

    def _bases(self, event: AccessEvent) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """The address that each element's offset counts from."""
        launch = self.analysis.launch
        if isinstance(event.argument, int):
            return np.asarray(base_address(launch, None if event.argument < 0 else event.argument))
        table = np.array(
            [base_address(launch, i) for i in range(len(launch.arguments))] + [0], dtype=np.int64
        )
        return np.asarray(table[np.maximum(event.argument[0], -1)])  # -1 is the last entry


def confirm(analysis: Analysis, access: Access, target: Target, assignment: Assignment) -> Confirmation:
    """Whether the access really happens at this point, at the address that the target says."""
    offset = value_at(analysis, target.offset_bytes, assignment)
    if offset is None:
        return Confirmation(False, "expressions", "the address at the witness is not known")
    reason = _run(analysis, access, target, assignment, offset)
    if reason is True:
        return Confirmation(True, "evaluator")
    if reason is False:
        return Confirmation(False, "evaluator", "the evaluator does not reach it")
    # The evaluator can't run this kernel; the solver's model is still checked against the expressions.
    for condition in (access.path, access.mask, target.guard):
        if not value_at(analysis, condition, assignment):
            return Confirmation(False, "expressions", f"not reached at the witness ({reason})")
    return Confirmation(True, "expressions", reason)


def _run(
    analysis: Analysis, access: Access, target: Target, assignment: Assignment, offset: int
) -> bool | str:
    """True, False, or why the evaluator does not know."""
    from kerncap.sanitizer.concrete.memory import Memory
    from kerncap.sanitizer.concrete.run import Limits, evaluate

    launch = analysis.launch
    place = place_of(analysis, access, assignment)
    witness = _Witness(
        analysis,
        access.operation,
        access.shape,
        place.lane,
        tuple(assignment.get(loop.counter, loop.counter.low) for loop in access.loops),
        base_address(launch, target.argument) + offset,
    )
    outcome = evaluate(
        analysis.module,
        analysis.function,
        launch,
        Memory(launch),
        programs=np.array([linear_program(launch, place.program_id)], dtype=np.int64),
        addresses_only=True,
        observer=witness,
        limits=Limits(MAX_ELEMENT_OPERATIONS, MAX_SECONDS),
    )
    if witness.found:
        return True
    if not outcome.complete:
        return outcome.reason or "the evaluator could not finish"
    return False
