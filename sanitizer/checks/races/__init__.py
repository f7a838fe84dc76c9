"""Races: two different programs touch one byte, at least one of them writes, and nothing orders them.

Every pair of accesses with a write in it is one question with two copies of all variables. It is answered by
the first of these that can: memory that is not shared; disjoint tiles by mixed radix (`disjoint_tiles`),
independent of grid and trip counts; order made by atomics (`ordering`); tile coordinates looked up
over the grid (`grid_lookup`); every point, if they are few, or a sample of them in search of a
conflict (`shared_bytes`); the solver.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.races.conflict_findings import race_findings
from kerncap.sanitizer.checks.races.expression_bounds import Ranges
from kerncap.sanitizer.checks.races.ordering.synchronisation import Synchronisation
from kerncap.sanitizer.checks.races.pairs import Race, Safe, Undecided, decide
from kerncap.sanitizer.checks.races.sides import Side, sides_of
from kerncap.sanitizer.findings import Finding, Proved, Settled, Unproven, Verdict, Violated
from kerncap.sanitizer.ttir.ir import Location, Operation
from kerncap.sanitizer.walk.access import Access

# In order of strength: what a proof made of several is called after.
_STRENGTH = ("interval", "affine", "z3", "enumerated", "evaluated")

# Of z3's limits, how many one launch's pairs may use up before hard pairs are left open unasked.
PATIENCE = 5


@dataclass
class _State:
    """What is known of one access so far."""

    findings: list[Finding]
    notes: list[Finding]
    reasons: list[str]
    how: str = "interval"
    contents: bool = False

    def verdict(self) -> Verdict:
        if self.findings:
            return Violated((*self.findings, *self.notes))
        if self.reasons:
            return Unproven(self.reasons[0])
        if self.notes:
            return Violated(tuple(self.notes))
        return Proved(self.how, self.contents)


def check(analysis: Analysis) -> list[Settled]:
    """One "race" per memory operation of a launch with more than one program; [] for a single program."""
    if analysis.launch.program_count <= 1:
        return []
    accesses = analysis.walked.accesses
    states = [_State([], [], []) for _ in accesses]
    sides = [sides_of(analysis, access) for access in accesses]
    synchronisation = Synchronisation(analysis)
    ranges = Ranges(analysis.solver)
    seen: set[tuple[int, int]] = set()
    solver = analysis.solver
    before = solver.z3_limits_spent
    for i, j in _pairs(accesses, sides):
        for left in sides[i]:
            for right in sides[j]:
                if (i, j) in seen or not _may_share(left, right):
                    continue
                patient = solver.z3_limits_spent - before < PATIENCE
                answer = decide(analysis, synchronisation, ranges, left, right, patient)
                if isinstance(answer, Race):
                    seen.add((i, j))  # one witness per pair of operations says enough
                _enter(analysis, states[i], states[j], answer, i == j)
    return _settled(accesses, states)


def _pairs(accesses: tuple[Access, ...], sides: list[list[Side]]) -> list[tuple[int, int]]:
    """Pairs of accesses with a write, which share a storage."""
    storages = [{side.storage for side in one} for one in sides]
    writers = [i for i, access in enumerate(accesses) if access.kind != "load"]
    pairs = []
    for i in writers:
        for j in range(len(accesses)):
            if j < i and accesses[j].kind != "load":
                continue  # the pair came the other way round
            if _both_atomic(accesses[i], accesses[j]):
                continue
            if storages[i] & storages[j] or None in storages[i] or None in storages[j]:
                pairs.append((i, j))
    return pairs


def _both_atomic(a: Access, b: Access) -> bool:
    return a.kind == b.kind == "atomic" and a.width_bytes == b.width_bytes


def _may_share(left: Side, right: Side) -> bool:
    return left.storage is None or right.storage is None or left.storage == right.storage


def _enter(
    analysis: Analysis, one: _State, other: _State, answer: Safe | Race | Undecided, same: bool
) -> None:
    states = [one] if same else [one, other]
    if isinstance(answer, Undecided):
        for state in states:
            state.reasons.append(answer.reason)
    elif isinstance(answer, Safe):
        for state in states:
            state.how = max(state.how, answer.how, key=_STRENGTH.index)
            state.contents |= answer.contents
    else:
        findings = race_findings(analysis, answer)
        if isinstance(findings, str):
            for state in states:
                state.reasons.append(findings)
            return
        # One operation in two contexts (unrolled, called twice) meets itself: one finding.
        for state, finding in zip(states, findings, strict=False):
            (state.notes if finding.note else state.findings).append(finding)


def _settled(accesses: tuple[Access, ...], states: list[_State]) -> list[Settled]:
    """One per operation and place: the walk may have met an operation several times."""
    merged: dict[tuple[Operation, Location], _State] = {}
    first: dict[tuple[Operation, Location], Access] = {}
    for access, state in zip(accesses, states, strict=True):
        key = (access.operation, access.location)
        if key not in merged:
            merged[key], first[key] = state, access
            continue
        known = merged[key]
        known.findings += state.findings
        known.notes += state.notes
        known.reasons += state.reasons
        known.how = max(known.how, state.how, key=_STRENGTH.index)
        known.contents |= state.contents
    return [
        Settled("race", first[key].kind, first[key].location, state.verdict(), first[key].operation.order)
        for key, state in merged.items()
    ]
