"""What is in flight: accesses to buffers, phases of barriers, and what each group of warps knows to be over.

A clock says up to where something is known: of a thread (a partition of warps) its own steps, of its queues
(copies in commit groups, TMA stores, warp group products) the entries that a wait has seen end, of a barrier
the phases. An access is over for a thread whose clock holds one of its ends.
A clock also says which ends a fence between proxies came behind, under the key ("fenced", key of the end).
So a program is judged by what its waits order, not by what one run's timing made of it.
Source: PTX ISA, "Asynchronous operations" and "mbarrier".
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from kerncap.sanitizer.shared.views import Allocation, Box, View, inside, outside, overlap
from kerncap.sanitizer.ttir.ir import Operation

Clock = dict[Hashable, int]
_KEPT_PHASES = 8
FENCED = "fenced"


def merge(into: Clock, other: Clock) -> None:
    for key, at in other.items():
        if into.get(key, -1) < at:
            into[key] = at


@dataclass(eq=False)
class Thread:
    """The default warps of a block, or a partition. ``loops``: the induction variables, outermost first.

    ``inherited``: what the threads before it knew where it begins.
    """

    name: str
    clock: Clock = field(default_factory=dict)
    inherited: Clock = field(default_factory=dict)
    step: int = 0
    loops: list[list[object]] = field(default_factory=list)
    copies: list[Access] = field(default_factory=list)  # of the group that is not committed yet
    queues: dict[str, int] = field(default_factory=dict)  # entries by kind
    products: list[Access] = field(default_factory=list)  # tcgen05: what the next commit covers
    blocked: Wait | None = None
    ended: bool = False
    block: int = 0  # of the cluster
    calls: int = 0  # of functions, that it is in
    arrived: int = 0  # for how many meetings of the cluster's blocks
    met: int = 0  # how many of them it has waited for
    initialised: int = 0  # its step behind the last barrier that it made

    def tick(self) -> tuple[Hashable, int]:
        self.step += 1
        self.clock[self] = self.step
        return self, self.step

    def entry(self, kind: str) -> tuple[Hashable, int]:
        """A new entry in a queue that ends in order."""
        number = self.queues[kind] = self.queues.get(kind, 0) + 1
        return (self, kind), number

    def wait_queue(self, kind: str, pending: int) -> None:
        """All but the last ``pending`` entries are over."""
        seen = self.queues.get(kind, 0) - pending
        merge(self.clock, {(self, kind): seen})

    def fence(self) -> None:
        """What is over before is ordered with later operations of the asynchronous proxy."""
        seen = [
            (key, at) for key, at in self.clock.items() if not (isinstance(key, tuple) and key[0] is FENCED)
        ]
        merge(self.clock, {(FENCED, key): at for key, at in seen})

    def iterations(self) -> tuple[tuple[str, int], ...]:
        return tuple((str(name), int(value)) for name, value in self.loops)  # type: ignore[call-overload]


@dataclass(eq=False)
class Access:
    """One execution of an operation on a view. ``what``: as a message says it."""

    operation: Operation
    view: View
    writes: bool
    what: str
    thread: Thread
    iterations: tuple[tuple[str, int], ...]
    ends: list[tuple[Hashable, int]] = field(default_factory=list)
    in_order: str = ""  # accesses of one thread with the same word keep their order
    proxy: bool = False  # by the asynchronous proxy: the TMA and the tensor cores
    barrier: Barrier | None = None

    def over_for(self, clock: Clock) -> bool:
        return any(clock.get(key, -1) >= at for key, at in self.ends)

    def fenced_for(self, clock: Clock) -> bool:
        return any(clock.get((FENCED, key), -1) >= at for key, at in self.ends)


@dataclass(eq=False)
class Buffer:
    """``accesses``: those that a later one may have to wait for; ``filled``: what was ever written."""

    allocation: Allocation
    accesses: list[Access] = field(default_factory=list)
    filled: list[Box] = field(default_factory=list)
    doubt: str = ""  # an operation on it that is not modelled

    def conflicts(self, new: Access) -> list[Access]:
        return [
            old
            for old in self.accesses
            if (new.writes or old.writes)
            and overlap(old.view.box, new.view.box)
            and not old.over_for(new.thread.clock)
            and not (new.in_order and old.in_order == new.in_order and old.thread is new.thread)
        ]

    def unfenced(self, new: Access) -> list[Access]:
        """Ordinary writes of other threads that the new access comes behind, but its proxy need not."""
        if not new.proxy or new.writes or self.allocation.type.tensor_memory:
            return []
        return [
            old
            for old in self.accesses
            if old.writes
            and not old.proxy
            and old.thread is not new.thread
            and overlap(old.view.box, new.view.box)
            and old.over_for(new.thread.clock)
            and not old.fenced_for(new.thread.clock)
        ]

    def add(self, new: Access) -> None:
        """What a later access knows with the new one needs to be kept no longer."""
        clock, box = new.thread.clock, new.view.box
        self.accesses = [
            old
            for old in self.accesses
            if not (
                (new.writes or not old.writes)
                and new.view.exact
                and inside(old.view.box, box)
                and old.over_for(clock)
            )
        ]
        self.accesses.append(new)
        if new.writes and outside(box, self.filled) is not None:
            self.filled = [old for old in self.filled if not inside(old, box)] + [box]


@dataclass
class Wait:
    thread: Thread
    barrier: Barrier
    operation: Operation
    phase: int
    iterations: tuple[tuple[str, int], ...]
    step: int = 0  # of the thread, once it is over


@dataclass(eq=False)
class Barrier:
    """An mbarrier: a phase ends when its arrivals are there and as many bytes came as were announced.

    Copies bring their bytes at once here: which of them a phase covers is decided by the order in which they
    are issued. ``announced`` and ``brought`` are bytes since the last announcement, for messages.
    """

    name: str
    count: int
    pending: int
    phase: int = 0
    bytes: int = 0  # announced and not brought
    announced: int = 0
    brought: int = 0
    gathered: Clock = field(default_factory=dict)  # what arrivals of this phase know
    arrivals: list[tuple[Hashable, int]] | None = field(default_factory=list)  # None: not all are known
    ended: dict[int, Clock] = field(default_factory=dict)
    ended_by: dict[int, list[tuple[Hashable, int]] | None] = field(default_factory=dict)  # the arrivals
    waits: list[Wait] = field(default_factory=list)
    overrun: list[Wait] = field(default_factory=list)  # that a phase after theirs did not wait for

    def arrive(
        self, thread: Thread, count: int = 1, event: tuple[Hashable, int] | None = None, tells: bool = True
    ) -> None:
        """``event``: what arrives, if that is not the thread itself but an operation that it started.

        ``tells``: whoever waits then knows what the thread knows.
        """
        merge(self.gathered, thread.clock if tells else {})
        if event is not None:
            merge(self.gathered, dict((event,)))
        self.pending -= count
        phase, arrivals = self.phase, self.arrivals
        if arrivals is not None:
            arrivals.append(event or (thread, thread.step))
        self._end()
        known = arrivals is not None and all(thread.clock.get(one, -1) >= step for one, step in arrivals)
        if self.phase > phase and known:
            thread.clock[self] = phase

    def expect(self, thread: Thread, size: int) -> None:
        merge(self.gathered, thread.clock)
        self.arrivals = None
        self.bytes += size
        self.announced, self.brought = size, 0
        self.pending -= 1
        self._end()

    def bring(self, thread: Thread, size: int) -> tuple[Hashable, int]:
        """A copy's bytes; gives the end that the copy has."""
        merge(self.gathered, thread.clock)
        self.arrivals = None
        end = (self, self.phase)
        self.bytes -= size
        self.brought += size
        self._end()
        return end

    def _end(self) -> None:
        while self.pending <= 0 and self.bytes == 0:
            clock = self.gathered
            clock[self] = self.phase
            merge(clock, self.ended.get(self.phase - 1, {}))
            for wait in self.waits:
                if wait.phase < self.phase and clock.get(wait.thread, -1) < wait.step:
                    self.overrun.append(wait)
            self.waits = [wait for wait in self.waits if wait.phase >= self.phase]
            self.ended[self.phase] = clock
            self.ended.pop(self.phase - _KEPT_PHASES, None)
            self.ended_by = {self.phase: self.arrivals}
            self.gathered, self.arrivals = {}, []
            self.phase += 1
            self.pending += self.count

    def begun_for(self, clock: Clock) -> bool:
        """Whether the phase before this one is known to be over, or else everything that ends it."""
        arrivals = self.ended_by.get(self.phase - 1)
        known = arrivals is not None and all(clock.get(key, -1) >= at for key, at in arrivals)
        return not self.phase or clock.get(self, -1) >= self.phase - 1 or known

    def lacks(self) -> str:
        """What the phase that did not end waits for."""
        parts = []
        if self.pending > 0:
            parts.append(f"{self.pending} of {self.count} arrivals")
        if self.bytes > 0:
            parts.append(f"{self.bytes:,} announced bytes")
        if self.bytes < 0:
            parts.append(f"an announcement of {-self.bytes:,} bytes that copies bring")
        return " and ".join(parts)
