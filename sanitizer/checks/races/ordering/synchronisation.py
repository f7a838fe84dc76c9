"""Order between programs that atomics make: locks, counters of arrivals, flags.

Three constructions are understood, each by what it has to get right:

- a **lock**: a spin loop takes a word, every way on from there gives it back. Two accesses under one lock
  never happen at once;
- **arrivals**: programs count up a word after they wrote; who sees the last count (the branch of the last
  arriver, or a loop that waits for it) comes after all of them;
- a **flag**: the same with a word that is set once.

Whatever else atomics are used for leaves a conflict undecided, never settled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.races.disjoint_tiles import Relation
from kerncap.sanitizer.checks.races.one_program import barriers_of, unordered
from kerncap.sanitizer.checks.races.ordering.arrivals import Arrival, find_arrivals
from kerncap.sanitizer.checks.races.ordering.locks import Lock, find_locks
from kerncap.sanitizer.checks.races.ordering.pair_order import Construct, PairOrder
from kerncap.sanitizer.checks.races.ordering.program_order import ProgramOrder
from kerncap.sanitizer.checks.races.ordering.sync_words import Words, line_of
from kerncap.sanitizer.checks.spin_loops import (
    Wait,
    is_everywhere,
    is_synchronisation,
    leaves_program,
    rmw_value,
    spin_loops,
)
from kerncap.sanitizer.symbolic.expr import Expr, conjuncts, land, nodes_of
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Access


class Synchronisation:
    """All that orders the programs of one launch. Costs nothing for a kernel without atomics."""

    def __init__(self, analysis: Analysis) -> None:
        self._order = ProgramOrder(analysis.function)
        self._active = any(map(is_synchronisation, self._order.operations()))
        self._locks: list[Lock] = []
        self._arrivals: list[Arrival] = []
        self._strange: list[Operation] = []
        self._results: set[object] = set()
        self._tickets: dict[object, int] = {}
        self._accesses = {access.operation: access for access in analysis.walked.accesses}
        if not self._active:
            return
        self._has_barriers = _puts_barriers(analysis.launch.triton)
        self._barriers = barriers_of(analysis)[0]
        words = Words(analysis)
        waits: list[Wait] = []
        for loop, wait in spin_loops(self._order.operations()):
            if wait is None:
                self._strange.append(loop)
            else:
                waits.append(wait)
        self._locks = find_locks(self._order, words, waits)
        taken = {lock.wait.loop for lock in self._locks}
        others = [wait for wait in waits if wait.loop not in taken]
        self._arrivals, strange = find_arrivals(analysis, self._order, words, others)
        self._strange += strange
        self._tickets = dict(_counters(analysis, words))
        self._results = {
            access.result.payload
            for access in analysis.walked.accesses
            if is_synchronisation(access.operation)
            and access.result is not None
            and access.result.kind == "unknown"
        }

    def beside_atomics(self, left: Access, right: Access) -> bool:
        """A volatile load that a recognised wait goes by, and an atomic: rightly at once."""
        return self.polls_beside_atomics(left.operation, right.operation, left.kind, right.kind)

    def polls_beside_atomics(self, left: Operation, right: Operation, kind: str, other_kind: str) -> bool:
        polls = {poll.operation for one in self._arrivals for poll in one.polls}
        polls |= {poll.operation for lock in self._locks for poll in lock.wait.polls}
        return any(
            one in polls and (its_kind == "atomic" or other in polls)
            for one, other, its_kind in ((left, right, other_kind), (right, left, kind))
        )

    def distinct(self, relation: Relation) -> bool:
        """The two programs would have to have drawn numbers from a counter that are closer than its steps."""
        return any(relation.excluded_by(payload, step) for payload, step in self._tickets.items())

    def constructs(self) -> list[Construct]:
        return [*self._locks, *self._arrivals]

    def between_operations(self, left: Operation, right: Operation) -> PairOrder:
        """As `between`, for operations that were evaluated."""
        if not self._active:
            return PairOrder()
        one, other = self._accesses.get(left), self._accesses.get(right)
        if one is None or other is None:
            return PairOrder(unclear=["what the atomics of this kernel order is not known"])
        return self.between(one, other)

    def between(self, left: Access, right: Access) -> PairOrder:
        found = PairOrder()
        if not self._active:
            return found
        for lock in self._locks:
            lock.order(left, right, found)
        for arrival in self._arrivals:
            arrival.order(left, right, found)
        if found.words and (open_ones := [*self._before_releases(left, right, found), *_after_loads(found)]):
            found.words.clear()
            found.unclear += open_ones
        for access in (left, right):
            for loop in self._strange:
                if self._order.dominates(loop, access.operation):
                    found.unclear.append(_not_understood(loop))
            if not found.words and not found.defects and self._rests_on_atomics(access.path):
                operation = self._last_atomic_before(access.operation)
                if operation is not None:
                    found.unclear.append(_not_understood(operation))
        return found

    def _before_releases(self, left: Access, right: Access, found: PairOrder) -> list[str]:
        """What other threads of a program may do after the one thread that says it is done."""
        if self._has_barriers:
            return []
        return [
            f"no barrier is between {line_of(one.location)} and {line_of(release.location)}: Triton puts one "
            "before an atomic since 3.9; tl.debug_barrier() is one"
            for construct in found.constructs
            for release in construct.releases
            for one in (left, right)
            if (one.kind == "load" or one.shape)
            and one.operation.order < release.order
            and unordered(self._barriers, one.operation, release)
        ]

    def without_atomics(self, condition: Expr) -> Expr:
        """A condition less the parts that rest on what an atomic gave: those hold for some interleaving."""
        if not self._results:
            return condition
        return land(*(part for part in conjuncts(condition) if not self._rests_on_atomics(part)))

    def _rests_on_atomics(self, condition: Expr) -> bool:
        if not self._results or not condition.unknown_reasons:
            return False
        return any(n.kind == "unknown" and n.payload in self._results for n in nodes_of((condition,)))

    def _last_atomic_before(self, operation: Operation) -> Operation | None:
        before = [o for o in self._order.operations() if is_synchronisation(o) and o.order < operation.order]
        return before[-1] if before else None


def _counters(analysis: Analysis, words: Words) -> Iterator[tuple[object, int]]:
    """Results of ``atomic_add(counter, n)`` on one word that nobody else writes: any two are ``n`` apart."""
    for access in analysis.walked.accesses:
        operation, result = access.operation, access.result
        if access.atomic != "add" or result is None or result.kind != "unknown":
            continue
        side, step = words.side(operation), rmw_value(operation)
        if (
            side is None
            or side.address.variables
            or step is None
            or step == 0
            or not is_everywhere(operation)
            or not leaves_program(operation)
        ):
            continue
        if not words.writers(side, [operation]):
            yield result.payload, abs(step)


def _after_loads(found: PairOrder) -> Iterator[str]:
    """Volatile loads that a wait goes by: in PTX they are relaxed, as in the tables of its memory model."""
    for construct in found.constructs:
        for poll in construct.entered_by:
            if poll.name == "tt.load":
                yield f"the volatile load at {line_of(poll.location)} orders no later access; an atomic does"


def _puts_barriers(triton: str) -> bool:
    """Whether this version waits for all threads of a program before its atomic (seen in PTX and GCN)."""
    version = re.match(r"([0-9]+)\.([0-9]+)", triton)
    return version is not None and (int(version[1]), int(version[2])) >= (3, 9)


def _not_understood(operation: Operation) -> str:
    return f"ordered by atomics at {line_of(operation.location)} in a way that is not understood"
