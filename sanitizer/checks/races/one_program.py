"""A store and another access of one program at one place, by two lanes: only a barrier orders them.

A program's lanes are spread over a GPU's threads, and ``tl.store`` waits for none of them: what a lane
stores, another one may load before or after. Triton's source says nothing of which lanes share a thread, so
that such a pair is unproven, and no finding. Lanes at the same position in tiles of one shape and element
size are assumed to share a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.elements import addresses_of, in_own_storage
from kerncap.sanitizer.checks.races.disjoint_tiles import Relation
from kerncap.sanitizer.checks.races.expression_bounds import Ranges
from kerncap.sanitizer.checks.races.lanes_of_one_store import joined, search
from kerncap.sanitizer.checks.races.sides import Side, program_axes, sides_of
from kerncap.sanitizer.concrete.dataflow import around
from kerncap.sanitizer.concrete.events import AccessEvent, Bools, Ints, StopEvaluation
from kerncap.sanitizer.concrete.run import Track
from kerncap.sanitizer.concrete.values import shape_of
from kerncap.sanitizer.findings import Settled, Unproven, Verdict
from kerncap.sanitizer.symbolic.expr import var
from kerncap.sanitizer.ttir.ir import MEMORY, Block, Operation, memory_operations, walk
from kerncap.sanitizer.walk.access import Access

# At these all threads of a program meet; at an atomic on one number they do if its result is used.
# A reduction needs what each thread has loaded before, unless one warp has all of the tile.
_BARRIERS = frozenset(("tt.debug_barrier", "gpu.barrier", "ttg.barrier", "nvvm.barrier0"))
_ATOMICS = frozenset(("tt.atomic_rmw", "tt.atomic_cas"))
_REDUCTIONS = frozenset(("tt.reduce", "tt.scan"))
_MOST_ELEMENTS = 1 << 24  # that are kept

OTHER_LANES = (
    "two lanes of one program access one place, one of them with a store, and no barrier is between them; "
    "tl.debug_barrier() would order them"
)
_OPEN = "whether two lanes of one program meet with no barrier between them is not decided"

Pair = tuple[Operation, Operation]
Barrier = tuple[int, "Block | None"]  # its place in the text, and what is ordered: all that goes through here


def with_one_program(analysis: Analysis, settled: list[Settled]) -> list[Settled]:
    """The verdicts, with those of lanes of one program that meet among those of races."""
    pairs = _candidates(analysis)
    if not pairs:
        return settled
    watched = _Meeting(analysis, pairs)
    outcome = search(analysis, watched, Track())
    verdicts: dict[Operation, Verdict] = {one: Unproven(OTHER_LANES) for one in watched.met}
    if reason := watched.reason or (None if outcome.complete else outcome.reason):
        verdicts |= {second: Unproven(f"{_OPEN}: {reason}") for _, second in pairs if second not in verdicts}
    return joined(settled, verdicts)


# --- which pairs it may be ----------------------------------------------------------------------------------


def _candidates(analysis: Analysis) -> set[Pair]:
    """Pairs of operations of which the second may come after the first, at the same place in another lane."""
    barriers = barriers_of(analysis)
    if not analysis.walked.accesses:
        operations = list(memory_operations(analysis.module))
        return {
            (first, second)
            for first in operations
            for second in operations
            if _stores(MEMORY[first.name], MEMORY[second.name])
            and unordered(barriers[MEMORY[first.name] == "load"], first, second)
        }
    accesses = [(one, sides_of(analysis, one)) for one in analysis.walked.accesses]
    ranges = Ranges(analysis.solver)
    found = set()
    for first, firsts in accesses:
        for second, seconds in accesses:
            pair = first.operation, second.operation
            between = barriers[first.kind == "load"]
            if pair in found or not _counts(first, second) or not unordered(between, *pair):
                continue
            if any(
                _may_meet(analysis, ranges, left, right)
                for left in firsts
                for right in seconds
                if left.storage is None or right.storage is None or left.storage == right.storage
            ):
                found.add(pair)
    return found


def _counts(first: Access, second: Access) -> bool:
    """Whether one of both stores. One number of a program is stored by one thread, but loaded by all."""
    if first.shape or second.shape:
        return _stores(first.kind, second.kind)
    return (first.kind, second.kind) == ("store", "load")


def _stores(first: str, second: str) -> bool:
    return "store" in (first, second)


def _may_meet(analysis: Analysis, ranges: Ranges, left: Side, right: Side) -> bool:
    relation = Relation(left.condition, right.condition, ranges)
    relation.related.update({(var(one), var(one)): 0 for one in program_axes(analysis)})
    relation.overlap(
        ranges.unwrapped(left.address, left.condition),
        left.width,
        ranges.unwrapped(right.address, right.condition),
        right.width,
    )
    return not (relation.impossible or _is_same_lane(relation, left.access, right.access))


def _is_same_lane(relation: Relation, left: Access, right: Access) -> bool:
    if left.shape != right.shape or left.width_bytes != right.width_bytes or not left.shape:
        return False
    return all(
        one is other is None
        or (one is not None and other is not None and relation.equal(var(one), var(other)))
        for one, other in zip(left.lanes, right.lanes, strict=True)
    )


def barriers_of(analysis: Analysis) -> tuple[list[Barrier], list[Barrier]]:
    """What orders a store and what comes after it; and what orders a load and a store after it.

    A reduction in a loop is one for what is around the loop, too: a loop with no rounds has nothing to store.
    """
    body = analysis.function.body
    operations = list(walk(body)) if body is not None else []
    used = {value for one in operations for value in one.operands}
    found = [
        (one.order, one.parent)
        for one in operations
        if one.name in _BARRIERS
        or (one.name in _ATOMICS and not used.isdisjoint(one.results) and not shape_of(one.results[0].type))
    ]
    reductions = [one for one in operations if one.name in _REDUCTIONS]
    loops = ((one, takewhile(_is_loop, around(one))) for one in reductions)
    return found, [*found, *((one.order, each.parent) for one, outer in loops for each in (one, *outer))]


def _is_loop(operation: Operation) -> bool:
    return operation.name == "scf.for"


def unordered(barriers: list[Barrier], first: Operation, second: Operation) -> bool:
    """Whether there is a way from one operation to another by no barrier: straight on, or round a loop."""
    outer, inner = _blocks(first), _blocks(second)
    shared = [block for block in outer if block in inner]
    straight = first.order < second.order and not any(
        first.order < order < second.order and block in (*outer, *inner) for order, block in barriers
    )
    if straight:
        return True
    for block in shared:
        loop = block.parent.parent if block.parent is not None else None
        if isinstance(loop, Operation) and loop.name in ("scf.for", "scf.while"):
            within = {one for one in (*outer, *inner) if _is_in(one, loop)}
            if not any(
                block in within and (order > first.order or order < second.order) for order, block in barriers
            ):
                return True
    return False


def _blocks(operation: Operation) -> list[Block]:
    """Those around an operation, innermost first."""
    return [one.parent for one in (operation, *around(operation)) if one.parent is not None]


def _is_in(block: Block, loop: Operation) -> bool:
    region = block.parent
    owner = region.parent if region is not None else None
    return isinstance(owner, Operation) and (owner is loop or loop in around(owner))


# --- whether it is so ---------------------------------------------------------------------------------------


@dataclass
class _Kept:
    """Elements of events: program and byte address in one number, and the lane of each; sorted."""

    keys: Ints
    lanes: Ints
    shape: tuple[int, ...]
    width: int

    def with_later(self, later: _Kept) -> _Kept:
        keys, lanes = np.concatenate((self.keys, later.keys)), np.concatenate((self.lanes, later.lanes))
        order = np.lexsort((lanes, keys))
        return replace(self, keys=keys[order], lanes=lanes[order])


@dataclass
class _Meeting:
    """Watches accesses. ``met``: second operations that met an earlier one in another lane."""

    analysis: Analysis
    pairs: set[Pair]
    met: set[Operation] = field(default_factory=set)
    reason: str | None = None
    _kept: dict[Operation, list[_Kept]] = field(default_factory=dict)
    _elements: int = 0

    def __post_init__(self) -> None:
        self._first = {first for first, _ in self.pairs}
        self._second = {second for _, second in self.pairs}

    def access(self, event: AccessEvent) -> None:
        operation = event.operation
        if operation not in self._first and operation not in self._second:
            return
        made = self._of(in_own_storage(self.analysis.launch, event))
        if operation in self._second and operation not in self.met:
            earlier = (kept for first, kept in self._kept.items() if (first, operation) in self.pairs)
            if any(_met(one, made) for kept in earlier for one in kept):
                self.met.add(operation)
                if self.met == self._second:
                    raise StopEvaluation
        if operation in self._first and self.reason is None:
            self._keep(operation, made)

    def _keep(self, operation: Operation, made: _Kept) -> None:
        """In few lists, of which each is longer than the next: a loop has many events."""
        kept = self._kept.setdefault(operation, [])
        kept.append(made)
        while len(kept) > 1 and len(kept[-1].keys) >= len(kept[-2].keys):
            later = kept.pop()
            kept[-1] = kept[-1].with_later(later)
        self._elements += len(made.keys)
        if self._elements > _MOST_ELEMENTS:
            self.reason, self._kept = f"too large: more than {_MOST_ELEMENTS:,} elements", {}

    def _of(self, event: AccessEvent) -> _Kept:
        chosen = np.flatnonzero(event.mask)
        size = max(1, event.mask[0].size)
        addresses = addresses_of(self.analysis.launch, event).reshape(-1)[chosen]
        # Sixteen bits for programs, of which fewer are evaluated, and 48 for addresses.
        keys = (event.programs[chosen // size] << np.int64(48)) + addresses
        lanes = chosen % size
        order = np.lexsort((lanes, keys))
        return _Kept(keys[order], lanes[order], event.mask.shape[1:], event.width_bytes)


def _met(first: _Kept, second: _Kept) -> bool:
    """Whether two lanes that are not the same share a byte."""
    same_tiles = first.shape == second.shape and first.width == second.width and bool(first.shape)
    for step in _steps(first.width, second.width):
        keys = second.keys + step
        for side in ("left", "right"):  # of the lanes at one place, the least and the largest
            at = np.searchsorted(first.keys, keys, side) - (side == "right")
            here: Bools = (at >= 0) & (at < len(first.keys))
            here[here] = first.keys[at[here]] == keys[here]
            if same_tiles and step == 0:
                here[here] = first.lanes[at[here]] != second.lanes[here]
            if here.any():
                return True
    return False


def _steps(first: int, second: int) -> Iterator[int]:
    """By how much the second may begin earlier (below 0: later) than the first so that both share a byte."""
    yield from range(1 - first, second)
