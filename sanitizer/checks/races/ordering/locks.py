"""Spin locks: ``while atomic_cas(lock, 0, 1) == 1`` … ``atomic_xchg(lock, 0)``, and locks by turn.

A lock by turn is a word that counts up: a program waits until it shows the program's own number and leaves
the next number behind. It excludes like any lock if no two programs have one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kerncap.sanitizer.checks.races.ordering.pair_order import PairOrder
from kerncap.sanitizer.checks.races.ordering.program_order import ProgramOrder
from kerncap.sanitizer.checks.races.ordering.sync_words import Words, known_part, line_of
from kerncap.sanitizer.checks.races.sides import Side
from kerncap.sanitizer.checks.spin_loops import (
    Wait,
    cas_values,
    constant_of,
    is_everywhere,
    leaves_program,
    rmw_value,
    semantics_of,
)
from kerncap.sanitizer.diagnose.unlimited import number_of
from kerncap.sanitizer.symbolic.expr import Expr
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Access


@dataclass(frozen=True)
class Lock:
    """One place that takes a lock. ``defects`` and ``unclear``: why it may not exclude."""

    wait: Wait
    word: Side
    releases: tuple[Operation, ...]
    order_of: ProgramOrder
    defects: tuple[str, ...]
    unclear: tuple[str, ...]
    contents: bool

    def order(self, left: Access, right: Access, found: PairOrder) -> None:
        """Both under this lock: ordered if it is the same word. One of them alone: a defect."""
        holds = [self._holds(access.operation) for access in (left, right)]
        if all(h is True for h in holds):
            if self.defects or self.unclear:
                found.defects += self.defects
                found.unclear += self.unclear
                return
            found.words.append((self.word.address, self.word.address))
            found.constructs.append(self)
            found.contents |= self.contents
            return
        where = line_of(self.wait.loop.location)
        for h in holds:
            if h == "unreleased":
                found.defects += self.defects
                found.defects.append(f"the lock taken at {where} is not released on every path")
        if any(h is True for h in holds):
            found.defects.append(f"only one of them holds the lock taken at {where}")

    @property
    def entered_by(self) -> frozenset[Operation]:
        """The operations that touch the word on the way in."""
        return frozenset(poll.operation for poll in self.wait.polls)

    @property
    def arrive(self) -> Operation | None:
        return None

    def inside(self, operation: Operation) -> bool:
        """Whether the operation only runs under the lock."""
        return self._holds(operation) is True

    def _holds(self, operation: Operation) -> bool | str:
        """Whether the operation lies between taking the lock and giving it back."""
        order = self.order_of
        if not order.dominates(self.wait.loop, operation):
            return False
        for release in self.releases:
            between = self.wait.loop.order < release.order < operation.order
            if between and not order.exclusive(release, operation):
                return False
        if operation in self.releases:
            return True
        if not any(order.postdominates(release, operation) for release in self.releases):
            return "unreleased"
        return True


def find_locks(order: ProgramOrder, words: Words, waits: Sequence[Wait]) -> list[Lock]:
    """Every spin loop that takes a lock."""
    taken = []
    for wait in waits:
        found = _taken_lock(order, words, wait) or _turn_lock(order, words, wait)
        if found is not None:
            taken.append(found)
    locks = []
    for wait, word, releases, by_turn in taken:
        # Another place may take and release the same lock: its operations are no strangers.
        known = [poll.operation for other, *_ in taken for poll in other.polls]
        known += [release for *_, others, _ in taken for release in others]
        defects = [
            f"{line_of(one.location)} writes the lock taken at {line_of(wait.loop.location)}"
            for one in words.writers(word, known)
        ]
        defects += _weak(wait, releases)
        for release in releases:
            if not any(order.dominates(other.loop, release) for other, *_ in taken):
                defects.append(f"{line_of(release.location)} releases a lock that is not held")
        unclear, contents = _turns(words, wait, releases) if by_turn else _start(words, wait, word)
        unclear += [
            f"the lock taken at {line_of(wait.loop.location)} is released in a loop"
            for release in releases
            if order.repeats(release, wait.loop)
        ]
        locks.append(Lock(wait, word, tuple(releases), order, tuple(defects), tuple(unclear), contents))
    return locks


_Found = tuple[Wait, Side, list[Operation], bool]


def _taken_lock(order: ProgramOrder, words: Words, wait: Wait) -> _Found | None:
    """The loop itself writes "taken" and goes on until it finds "free"."""
    free: int | None = None
    for poll in wait.polls:
        operation = poll.operation
        if operation.name == "tt.atomic_cas":
            free, taken = cas_values(operation)
        elif operation.attributes.get("rmw_op") == "exch" and is_everywhere(operation):
            taken = rmw_value(operation)
            bound = constant_of(wait.bound)
            free = bound if wait.predicate == "ne" else 0
        else:
            return None
        if free is None or taken is None or free == taken or not _leaves_with(wait, free, taken):
            return None
    word = words.side(wait.polls[0].operation)
    if word is None or free is None:
        return None
    return wait, word, _releases(order, words, wait, word, free), False


def _leaves_with(wait: Wait, free: int, taken: int) -> bool:
    bound = constant_of(wait.bound)
    return (wait.predicate, bound) in (("eq", taken), ("ne", free))


def _releases(order: ProgramOrder, words: Words, wait: Wait, word: Side, free: int) -> list[Operation]:
    polls = {poll.operation for poll in wait.polls}
    found = []
    for operation in order.operations():
        if operation in polls or operation.name not in ("tt.atomic_rmw", "tt.atomic_cas"):
            continue
        other = words.side(operation)
        if other is None or other.address is not word.address:
            continue
        if operation.name == "tt.atomic_cas":
            sets_free = cas_values(operation)[1] == free and cas_values(operation)[0] != free
        else:
            kind, value = operation.attributes.get("rmw_op"), rmw_value(operation)
            sets_free = is_everywhere(operation) and (
                (kind == "exch" and value == free)
                or (kind == "and" and value == free == 0)
                or (kind == "add" and free == 0 and value == -1)
            )
        if sets_free:
            found.append(operation)
    return found


def _turn_lock(order: ProgramOrder, words: Words, wait: Wait) -> _Found | None:
    """Left once the word shows the program's number; released by making it that number plus one."""
    if wait.predicate != "ne" or constant_of(wait.bound) is not None:
        return None
    word = words.side(wait.polls[0].operation)
    if word is None:
        return None
    releases: list[Operation] = []
    counted: list[Operation] = []
    polls = {poll.operation for poll in wait.polls}
    for operation in order.operations():
        if operation.name != "tt.atomic_rmw" or operation in polls:
            continue
        other = words.side(operation)
        if other is None or other.address is not word.address:
            continue
        kind, step = operation.attributes.get("rmw_op"), operation.segment("value")
        if kind == "add" and rmw_value(operation) == 1 and is_everywhere(operation):
            counted.append(operation)
        owner = step.owner if step is not None else None
        if kind != "exch" or not isinstance(owner, Operation):
            continue
        if owner.name == "arith.addi" and wait.bound in owner.operands:
            number = owner.operands[1] if owner.operands[0] is wait.bound else owner.operands[0]
            if constant_of(number) == 1 and is_everywhere(operation):
                releases.append(operation)
    if not releases and len(counted) == 1 and counted[0].parent is wait.loop.parent:
        releases = counted  # once per turn: a second count would let two in
    return (wait, word, releases, True) if releases else None


