"""The state of one evaluation, and of the programs that go through the kernel together."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kerncap.sanitizer.concrete.events import Observer, Reads, Results
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.values import Bools, Incomplete, Ints, Tile, Unknown, Value, lift
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import Block, Function, Operation
from kerncap.sanitizer.ttir.ir import Value as Name

# An operation on few elements counts as this many: less than it costs (3 to 8 microseconds, for 500 to
# 1,400), so that a long loop of scalars has the minute that it takes.
PER_OPERATION = 250
_LOOK = 1 << 15  # work between two looks at the clock, which ask the system: less than a millisecond

# A program hands over at each yield: True if it got on since the last one, False if it waits for others.
Progress = Generator[bool, None, None]
Step = Callable[["Machine"], None]
Flow = Callable[["Machine"], Progress]


@dataclass(frozen=True, slots=True)
class BlockPlan:
    steps: tuple[tuple[bool, Step | Flow], ...]  # (is it a flow, the function)
    plain: tuple[Step, ...] | None  # the same, if there is no flow
    terminator: Operation | None
    elements: int  # that one execution produces per program

    def work(self, programs: int) -> int:
        """Of one execution, in elements."""
        return self.elements * programs + PER_OPERATION * len(self.steps)


class Program(Protocol):
    """A kernel made ready to run, as `plan` does it."""

    function: Function

    def argument(self, name: Name, index: int) -> Value: ...

    def block(self, block: Block) -> BlockPlan: ...


@dataclass(frozen=True)
class Limits:
    """Of one evaluation: elements that operations produce, and seconds of the thread's processor time.

    The first is what ends an evaluation on any machine alike; the seconds are for what it does not count.

    ``reached`` gets how many of how many programs came to their end, again and again. ``ended``: whether
    nobody waits for the result any more.
    """

    element_operations: int = 2_000_000_000
    seconds: float = 60.0
    reached: Callable[[int, int], None] | None = None
    ended: Callable[[], bool] | None = None


@dataclass(frozen=True)
class Track:
    """What is carried along with each value.

    ``undefined``: whether it depends on a masked-off lane of a load without `other`, or on the result of an
    integer operation that has none.
    ``overflow``: whether a signed integer operation wrapped around on the way to an address.
    ``left_out``: whether the zeros in such lanes are followed, apart from zeros in memory; see `left_out`.
    ``rounding``: in place of ``undefined``, whether a GPU may come to another value: see `rounding`.
    """

    undefined: bool = False
    overflow: bool = False
    left_out: bool = True
    rounding: bool = False


@dataclass
class Shared:
    """One evaluation."""

    launch: Launch
    memory: Memory
    plan: Program
    limits: Limits
    observer: Observer | None
    results: Results | None = None  # what atomics give back in place of what they find
    reads: Reads | None = None  # what of a load's result is undefined
    # Programs one at a time, as coroutines: some loop may wait for another program.
    cooperative: bool = False
    spent: int = 0
    events: int = 0
    forked: bool = False  # programs went by a condition on something undefined, and could have gone elsewhere
    deadline: float = 0.0
    notes: dict[str, None] = field(default_factory=dict)  # a set that keeps its order
    _unlooked: int = _LOOK  # work since the clock was looked at

    def spend(self, work: int) -> None:
        """Raises Incomplete where a limit is passed."""
        self.spent += work
        if self.spent > self.limits.element_operations:
            raise Incomplete(f"too large: more than {self.limits.element_operations:,} element operations")
        self._unlooked += work + 1
        if self._unlooked < _LOOK:
            return
        self._unlooked = 0
        if time.thread_time() > self.deadline:
            raise Incomplete(f"too large: more than {self.limits.seconds:g} s")
        if self.limits.ended is not None and self.limits.ended():
            raise Incomplete("the program ended meanwhile")


@dataclass(slots=True)
class LoopState:
    """One enclosing loop: the value of its variable and the trip, per program or for all."""

    name: str
    induction: Ints
    trip: int


class Machine:
    """Some programs in lockstep. ``active`` (over programs): who is here; None: everybody."""

    __slots__ = ("shared", "programs", "count", "env", "active", "loops", "waiting", "unsure")

    def __init__(self, shared: Shared, programs: Ints) -> None:
        self.shared = shared
        self.programs = programs
        self.count = len(programs)
        self.env: dict[Name, Value] = {}
        self.active: Bools | None = None
        self.loops: list[LoopState] = []
        self.waiting: Operation | None = None  # the loop that it spins in
        # Over programs: whether they came here by a condition on something undefined.
        self.unsure: Bools | None = None

    def known(self, name: Name, what: str) -> Tile:
        """The tile of a value that is needed. Raises Incomplete if it is not known."""
        value = self.env[name]
        if isinstance(value, Tile):
            return value
        if isinstance(value, Unknown):
            raise Incomplete(f"{what} depends on an unknown value: {value.reason}")
        raise Incomplete(f"{what} is not a number")

    def lanes(self, mask: Bools | None, rank: int) -> Bools | None:
        """An operation's mask with the programs that are here; None: all lanes."""
        if self.active is None:
            return mask
        here = lift(self.active, rank)
        return here if mask is None else mask & here

    def per_program(self, array: Ints) -> Ints:
        return array if len(array) == self.count else np.broadcast_to(array, (self.count,))

    def has(self, flags: Bools) -> bool:
        """Whether one is set in a program that is here."""
        here = (
            flags
            if self.active is None
            else np.broadcast_to(flags, (self.count, *flags.shape[1:]))[self.active]
        )
        return bool(here.any())
