"""Counters of arrivals and flags: who sees a word's last value comes after everybody who set it.

A program writes, then counts a word up (or sets it once). Another one reads what was written, either in
the branch of the program that counted last, or behind a loop that waits for the word. This orders the two if
the value that lets the reader through is reached only with the last of the arrivals, which are counted
here over all programs, from what the word held before the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.races.ordering.pair_order import PairOrder
from kerncap.sanitizer.checks.races.ordering.program_order import ProgramOrder
from kerncap.sanitizer.checks.races.ordering.sync_words import Words, line_of
from kerncap.sanitizer.checks.races.shared_bytes import Points
from kerncap.sanitizer.checks.races.sides import Side
from kerncap.sanitizer.checks.spin_loops import (
    Poll,
    Wait,
    cas_values,
    constant_of,
    is_everywhere,
    leaves_program,
    rmw_value,
    semantics_of,
)
from kerncap.sanitizer.symbolic.expr import Expr, var
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Access

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Passes = Callable[[Ints], Bools]  # whether a value that was seen lets the reader through


@dataclass(frozen=True)
class Arrival:
    """``arrive`` sets ``word`` after the writes; ``reads_after`` says which accesses follow the last arrival.

    ``seen_from``: the word as the reader knows it.
    """

    arrive: Operation
    loops: int  # how many loops are around the arrival
    word: Side
    seen_from: Expr
    polls: tuple[Poll, ...]
    wait: Wait | None  # None: the branch of the last arriver
    guarded: frozenset[Operation]  # of the last arriver's branch
    order_of: ProgramOrder
    defects: tuple[str, ...]  # it is not the last arrival that lets the reader through
    weak: tuple[str, ...]  # the atomics order nothing but themselves
    unclear: tuple[str, ...]
    contents: bool
    repeated: bool  # a program arrives more than once at a word
    alone: bool  # one program at most gets through at each word, whatever else is wrong

    def order(self, left: Access, right: Access, found: PairOrder) -> None:
        ordered = []
        if self._after(left) and self._before(right):
            ordered.append((self.seen_from, self.word.address))
        if self._before(left) and self._after(right):
            ordered.append((self.word.address, self.seen_from))
        if self.wait is None and self._after(left) and self._after(right):
            # Only one program is the last to arrive.
            ordered.append((self.seen_from, self.seen_from))
        if not ordered:
            if self._after(left) or self._after(right):
                late = right if self._after(left) else left
                if self.order_of.dominates(self.arrive, late.operation):
                    found.defects.append(
                        f"{line_of(late.location)} comes after the arrival at {line_of(self.arrive.location)}"
                    )
                elif self._before_its_loop(late):
                    found.unclear.append(f"the arrival at {line_of(self.arrive.location)} is in a loop")
            elif any(
                self._before(early) and self._behind_its_loop(late)
                for early, late in ((left, right), (right, left))
            ):
                found.unclear.append(f"the wait for {line_of(self.arrive.location)} is in a loop")
            return
        both_after = self._after(left) and self._after(right)
        defects = () if both_after and self.alone else self.defects
        if not both_after and self.arrive not in (left.operation, right.operation):
            defects += self.weak  # what was written before has to be seen, too
        if defects or self.unclear:
            # What is done before some arrivals of a program only, may be before the first.
            early = left if self._before(left) else right
            sure = not self.repeated or early.path is self.word.access.path
            found.defects += defects if sure else ()
            found.unclear += self.unclear if sure else (*defects, *self.unclear)
            return
        found.words += ordered
        if any(v.kind == "loop" for one in (self.word.address, self.seen_from) for v in one.variables):
            # Where the words differ, those of earlier rounds may order the two.
            found.unclear.append(f"the wait for {line_of(self.arrive.location)} is in a loop")
        found.constructs.append(self)
        found.contents |= self.contents

    @property
    def entered_by(self) -> frozenset[Operation]:
        """The operations by which a reader knows the word."""
        if self.wait is None:
            return frozenset((self.arrive,))
        return frozenset(poll.operation for poll in self.polls)

    @property
    def releases(self) -> Sequence[Operation]:
        return (self.arrive,)

    def inside(self, operation: Operation) -> bool:
        """Whether the operation only runs after the last arrival."""
        return self.order_of.dominates(self.wait.loop, operation) if self.wait else operation in self.guarded

    def _before(self, access: Access) -> bool:
        """It happens before its program arrives, or is the arrival."""
        operation = access.operation
        if operation is self.arrive:
            return True
        if operation.order > self.arrive.order or len(access.loops) < self.loops:
            return False
        return self.order_of.postdominates(self.arrive, operation)

    def _before_its_loop(self, access: Access) -> bool:
        loops = self.order_of.repeats(self.arrive, access.operation)
        return bool(loops) and self.order_of.postdominates(loops[-1], access.operation)

    def _behind_its_loop(self, access: Access) -> bool:
        loops = self.order_of.repeats(self.wait.loop, access.operation) if self.wait else []
        return bool(loops) and self.order_of.dominates(loops[-1], access.operation)

    def _after(self, access: Access) -> bool:
        if self.wait is None:
            return access.operation in self.guarded
        return self.order_of.dominates(self.wait.loop, access.operation)


def find_arrivals(
    analysis: Analysis, order: ProgramOrder, words: Words, waits: Sequence[Wait]
) -> tuple[list[Arrival], list[Operation]]:
    """All that is understood, and the waiting loops that are not."""
    found = list(_last_arrivers(analysis, order, words))
    strange = []
    for wait in waits:
        arrival = _waited_for(order, words, wait)
        if arrival is None:
            strange.append(wait.loop)
        else:
            found.append(arrival)
    return found, strange


# --- the branch of the last arriver ------------------------------------------------------------------------


def _last_arrivers(analysis: Analysis, order: ProgramOrder, words: Words) -> list[Arrival]:
    found = []
    for access in analysis.walked.accesses:
        word = words.side(access.operation)
        if access.atomic not in ("add", "inc") or word is None or access.result is None:
            continue
        guards: dict[tuple[int | None, int | None], set[Operation]] = {}
        for other in analysis.walked.accesses:
            if other.path.unknown_reasons and order.dominates(access.operation, other.operation):
                seen = analysis.solver.bounds(access.result, other.path)
                if seen != (access.result.low, access.result.high):
                    guards.setdefault(seen, set()).add(other.operation)
        for (low, high), operations in guards.items():
            found.append(_last_arriver(order, words, word, low, high, frozenset(operations)))
    return found


def _last_arriver(
    order: ProgramOrder,
    words: Words,
    word: Side,
    low: int | None,
    high: int | None,
    guarded: frozenset[Operation],
) -> Arrival:
    operation = word.access.operation

    def passes(seen: Ints) -> Bools:
        result = np.ones(len(seen), dtype=np.bool_)
        if low is not None:
            result &= seen >= low
        if high is not None:
            result &= seen <= high
        return result

    strangers = [one for one in words.writers(word, [operation]) if one.operation not in guarded]
    reader = f"the branch behind {line_of(operation.location)}"
    defects, unclear, contents = _judge(words, word, passes, reader, before_own=True)
    unclear = [_stranger(one, word) for one in strangers] + unclear
    return Arrival(
        arrive=operation,
        loops=len(word.access.loops),
        word=word,
        seen_from=word.address,
        polls=(),
        wait=None,
        guarded=guarded,
        order_of=order,
        defects=tuple(defects),
        weak=tuple(_weak(operation, ("acq_rel",))),
        unclear=tuple(unclear),
        contents=contents,
        repeated=_repeated(words, word),
        alone=not words.writers(word, [operation]) and _passes_once(words, word, passes),
    )


# --- loops that wait ----------------------------------------------------------------------------------


def _waited_for(order: ProgramOrder, words: Words, wait: Wait) -> Arrival | None:
    """A loop that only looks at a word which one other operation sets."""
    bound = constant_of(wait.bound)
    seen = words.side(wait.polls[0].operation)
    if bound is None or seen is None or not all(_only_looks(poll.operation) for poll in wait.polls):
        return None
    setters = words.writers(seen, [poll.operation for poll in wait.polls])
    if len({one.operation for one in setters}) != 1:
        return None
    word = words.side(setters[0].operation)
    if word is None or word.access.kind != "atomic":
        return None

    def passes(values: Ints) -> Bools:
        return ~_compare(wait.predicate, values, bound)

    reader = f"the wait at {line_of(wait.loop.location)}"
    defects, unclear, contents = _judge(words, word, passes, reader, before_own=False)
    weak = _weak(word.access.operation, ("release", "acq_rel"))
    for poll in wait.polls:
        if poll.operation.name != "tt.load":
            weak += _weak(poll.operation, ("acquire", "acq_rel"))
    return Arrival(
        arrive=word.access.operation,
        loops=len(word.access.loops),
        word=word,
        seen_from=seen.address,
        polls=wait.polls,
        wait=wait,
        guarded=frozenset(),
        order_of=order,
        defects=tuple(defects),
        weak=tuple(weak),
        unclear=tuple(unclear),
        contents=contents,
        repeated=_repeated(words, word),
        alone=False,
    )


def _only_looks(operation: Operation) -> bool:
    if operation.name in ("tt.load", "tt.atomic_load", "tt.atomic_poll"):
        return True
    if operation.name == "tt.atomic_cas":
        expected, new = cas_values(operation)
        return operation.operands[1] is operation.operands[2] or (expected is not None and expected == new)
    return operation.attributes.get("rmw_op") in ("add", "or", "xor") and rmw_value(operation) == 0


def _compare(predicate: str, values: Ints, bound: int) -> Bools:
    comparisons = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    name = predicate if predicate in comparisons else predicate[1:]  # "slt", "ult": words hold small counts
    return np.asarray(comparisons[name](values, bound), dtype=np.bool_)


# --- counting -----------------------------------------------------------------------------------------


def _judge(
    words: Words, word: Side, passes: Passes, reader: str, before_own: bool
) -> tuple[list[str], list[str], bool]:
    """``(defects, unclear, contents)``: does a reader get through only after all arrivals at its word?

    ``before_own``: the reader is an arriver and sees the word as it was before its own arrival.
    """
    operation = word.access.operation
    where = line_of(operation.location)
    points = _arrivals(words, word)
    if points is None:
        return [], [f"how often each word is counted at {where} is not known"], False
    addresses, arrivals = np.unique(points.addresses, return_counts=True)
    start = words.initial(word, addresses)
    if start is None:
        return [], [f"what the word counted at {where} holds before the launch is not known"], False
    if not is_everywhere(operation):
        return [], [f"the arrival at {where} is masked"], True
    step = rmw_value(operation) if operation.name == "tt.atomic_rmw" else None
    kind = operation.attributes.get("rmw_op")
    if kind == "add" and step is not None and step > 0:
        # Before the last arrival the word holds start, start + step, …
        early = arrivals - 1 if before_own else arrivals
        too_soon = np.zeros(len(arrivals), dtype=np.bool_)
        for one in np.unique(np.stack([start, early]), axis=1).T:
            values = int(one[0]) + step * np.arange(int(one[1]), dtype=np.int64)
            if np.any(passes(values)):
                too_soon |= (start == one[0]) & (early == one[1])
        if np.any(too_soon):
            most = int(arrivals[too_soon].max())
            return [f"{reader} does not wait for all {most} arrivals at {where}"], [], True
        return [], [], True
    value = _set_value(operation)
    if value is None or before_own:
        return [], [f"the arrival at {where} is not counted or set by a constant"], True
    if np.any(arrivals != 1):
        most = int(arrivals.max())
        times = f"{most} times" if _repeated(words, word) else f"by {most} programs"
        return [f"the flag set at {where} is set {times}"], [], True
    if np.any(passes(start)):
        return [f"{reader} does not wait: the flag set at {where} is up before the launch"], [], True
    if not np.all(passes(np.full(1, value, dtype=np.int64))):
        return [], [f"{reader} does not go by the value set at {where}"], True
    return [], [], True


def _arrivals(words: Words, word: Side) -> Points | None:
    """All of them, in every iteration."""
    return words.points(word, *(var(loop.counter) for loop in word.access.loops))


def _repeated(words: Words, word: Side) -> bool:
    points = _arrivals(words, word)
    if points is None:
        return True
    return len(np.unique([points.addresses, points.programs], axis=1).T) < len(points.addresses)


def _passes_once(words: Words, word: Side, passes: Passes) -> bool:
    """Whether at most one of the values that arrivals find lets its program through."""
    points = _arrivals(words, word)
    step = rmw_value(word.access.operation)
    if points is None or step is None or step <= 0:
        return False
    addresses, arrivals = np.unique(points.addresses, return_counts=True)
    start = words.initial(word, addresses)
    if start is None:
        return False
    return all(
        np.count_nonzero(passes(int(first) + step * np.arange(int(count), dtype=np.int64))) <= 1
        for first, count in np.unique(np.stack([start, arrivals]), axis=1).T
    )


def _set_value(operation: Operation) -> int | None:
    if operation.name == "tt.atomic_cas":
        return cas_values(operation)[1]
    sets = operation.name == "tt.atomic_store" or operation.attributes.get("rmw_op") == "exch"
    return rmw_value(operation) if sets else None


def _weak(operation: Operation, enough: tuple[str, ...]) -> list[str]:
    where = line_of(operation.location)
    if not leaves_program(operation):
        return [f"the atomic at {where} orders threads of one program only (scope cta)"]
    if semantics_of(operation) not in enough:
        return [f"the atomic at {where} is {semantics_of(operation)}, which does not order other accesses"]
    return []


def _stranger(access: Access, word: Side) -> str:
    return f"{line_of(access.location)} may write the word counted at {line_of(word.access.location)}"
