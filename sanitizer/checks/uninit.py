"""Uses of what has no value: unwritten memory, lanes that a load leaves out, divisions by zero.

A left-out lane is a zero (`walk.left_out`): it is a finding if it counts, else a note.

Fresh memory needs to know what was written since the allocation (`Contents.written`). What the launch
itself writes first is left to the concrete tier, where the order within a program is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.freshness import argument_storage, unwritten
from kerncap.sanitizer.checks.make_finding import accuse, accuse_undefined, settled
from kerncap.sanitizer.checks.smallest_witness import smallest
from kerncap.sanitizer.checks.value_origin import (
    by_habit_text,
    fresh_text,
    reads_memory,
    rests_on_left_out,
    steered_text,
    undefined_text,
)
from kerncap.sanitizer.diagnose.place import base_address, value_at
from kerncap.sanitizer.findings import NOT_KNOWN, Finding, Proved, Unproven, Verdict, Violated, join
from kerncap.sanitizer.symbolic.expr import FALSE, Expr
from kerncap.sanitizer.symbolic.solve import Sat, Unknown, Unsat
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Access, Target

__all__ = ["MANY_RUNS", "NOT_KNOWN", "WRITTEN_BY_LAUNCH", "check", "performed"]

# Reasons that the engine tells apart, and the concrete tier settles. (`freshness.NOT_KNOWN` is the one that
# is said once per launch.)
MANY_RUNS = "the unwritten memory is in too many pieces for one question each"
WRITTEN_BY_LAUNCH = "the launch itself may write these bytes before they are read"

MOST_RUNS = 8


def check(analysis: Analysis, access: Access) -> Verdict | None:
    """None for a store whose value, address and mask are all defined: it reads nothing."""
    verdicts: list[Verdict] = []
    if access.steered_by_undefined is not FALSE:
        verdicts.append(_steered(analysis, access))
    if access.undefined is not FALSE:
        verdicts.append(_undefined_value(analysis, access))
    if access.by_habit is not FALSE and all(isinstance(one, Proved) for one in verdicts):
        verdicts.append(_by_habit(analysis, access, access.by_habit))
    if reads_memory(access.operation, access.kind, analysis.function):
        verdicts.append(_fresh_memory(analysis, access))
    if not verdicts:
        return None
    first = next(
        (one for one in verdicts if isinstance(one, Violated) and any(map(_counts, one.findings))), None
    )
    return join(verdicts) if first is None else first


def noted(analysis: Analysis, operation: Operation, proved: Proved) -> Verdict:
    """The proof that the evaluation gives, or the note that it is right by what left-out lanes hold."""
    if not rests_on_left_out(operation):
        return proved
    for access in analysis.walked.accesses:
        by_habit = access.by_habit | access.undefined
        if access.operation is operation and by_habit is not FALSE:
            verdict = _by_habit(analysis, access, by_habit)
            if isinstance(verdict, Violated):
                return verdict
    return proved


def _counts(finding: Finding) -> bool:
    return finding.note is None


def _by_habit(analysis: Analysis, access: Access, by_habit: Expr) -> Verdict:
    """What is right by the target's habit is noted; where that is not decided, there is nothing to note."""
    conditions = (access.path, by_habit)
    answer = analysis.solver.satisfiable(*conditions)
    if not isinstance(answer, Sat):
        return Proved(answer.how, answer.contents) if isinstance(answer, Unsat) else Proved("interval")
    text = by_habit_text(access.operation)
    verdict = accuse_undefined(analysis, access, conditions, answer, text, note="portability")
    return verdict if isinstance(verdict, Violated) else Proved("interval")


# --- undefined lanes ---------------------------------------------------------------------------------


def _undefined_value(analysis: Analysis, access: Access) -> Verdict:
    conditions = (access.path, access.mask, access.undefined)
    answer = analysis.solver.satisfiable(*conditions)
    if not isinstance(answer, Sat):
        return settled(answer)
    return accuse_undefined(analysis, access, conditions, answer, undefined_text(access.operation))


def _steered(analysis: Analysis, access: Access) -> Verdict:
    # An undefined address matters where the access is performed, an undefined mask everywhere.
    followed = access.mask_undefined | (access.mask & access.steered_by_undefined)
    conditions = (access.path, followed)
    answer = analysis.solver.satisfiable(*conditions)
    if not isinstance(answer, Sat):
        return settled(answer)
    return accuse_undefined(analysis, access, conditions, answer, steered_text(access.operation))


# --- fresh memory --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Window:
    """Where one target reads in one storage: ``offset`` counts from the storage's address."""

    storage: int
    target: Target
    offset: Expr


