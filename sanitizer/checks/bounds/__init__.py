"""Out of bounds: for every place that a pointer may lead to, whether a byte of some access is outside.

Three questions each, so that the simplest of them are settled by intervals alone: before the start, past
the end and, for a strided view, between its elements. Every one that has an answer is a finding
of its own.

Where the address is outside only because integer arithmetic wrapped around on its way, the overflow
check reports the access too; the finding here says so, and suggests no mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks import overflow
from kerncap.sanitizer.checks.bounds.extents import Extent, Nowhere, distance_of, regions_of
from kerncap.sanitizer.checks.overflow import without_wraps, wraps_that_matter
from kerncap.sanitizer.checks.smallest_witness import smallest
from kerncap.sanitizer.diagnose.confirm import confirm
from kerncap.sanitizer.diagnose.finding_sentence import (
    access_finding,
    address_at,
    bytes_of_memory,
    memory_at,
    where,
)
from kerncap.sanitizer.diagnose.place import value_at
from kerncap.sanitizer.diagnose.suggest import suggest
from kerncap.sanitizer.findings import Finding, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, add, const, eq, land, linear
from kerncap.sanitizer.symbolic.solve import Sat, Unknown, Unsat
from kerncap.sanitizer.walk.access import Access, Target


@dataclass(frozen=True)
class Violation:
    """One way in which the bytes at a target leave an extent."""

    condition: Expr
    side: str  # "before", "after", "between"
    extent: Extent


def check(analysis: Analysis, access: Access) -> Verdict:
    """Whether every byte of every performed access lies within its tensor (by ``options.bounds``)."""
    settled = _Settled()
    for target in access.targets:
        _Question(analysis, access, target, settled).ask()
    return settled.verdict()


@dataclass
class _Settled:
    findings: list[Finding] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    proof: Proved = field(default_factory=lambda: Proved("interval"))

    def prove(self, answer: Unsat) -> None:
        how = self.proof.how if answer.how == "interval" else answer.how
        self.proof = Proved(how, self.proof.contents or answer.contents)

    def verdict(self) -> Verdict:
        if self.findings:
            return Violated(tuple(self.findings))
        return Unproven(self.reasons[0]) if self.reasons else self.proof


@dataclass
class _Question:
    """One target of one access."""

    analysis: Analysis
    access: Access
    target: Target
    settled: _Settled

    def ask(self) -> None:
        for region in regions_of(self.analysis, self.target, self.access.width_bytes):
            if isinstance(region, Nowhere):
                self._ask_nowhere(region)
                continue
            for violation in self._violations(region):
                self._ask_outside(violation)

    def _given(self) -> tuple[Expr, ...]:
        """Where the access is performed. A descriptor leaves out the lanes outside of its shape."""
        given = (self.access.path, self.access.mask, self.target.guard)
        use = self.access.descriptor
        if use is None:
            return given
        inside = ((i >= 0) & (i < n) for i, n in zip(use.indices, use.shape, strict=True))
        return (*given, *inside)

    # --- outside of memory that is known -----------------------------------------------------------

    def _violations(self, extent: Extent) -> Iterator[Violation]:
        offset, width = self.target.offset_bytes, self.access.width_bytes
        yield Violation(extent.when & (offset < extent.low), "before", extent)
        yield Violation(extent.when & (offset > extent.high - width), "after", extent)
        view = extent.view
        if view is None or not view.has_gaps:
            return
        inside = (offset >= extent.low) & (offset <= extent.high - width)
        if view.tangled is not None:
            if not self._unreached(inside):
                self.settled.reasons.append(f"{extent.name}: {view.tangled}")
            return
        given = land(*self._given(), inside)

        def remainder(e: Expr, n: int) -> Expr:
            return _remainder(self.analysis, e, n, given)

        yield Violation(inside & view.in_gap(offset, width, remainder), "between", extent)

    def _ask_outside(self, violation: Violation) -> None:
        conditions = (*self._given(), violation.condition)
        answer = self.analysis.solver.satisfiable(*conditions)
        if isinstance(answer, Unsat):
            return self.settled.prove(answer)
        if isinstance(answer, Unknown):
            return self.settled.reasons.append(answer.reason)
        only_by_overflow = False
        exact = self._without_overflow()
        if exact is not TRUE and "overflow" in self.analysis.options.checks:
            sober = self.analysis.solver.satisfiable(*conditions, exact)
            if isinstance(sober, Sat):
                answer, conditions = sober, (*conditions, exact)
            # Only if the overflow check does report it.
            only_by_overflow = isinstance(sober, Unsat) and isinstance(
                overflow.check(self.analysis, self.access), Violated
            )
        point = smallest(self.analysis, self.access, conditions, answer)
        confirmation = confirm(self.analysis, self.access, self.target, point.assignment)
        if not confirmation.holds:
            reason = f"a possible out-of-bounds access was not confirmed: {confirmation.reason}"
            return self.settled.reasons.append(reason)
        self.settled.findings.append(self._finding(violation, point, only_by_overflow))

    def _without_overflow(self) -> Expr:
        """The condition that neither the address nor the mask is what a wrap made of it."""
        offset, mask = self.target.offset_bytes, self.access.mask
        ideal, _ = overflow.exact_offset(self.analysis, self.access, self.target)
        exact = TRUE if ideal is offset else eq(offset, ideal)
        return exact & without_wraps(mask) if wraps_that_matter(mask) else exact

    def _finding(self, violation: Violation, point: Sat, only_by_overflow: bool) -> Finding:
        analysis, access, target = self.analysis, self.access, self.target
        extent, width = violation.extent, access.width_bytes
        offset = value_at(analysis, target.offset_bytes, point.assignment)
        assert offset is not None  # a Sat was evaluated
        beyond, distance = 0, "between the elements of"
        if violation.side != "between":
            beyond, distance = distance_of(offset, width, extent.low, extent.high)
        address = address_at(analysis, target, point.assignment)
        assert address is not None
        first_outside = address + (max(0, extent.high - offset) if violation.side == "after" else 0)
        other = None
        if violation.side != "between":
            other = memory_at(analysis.launch, first_outside, target.argument)
        landing = f", in the memory of {other}" if other is not None and other != extent.name else ""
        cause = " (only where an integer overflows: see the overflow finding)" if only_by_overflow else ""
        message = (
            f"{bytes_of_memory(analysis, access, target, point.assignment)}: {distance} {extent.what}"
            f"{landing}{_descriptor_note(access)}; {where(analysis, access, point.assignment)}{cause}"
        )
        suggestion = None
        if not only_by_overflow:
            suggestion = suggest(analysis, access, target, self._given(), violation.condition)
        return access_finding(
            analysis,
            access,
            "oob",
            target,
            point.assignment,
            message,
            argument=extent.name,
            beyond_bytes=beyond,
            lands_in=None if other == extent.name else other,
            suggestion=suggestion,
            contents=point.contents,
        )

    # --- no memory at all -----------------------------------------------------------------------------

    def _unreached(self, when: Expr) -> bool:
        """Whether the access is never performed there; a proof of that is kept."""
        answer = self.analysis.solver.satisfiable(*self._given(), when)
        if isinstance(answer, Unsat):
            self.settled.prove(answer)
        return isinstance(answer, Unsat)

    def _ask_nowhere(self, region: Nowhere) -> None:
        analysis, access, target = self.analysis, self.access, self.target
        conditions = (*self._given(), region.when)
        answer = analysis.solver.satisfiable(*conditions)
        if isinstance(answer, Unsat):
            return self.settled.prove(answer)
        if isinstance(answer, Unknown) or not region.certain:
            return self.settled.reasons.append(region.what if isinstance(answer, Sat) else answer.reason)
        point = smallest(analysis, access, conditions, answer)
        at = point.assignment
        confirmation = confirm(analysis, access, target, at)
        if not confirmation.holds:
            reason = f"{region.what}, which was not confirmed: {confirmation.reason}"
            return self.settled.reasons.append(reason)
        message = (
            f"{bytes_of_memory(analysis, access, target, at)}: {region.what}; {where(analysis, access, at)}"
        )
        finding = access_finding(analysis, access, "oob", target, at, message, contents=point.contents)
        self.settled.findings.append(finding)


def _remainder(analysis: Analysis, e: Expr, n: int, given: Expr) -> Expr:
    """e modulo n, where what is known of the access often shows that the part below n stays below it."""
    form = linear(e)
    if form is None:
        return e % n
    steps = [const(form.constant // n * n)]
    steps += [atom * c for atom, c in form.terms if c % n == 0]
    rest = e - add(*steps)
    low, high = analysis.solver.bounds(rest, given)
    if low is not None and high is not None and low // n == high // n:
        return rest - low // n * n
    return e % n


def _descriptor_note(access: Access) -> str:
    return "" if access.descriptor is None else " (the descriptor's shape and strides reach beyond it)"
