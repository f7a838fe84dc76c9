"""Lanes of one program that store to one place, in one store: which of their values stays is not determined.

Most stores are shown to have no such lanes, or lanes that store the same, by their expressions. The others
are evaluated, with what they store: two values that differ are a finding. What the evaluation does not settle
is unproven, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.elements import addresses_of, first_witness, in_own_storage, stored_bits
from kerncap.sanitizer.checks.events.rounding_watcher import RoundingWatcher, deciding_roundings
from kerncap.sanitizer.checks.events.watchers import Seen
from kerncap.sanitizer.checks.make_finding import finding_of_witness
from kerncap.sanitizer.checks.races.disjoint_tiles import Relation
from kerncap.sanitizer.checks.races.equal_values import computed, computed_from, same_value, stored_operand
from kerncap.sanitizer.checks.races.expression_bounds import Ranges
from kerncap.sanitizer.checks.races.sides import Side, program_axes, sides_of
from kerncap.sanitizer.concrete.events import AccessEvent, Bools, Ints, Observer, StopEvaluation
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import Limits, Outcome, Track, evaluate
from kerncap.sanitizer.diagnose.finding_sentence import spot_of
from kerncap.sanitizer.findings import Finding, OtherAccess, Settled, Unproven, Verdict, Violated, join
from kerncap.sanitizer.symbolic.expr import var
from kerncap.sanitizer.ttir.ir import MEMORY, Operation, TensorType, memory_operations
from kerncap.sanitizer.walk.access import Access

# What costs more is left open. By operations, so that the answer does not hang on how busy the machine is.
_LIMITS = Limits(element_operations=100_000_000, seconds=10.0)
_MAX_PROGRAMS = 1 << 12
# Floats nearer than this may come of one computation, if each lane has a sum of its own: products of matrices
# round by the place of a row.
_NEAR = 2.0**-6
_SUMS = frozenset(("tt.dot", "tt.dot_scaled", "tt.reduce", "tt.scan"))

_ONE_PLACE = "two lanes store to one place; "
_OPEN = "whether two lanes store different values to one place is not decided"
EQUAL_LANES = f"{_ONE_PLACE}they store the same value for these contents, not shown for all"
ROUNDED_LANES = f"{_ONE_PLACE}their values differ by no more than sums may be rounded"
UNDEFINED_LANES = f"{_ONE_PLACE}one of their values is undefined"


def with_lanes(analysis: Analysis, settled: list[Settled]) -> list[Settled]:
    """The verdicts, with those of lanes that meet among those of races."""
    return joined(settled, _decided(analysis, _candidates(analysis)))


def joined(settled: list[Settled], verdicts: Mapping[Operation, Verdict]) -> list[Settled]:
    """With more verdicts among those of races."""
    operations = {operation.order: operation for operation in verdicts}
    done: list[Settled] = []
    for one in settled:
        operation = operations.pop(one.order, None) if one.check == "race" else None
        if operation is not None:
            pair = verdicts[operation], one.verdict
            one = replace(one, verdict=join(pair if isinstance(pair[0], Violated) else pair[::-1]))
        done.append(one)
    return done + [
        Settled("race", MEMORY[operation.name], operation.location, verdicts[operation], order)
        for order, operation in operations.items()
    ]


def _decided(analysis: Analysis, candidates: list[Operation]) -> dict[Operation, Verdict]:
    """A finding, or why there may be one; no verdict for a store that has no such lanes."""
    if not candidates:
        return {}
    searched = _Meeting(analysis, candidates)
    verdicts = searched.verdicts(search(analysis, searched, Track(undefined=True)))
    # Where lanes go by a float, only those count that a GPU sends to the same place, too.
    deciding = deciding_roundings(analysis, candidates)
    if deciding:
        certain = _Meeting(analysis, deciding, rounding=True)
        moved = RoundingWatcher(deciding, certain)
        outcome = search(analysis, moved, Track(rounding=True))
        moved.ended(outcome)
        again = certain.verdicts(outcome)
        for operation in deciding:
            verdict, doubt = again.get(operation), moved.doubt(operation)
            if doubt is not None and not isinstance(verdict, Violated):
                verdict = Unproven(f"{_OPEN}: {doubt}")
            if verdict is not None:
                verdicts[operation] = verdict
    return verdicts


# --- which stores it may be ---------------------------------------------------------------------------------


def _candidates(analysis: Analysis) -> list[Operation]:
    """Stores whose expressions don't show that no two lanes meet, or that those which do store the same."""
    if not analysis.walked.accesses:
        stores = (one for one in memory_operations(analysis.module) if MEMORY[one.name] == "store")
        return [one for one in stores if not _is_one_number(one)]
    ranges = Ranges(analysis.solver)
    found = (
        access.operation
        for access in analysis.walked.accesses
        if access.kind == "store"
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
    """Whether two lanes of one program and iteration never meet, or store the same if they do."""
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


def search(analysis: Analysis, observer: Observer, track: Track) -> Outcome:
    launch = analysis.launch
    tried = min(launch.program_count, _MAX_PROGRAMS)
    outcome = evaluate(
        analysis.module,
        analysis.function,
        launch,
        Memory(launch),
        programs=np.arange(tried, dtype=np.int64),
        observer=observer,
        limits=_LIMITS,
        track=track,
    )
    if outcome.complete and tried < launch.program_count:
        return replace(outcome, complete=False, reason=f"too large: more than {_MAX_PROGRAMS:,} programs")
    return outcome


class _Meeting:
    """Watches stores; ``rounding``: in an evaluation with `Track.rounding`."""

    def __init__(self, analysis: Analysis, operations: Iterable[Operation], rounding: bool = False) -> None:
        self._analysis, self._rounding = analysis, rounding
        self._open = dict.fromkeys(operations)
        self._near = {one: _near(one, analysis) for one in self._open}
        self._findings: dict[Operation, Finding] = {}
        self._doubts: dict[Operation, str] = {}

    def verdicts(self, outcome: Outcome) -> dict[Operation, Verdict]:
        """At the evaluation's end."""
        found: dict[Operation, Verdict] = {one: Violated((each,)) for one, each in self._findings.items()}
        for one in self._open:
            doubt = self._doubts.get(one) or (None if outcome.complete else f"{_OPEN}: {outcome.reason}")
            if doubt is not None:
                found[one] = Unproven(doubt)
        return found

    def access(self, event: AccessEvent) -> None:
        operation = event.operation
        if operation not in self._open:
            return
        event = in_own_storage(self._analysis.launch, event)
        if self._rounding:  # that a GPU may round a value otherwise does not make it equal to another
            event = replace(event, undefined=None)
        first, second = _met(event, addresses_of(self._analysis.launch, event))
        if not len(first):
            return
        apart, doubt = self._compared(event, first, second)
        if doubt is not None:
            self._doubts.setdefault(operation, doubt)
        if apart is not None:
            self._findings[operation] = self._finding(event, int(first[apart]), int(second[apart]))
            del self._open[operation]
            if not self._open:
                raise StopEvaluation

    def _compared(self, event: AccessEvent, first: Ints, second: Ints) -> tuple[int | None, str | None]:
        """Of pairs of elements (flat) that meet: one whose values differ, or what is not known of them."""
        bits = stored_bits(event)
        if isinstance(bits, str) or event.new is None:
            return None, f"{_ONE_PLACE}whether they store the same is not known: {bits}"
        known = np.ones(len(first), dtype=np.bool_)
        if event.undefined is not None:
            undefined = np.broadcast_to(event.undefined, event.mask.shape).reshape(-1)
            known = ~(undefined[first] | undefined[second])
        flat = bits.reshape(-1)
        other = flat[first] != flat[second]
        apart = np.flatnonzero(known & other & _apart(event, first, second, self._near[event.operation]))
        if len(apart):
            return int(apart[0]), None
        if not known.all():
            return None, UNDEFINED_LANES
        if other.any():
            return None, ROUNDED_LANES
        return None, None if computed(event.operation, self._analysis.function) else EQUAL_LANES

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


def _near(store: Operation, analysis: Analysis) -> float:
    """How far apart one computation may come out in two lanes."""
    value = stored_operand(store)
    behind = [None] if value is None else computed_from(value, analysis.function)
    return _NEAR if any(one is None or one.name == "tt.call" or _sums_by_lane(one) for one in behind) else 0.0


def _sums_by_lane(operation: Operation) -> bool:
    return operation.name in _SUMS and any(isinstance(one.type, TensorType) for one in operation.results)


def _met(event: AccessEvent, addresses: Ints) -> tuple[Ints, Ints]:
    """Flat indices of pairs of elements of one program that go to one address."""
    sure = event.mask
    for doubt in (event.steered_by_undefined, event.mask_undefined):
        if doubt is not None:
            sure = sure & ~doubt
    chosen = np.flatnonzero(sure)
    rows = chosen // max(1, event.mask[0].size)
    places = addresses.reshape(-1)[chosen]
    order = np.lexsort((places, rows))  # stable: of one place, by lane
    met = (np.diff(rows[order]) == 0) & (np.diff(places[order]) == 0)
    return chosen[order[:-1]][met], chosen[order[1:]][met]


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
