"""From a solver's point or an evaluated event to a finding, confirmed before it is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.rounding_watcher import deciding_roundings
from kerncap.sanitizer.checks.events.watchers import MASK_NOT_KNOWN, VALUE_NOT_KNOWN, Seen, UninitWatcher
from kerncap.sanitizer.checks.smallest_witness import smallest
from kerncap.sanitizer.checks.value_origin import undefined_text
from kerncap.sanitizer.concrete.events import AccessEvent, StopEvaluation
from kerncap.sanitizer.diagnose.confirm import MAX_ELEMENT_OPERATIONS, MAX_SECONDS, Confirmation, confirm
from kerncap.sanitizer.diagnose.finding_sentence import (
    access_at,
    access_finding,
    bytes_of_memory,
    describe_place,
    expressions_of,
    memory_at,
    where,
)
from kerncap.sanitizer.diagnose.place import (
    argument_name,
    base_address,
    linear_program,
    place_of,
    tensor_of,
    value_at,
)
from kerncap.sanitizer.findings import Check, Finding, Note, Place, Proved, Unproven, Violated
from kerncap.sanitizer.symbolic.expr import Expr
from kerncap.sanitizer.symbolic.solve import Sat, Unknown, Unsat
from kerncap.sanitizer.ttir.ir import Location, Operation
from kerncap.sanitizer.walk.access import Access, Target


def settled(answer: Unsat | Unknown) -> Proved | Unproven:
    return Proved(answer.how, answer.contents) if isinstance(answer, Unsat) else Unproven(answer.reason)


def accuse(
    analysis: Analysis, access: Access, check: Check, target: Target, point: Sat, text: str
) -> Violated | Unproven:
    """A finding at a point where ``access`` goes to ``target``, if the evaluator gets there too."""
    confirmation = confirm(analysis, access, target, point.assignment)
    if not confirmation.holds:
        return Unproven(f"a witness was not confirmed: {confirmation.reason}")
    subject = bytes_of_memory(analysis, access, target, point.assignment)
    message = f"{subject}: {text}; {where(analysis, access, point.assignment)}"
    finding = access_finding(
        analysis, access, check, target, point.assignment, message, contents=point.contents
    )
    return Violated((replace(finding, unwritten=check == "uninit"),))


def accuse_descriptor(
    analysis: Analysis, access: Access, target: Target, point: Sat, text: str, location: Location
) -> Violated:
    """A finding about how a descriptor was made; its numbers are those of the solver's evaluated point."""
    message = f"{text}; {where(analysis, access, point.assignment)}"
    finding = access_finding(
        analysis, access, "descriptor", target, point.assignment, message, contents=point.contents
    )
    return Violated((replace(finding, location=location),))


def accuse_undefined(
    analysis: Analysis,
    access: Access,
    conditions: Sequence[Expr],
    point: Sat,
    text: str,
    note: Note | None = None,
) -> Violated | Unproven:
    """A finding about an undefined value, if that program stores or follows one in the evaluator too."""
    seen: Seen | None = None
    if note is None:  # to look for the smallest witness costs up to half of an analysis: for errors alone
        point = smallest(analysis, access, conditions, point)
        confirmation, seen = _confirm_undefined(analysis, access, point)
        if not confirmation.holds:
            return Unproven(f"a witness was not confirmed: {confirmation.reason}")
    target = _target_at(analysis, access, point)
    subject = access.kind if target is None else bytes_of_memory(analysis, access, target, point.assignment)
    message = f"{subject}: {text}; {where(analysis, access, point.assignment)}"
    finding = access_finding(
        analysis, access, "uninit", target, point.assignment, message, contents=point.contents, note=note
    )
    # A place that the expressions don't give, of a value that is not there, is where the evaluator saw it; an
    # address that is not there, or that a GPU may round otherwise, leads to no one place.
    if (
        seen is not None
        and finding.place.offset_bytes is None
        and seen.text == undefined_text(access.operation)
        and not deciding_roundings(analysis, [access.operation])
    ):
        finding = finding_of_witness(analysis, access.operation, "uninit", seen)
    return Violated((finding,))


def _target_at(analysis: Analysis, access: Access, point: Sat) -> Target | None:
    for target in access.targets:
        if value_at(analysis, target.guard, point.assignment):
            return target
    return None


class _Until(UninitWatcher):
    """Stops the evaluation at the first violation."""

    def access(self, event: AccessEvent) -> None:
        super().access(event)
        if self.violations:
            raise StopEvaluation


def _confirm_undefined(analysis: Analysis, access: Access, point: Sat) -> tuple[Confirmation, Seen | None]:
    """Runs the one program of the point with everything that it computes; what the evaluator saw."""
    from kerncap.sanitizer.concrete.memory import Memory
    from kerncap.sanitizer.concrete.run import Limits, Track, evaluate

    watcher = _Until([access.operation], analysis)
    program = linear_program(analysis.launch, place_of(analysis, access, point.assignment).program_id)
    outcome = evaluate(
        analysis.module,
        analysis.function,
        analysis.launch,
        Memory(analysis.launch),
        programs=np.array([program], dtype=np.int64),
        observer=watcher,
        limits=Limits(MAX_ELEMENT_OPERATIONS, MAX_SECONDS),
        track=Track(undefined=True),
    )
    if watcher.violations:
        return Confirmation(True, "evaluator"), watcher.violations[access.operation]
    doubt = watcher.doubts.get(access.operation)
    if doubt in (VALUE_NOT_KNOWN, MASK_NOT_KNOWN):
        return Confirmation(True, "expressions", doubt), None
    if outcome.complete:
        return Confirmation(False, "evaluator", "the evaluator finds it defined"), None
    return Confirmation(True, "expressions", outcome.reason or "the evaluator could not finish"), None


# --- events ------------------------------------------------------------------------------------------


def finding_of_witness(analysis: Analysis, operation: Operation, check: Check, seen: Seen) -> Finding:
    """A finding about what the evaluator did; it needs no further confirmation."""
    launch = analysis.launch
    witness = seen.witness
    x, rest = witness.program % launch.grid[0], witness.program // launch.grid[0]
    tensor = tensor_of(launch, witness.argument)
    aligned = tensor is not None and witness.offset_bytes % tensor.itemsize == 0
    name = argument_name(launch, witness.argument)
    place = Place(
        program_id=(x, rest % launch.grid[1], rest // launch.grid[1]),
        lane=witness.lane,
        iterations=witness.iterations,
        argument=name,
        offset_bytes=witness.offset_bytes,
        element=witness.offset_bytes // tensor.itemsize if tensor is not None and aligned else None,
        mask=True,
    )
    access = next((one for one in analysis.walked.accesses if one.operation is operation), None)
    expression, mask = (None, None) if access is None else expressions_of(access)
    lands_in = None
    if check == "oob":
        address = base_address(launch, witness.argument) + witness.offset_bytes
        lands_in = memory_at(launch, address, witness.argument)
    return Finding(
        check=check,
        access=seen.kind,
        location=operation.location if access is None else access.location,
        message=f"{access_at(seen.kind, seen.width_bytes, place)}: {seen.text}; {describe_place(place)}",
        place=place,
        argument=name,
        shape=None if tensor is None else tensor.shape,
        strides=None if tensor is None else tensor.strides,
        width_bytes=seen.width_bytes,
        beyond_bytes=seen.beyond_bytes,
        lands_in=lands_in,
        expression=expression,
        mask_expression=mask,
        contents=True,
        unwritten=seen.unwritten,
        python_stack=launch.python_stack,
    )