def _fresh_memory(analysis: Analysis, access: Access) -> Verdict:
    how, contents = "interval", False
    doubt: str | None = None
    findings: dict[str | None, Finding] = {}  # a pointer that was chosen among several may read all of them
    for window in _windows(analysis, access):
        verdict = _fresh_in(analysis, access, window)
        if isinstance(verdict, Violated):
            for one in verdict.findings:
                findings.setdefault(one.argument, one)
        elif isinstance(verdict, Unproven):
            doubt = doubt or verdict.reason
        elif verdict.how != "interval" or verdict.contents:
            how, contents = verdict.how, contents or verdict.contents
    if findings:
        return Violated(tuple(findings.values()))
    return Proved(how, contents) if doubt is None else Unproven(doubt)


def _windows(analysis: Analysis, access: Access) -> list[_Window]:
    """A pointer with no tensor behind it may lead into any storage."""
    found: list[_Window] = []
    for target in access.targets:
        own = argument_storage(analysis.launch, target.argument)
        if own is not None:
            storage, start = own
            found.append(_Window(storage, target, start + target.offset_bytes))
            continue
        address = base_address(analysis.launch, target.argument) + target.offset_bytes
        for index, one in enumerate(analysis.launch.storages):
            found.append(_Window(index, target, address - one.address))
    return found


def _fresh_in(analysis: Analysis, access: Access, window: _Window) -> Proved | Violated | Unproven:
    runs = unwritten(analysis.launch, window.storage)
    if runs is None:
        return Unproven(NOT_KNOWN)
    if runs.count == 0:
        return Proved("interval")
    where = performed(access, window.target)
    if runs.count > MOST_RUNS:
        # One question for all runs together: most launches read far from what is fresh.
        low, high = runs.span
        outside = analysis.solver.satisfiable(*where, _touches(window.offset, access.width_bytes, low, high))
        return Proved(outside.how, outside.contents) if isinstance(outside, Unsat) else Unproven(MANY_RUNS)
    how, contents = "interval", False
    doubt: str | None = None
    for low, high in zip(runs.starts.tolist(), runs.ends.tolist(), strict=True):
        touches = _touches(window.offset, access.width_bytes, low, high)
        answer = analysis.solver.satisfiable(*where, touches)
        if isinstance(answer, Unsat):
            how, contents = answer.how, contents or answer.contents
        elif isinstance(answer, Unknown):
            doubt = doubt or answer.reason
        else:
            point = smallest(analysis, access, (*where, touches), answer)
            if _launch_may_write(analysis, access, window, point, low, high):
                doubt = doubt or WRITTEN_BY_LAUNCH
                continue
            verdict = accuse(analysis, access, "uninit", window.target, point, fresh_text(access.kind))
            if isinstance(verdict, Violated):
                return verdict
            doubt = doubt or verdict.reason
    return Proved(how, contents) if doubt is None else Unproven(doubt)


def performed(access: Access, target: Target) -> tuple[Expr, ...]:
    """Where the access goes to the target. A descriptor leaves out the lanes outside of its shape."""
    given = (access.path, access.mask, target.guard)
    use = access.descriptor
    if use is None:
        return given
    inside = ((i >= 0) & (i < n) for i, n in zip(use.indices, use.shape, strict=True))
    return (*given, *inside)


def _touches(offset: Expr, width: int, low: int, high: int) -> Expr:
    """Bytes [offset, offset + width) meet [low, high)."""
    return (offset >= low - width + 1) & (offset < high)


def _launch_may_write(
    analysis: Analysis, access: Access, window: _Window, point: Sat, low: int, high: int
) -> bool:
    """Whether anything else in the launch may write the fresh bytes that this point reads.

    Atomics do not excuse each other: one of them is the first, and that one reads what nobody wrote.
    """
    offset = value_at(analysis, window.offset, point.assignment)
    if offset is None:
        return True
    first, last = max(offset, low), min(offset + access.width_bytes, high)
    for other in analysis.walked.accesses:
        if other.kind == "load" or other.operation is access.operation:
            continue
        combines = other.kind == "atomic" and reads_memory(other.operation, other.kind, analysis.function)
        if combines and access.kind == "atomic":
            continue
        for place in _windows(analysis, other):
            if place.storage != window.storage:
                continue
            covers = _touches(place.offset, other.width_bytes, first, last)
            answer = analysis.solver.satisfiable(*performed(other, place.target), covers)
            if not isinstance(answer, Unsat):
                return True
    return False
