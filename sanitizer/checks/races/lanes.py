"""Lanes of one program that store to one place, in one store: which of their values stays is not determined.

Most stores are shown to have no such lanes, or lanes that store the same, by their expressions. Of the others
some programs are evaluated, with what they store: only two values that differ are a finding. Nothing is
proved here, and nothing is left open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.elements import (
    addresses_of,
    first_witness,
    in_own_storage,
    stored_bits,
)
from kerncap.sanitizer.checks.events.rounding_watcher import deciding_roundings
from kerncap.sanitizer.checks.events.watchers import Seen
from kerncap.sanitizer.checks.make_finding import finding_of_witness
from kerncap.sanitizer.checks.races.equal_values import same_value, stored_operand
from kerncap.sanitizer.checks.races.ranges import Ranges
from kerncap.sanitizer.checks.races.relation import Relation
from kerncap.sanitizer.checks.races.sides import Side, program_axes, sides_of
from kerncap.sanitizer.concrete.events import AccessEvent, Bools, Ints, StopEvaluation
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import Limits, Track, evaluate
from kerncap.sanitizer.diagnose.finding import spot_of
from kerncap.sanitizer.findings import Finding, OtherAccess, Settled, Violated
from kerncap.sanitizer.symbolic.expr import var
from kerncap.sanitizer.ttir.ir import Operation, walk
from kerncap.sanitizer.walk.access import Access

# A search, and no proof: what does not show within this is not worth a reader's time. By operations, so that
# the answer does not hang on how busy the machine is.
_LIMITS = Limits(element_operations=20_000_000, seconds=10.0)
_MAX_PROGRAMS = 1 << 12
# Floats nearer than this may come of one computation, if there are sums in it: products of matrices round by
# the place of a row.
_NEAR = 2.0**-6
_SUMS = frozenset(("tt.dot", "tt.dot_scaled", "tt.reduce", "tt.scan"))


def with_lanes(analysis: Analysis, settled: list[Settled]) -> list[Settled]:
    """The verdicts, with findings of lanes that meet among those of races."""
    candidates = _candidates(analysis)
    found = _search(analysis, candidates, Track(undefined=True))
    # Where lanes go by a float, only those count that a GPU sends to the same place, too.
    rounded = deciding_roundings(analysis, (one for one in candidates if one.order in found))
    if rounded:
        certain = _search(analysis, list(rounded), Track(rounding=True))
        moved = {one.order for one in rounded}
        found = {order: one for order, one in found.items() if order not in moved} | certain
    if not found:
        return settled
    done: list[Settled] = []
    for one in settled:
        finding = found.pop(one.order, None) if one.check == "race" else None
        if finding is not None:
            known = one.verdict.findings if isinstance(one.verdict, Violated) else ()
            one = replace(one, verdict=Violated((finding, *known)))
        done.append(one)
    return done + [
        Settled("race", "store", finding.location, Violated((finding,)), order)
        for order, finding in found.items()
    ]


# --- which stores it may be ---------------------------------------------------------------------------------


def _candidates(analysis: Analysis) -> list[Operation]:
    """Stores whose expressions don't show that no two lanes meet, or that those which do store the same."""
    ranges = Ranges(analysis.solver)
    found = (
        access.operation
        for access in analysis.walked.accesses
        if access.kind == "store"
        and access.descriptor is None
        and any(lane is not None for lane in access.lanes)
        and not _is_one_number(access.operation)
        and any(not _is_plain(analysis, ranges, side) for side in sides_of(analysis, access))
    )
    return list(dict.fromkeys(found))


def _is_one_number(operation: Operation) -> bool:
    value = stored_operand(operation)
    owner = None if value is None else value.owner
    return isinstance(owner, Operation) and (
        owner.name == "tt.splat" or (owner.name == "arith.constant" and "dense" in str(owner.attributes))
    )


def _is_plain(analysis: Analysis, ranges: Ranges, side: Side) -> bool:
    """Whether two lanes of one program and iteration never meet, or store the same where they do."""
    relation = Relation(side.condition, side.condition, ranges)
    here = [*program_axes(analysis), *(loop.counter for loop in side.access.loops)]
    relation.related.update({(var(one), var(one)): 0 for one in here})
    relation.overlap(
        ranges.unwrapped(side.address, side.condition),
        side.width,
        ranges.unwrapped(side.address, side.condition),
        side.width,
    )
    if relation.impossible or _same_lanes(relation, side.access):
        return True
    return same_value(analysis, relation, side, side) is True


def _same_lanes(relation: Relation, access: Access) -> bool:
    return all(lane is None or relation.equal(var(lane), var(lane)) for lane in access.lanes)