def _weak(wait: Wait, releases: Sequence[Operation]) -> list[str]:
    """Orderings that do not carry what the section wrote to the next holder."""
    found = []
    for poll in wait.polls:
        operation = poll.operation
        if operation.name == "tt.load":
            continue
        if semantics_of(operation) not in ("acquire", "acq_rel") or not leaves_program(operation):
            found.append(f"the lock is taken with {_how(operation)} order at {line_of(operation.location)}")
    for release in releases:
        if semantics_of(release) not in ("release", "acq_rel") or not leaves_program(release):
            found.append(f"the lock is released with {_how(release)} order at {line_of(release.location)}")
    return found


def _how(operation: Operation) -> str:
    return semantics_of(operation) if leaves_program(operation) else "block-wide (cta)"


def _start(words: Words, wait: Wait, word: Side) -> tuple[list[str], bool]:
    """A loop that goes on while it sees "taken" lets everybody in if the word holds anything else."""
    if wait.predicate == "ne":
        return [], False
    where = line_of(wait.loop.location)
    points = words.points(word, condition=known_part(word.condition))
    values = None if points is None else words.initial(word, np.unique(points.addresses))
    if values is None:
        return [f"what the lock at {where} holds before the launch is not known"], False
    operation = wait.polls[0].operation
    free = cas_values(operation)[0] if operation.name == "tt.atomic_cas" else 0
    if np.any(values != free):
        return [f"the lock at {where} does not start free"], True
    return [], True


def _turns(words: Words, wait: Wait, releases: Sequence[Operation]) -> tuple[list[str], bool]:
    """No two programs may have one number at one lock."""
    side = words.side(releases[0])
    where = line_of(releases[0].location)
    number: Expr | None = None
    if side is not None and side.access.atomic == "add":
        number = number_of(words.analysis, side.access, wait.bound)
    elif side is not None and side.access.value is not None:
        number = side.access.value - 1
    if side is None or number is None:
        return [f"the turns of the lock released at {where} are not known"], False
    points = words.points(side, number)
    if points is None:
        return [f"the turns of the lock released at {where} are not known"], False
    keys = np.stack([points.addresses, points.values[number]])
    if np.unique(keys, axis=1).shape[1] != len(points.addresses):
        return [f"two programs have one turn at the lock released at {where}"], False
    return [], bool(number.reads or side.address.reads)