# --- whether it is so ---------------------------------------------------------------------------------------


def _search(analysis: Analysis, operations: list[Operation], track: Track) -> dict[int, Finding]:
    """By the operation's order, a finding where two lanes were seen to meet with values that differ."""
    if not operations:
        return {}
    watcher = _Meeting(analysis, operations, track)
    launch = analysis.launch
    evaluate(
        analysis.module,
        analysis.function,
        launch,
        Memory(launch),
        programs=np.arange(min(launch.program_count, _MAX_PROGRAMS), dtype=np.int64),
        observer=watcher,
        limits=_LIMITS,
        track=track,
    )
    return watcher.findings


class _Meeting:
    def __init__(self, analysis: Analysis, operations: Iterable[Operation], track: Track) -> None:
        self._analysis, self._rounding = analysis, track.rounding
        self._open = set(operations)
        functions = analysis.module.functions.values()
        bodies = (one.body for one in functions if one.body is not None)
        self._near = _NEAR if any(o.name in _SUMS for body in bodies for o in walk(body)) else 0.0
        self.findings: dict[int, Finding] = {}

    def access(self, event: AccessEvent) -> None:
        if event.operation not in self._open:
            return
        event = in_own_storage(self._analysis.launch, event)
        if self._rounding:  # that a GPU may round a value otherwise does not make it equal to another
            event = replace(event, undefined=None)
        met = _two_that_differ(event, addresses_of(self._analysis.launch, event), self._near)
        if met is None:
            return
        self._open.discard(event.operation)
        self.findings[event.operation.order] = self._finding(event, *met)
        if not self._open:
            raise StopEvaluation

    def _finding(self, event: AccessEvent, one: int, other: int) -> Finding:
        findings = []
        for flat in (one, other):
            only = np.zeros(event.mask.size, dtype=np.bool_)
            only[flat] = True
            witness = first_witness(event, only.reshape(event.mask.shape))
            assert witness is not None
            seen = Seen(witness, "", "store", event.width_bytes)
            findings.append(finding_of_witness(self._analysis, event.operation, "race", seen))
        here, there = findings[0].place, findings[1].place
        steps = "".join(f", {name} = {value}" for name, value in here.iterations)
        lanes = f"lanes {_lane(here.lane)} and {_lane(there.lane)} of program {here.program_id}{steps}"
        assert event.new is not None
        values = np.broadcast_to(event.new, event.mask.shape).reshape(-1)
        message = (
            f"{lanes} both store to {spot_of(here)}; their values differ, {values[one].item()} and "
            f"{values[other].item()}, and either may stay"
        )
        elsewhere = OtherAccess("store", findings[1].location, there)
        return replace(findings[0], message=message, other=elsewhere)


def _lane(lane: tuple[int, ...]) -> str:
    return str(lane[0]) if len(lane) == 1 else str(lane)


def _two_that_differ(event: AccessEvent, addresses: Ints, near: float) -> tuple[int, int] | None:
    """Flat indices of two elements of one program that store other values to one address."""
    bits = stored_bits(event)
    if isinstance(bits, str) or event.new is None:
        return None
    sure = event.mask
    for doubt in (event.undefined, event.steered_by_undefined, event.mask_undefined):
        if doubt is not None:
            sure = sure & ~doubt
    chosen = np.flatnonzero(sure)
    if len(chosen) < 2:
        return None
    rows = chosen // max(1, event.mask[0].size)
    places = addresses.reshape(-1)[chosen]
    order = np.lexsort((places, rows))  # stable: of one place, by lane
    first, second = chosen[order[:-1]], chosen[order[1:]]
    met = (rows[order[:-1]] == rows[order[1:]]) & (places[order[:-1]] == places[order[1:]])
    if not met.any():
        return None
    first, second = first[met], second[met]
    flat = bits.reshape(-1)
    differ = np.flatnonzero((flat[first] != flat[second]) & _apart(event, first, second, near))
    return (int(first[differ[0]]), int(second[differ[0]])) if len(differ) else None


def _apart(event: AccessEvent, first: Ints, second: Ints, limit: float) -> Bools:
    """Whether values differ by more than one computation of them may."""
    assert event.new is not None
    values = np.broadcast_to(event.new, event.mask.shape).reshape(-1)
    if values.dtype.kind != "f":
        return np.ones(len(first), dtype=np.bool_)
    one, other = values[first].astype(np.float64), values[second].astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(one - other) <= limit * np.maximum(np.abs(one), np.abs(other))
    return np.asarray(~near & ~(np.isnan(one) & np.isnan(other)))
