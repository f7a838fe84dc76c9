"""Runs blocks of threads: each instruction for all threads that are there at once.

The threads that are furthest behind go first, so those that parted meet again as early as they can. At a
barrier and at a shuffle threads wait for each other; if some never come, nothing is said of the kernel.
Source: PTX ISA 9.0, "Parallel Synchronization and Communication Instructions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from kerncap.sanitizer.equality.degrees import Degree
from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, NotModelled
from kerncap.sanitizer.equality.ptx.code import Instruction, Integer, Module, Operand, Register, Symbol
from kerncap.sanitizer.equality.ptx.copies_in_flight import Copies
from kerncap.sanitizer.equality.ptx.floats import Floats
from kerncap.sanitizer.equality.ptx.launch import PtxLaunch
from kerncap.sanitizer.equality.ptx.memory import BlockMemory, GlobalMemory
from kerncap.sanitizer.equality.ptx.races import Order
from kerncap.sanitizer.equality.ptx.reader import OF_WHOLE_WARPS, is_meeting
from kerncap.sanitizer.equality.ptx.registers import Registers
from kerncap.sanitizer.equality.ptx.run_limits import Work
from kerncap.sanitizer.equality.ptx.values import HoldsFloats, as_predicate

_DIMENSIONS = {"x": 0, "y": 1, "z": 2}


Step = Callable[["Machine", Instruction], None]


def _specials(launch: PtxLaunch, blocks: Ints) -> Iterator[tuple[str, Array]]:
    """Special registers of all threads of some blocks."""
    thread, block = np.tile(np.arange(launch.threads), len(blocks)), np.repeat(blocks, launch.threads)
    yield "%laneid", thread % 32
    for name, sizes, number in (("%tid", launch.block, thread), ("%ctaid", launch.grid, block)):
        for axis, at in _DIMENSIONS.items():
            yield f"{name}.{axis}", number % sizes[at]
            yield f"%n{name[1:]}.{axis}", np.array([sizes[at]])
            number = number // sizes[at]


class Machine(Registers):
    """Some blocks of a launch, from their start to their end.

    ``blocks``: their numbers in the grid, x fastest; ``variables``: in shared memory, where each begins and
    ends; ``passed``: names and types of floats by their offset in the parameters; ``steps``: what each
    instruction does, or why that is not modelled; ``order``: of threads, if it is checked.
    """

    def __init__(
        self,
        module: Module,
        launch: PtxLaunch,
        blocks: Ints,
        floats: Floats,
        memory: GlobalMemory,
        shared: BlockMemory,
        variables: Mapping[str, tuple[int, int]],
        passed: Mapping[int, tuple[str, str]],
        steps: Sequence[Step | str],
        order: Order | None,
        work: Work,
    ) -> None:
        special = dict(_specials(launch, blocks))
        super().__init__(module, launch, floats, memory, variables, special, len(blocks) * launch.threads)
        self.module, self.shared, self.passed = module, shared, passed
        self.threads = launch.threads
        self.block = np.repeat(np.arange(len(blocks)), self.threads)  # of those that run together
        self.numbers = np.repeat(blocks, self.threads) * self.threads + np.tile(
            np.arange(self.threads), len(blocks)
        )
        self._blocks = blocks
        self._order, self._work = order, work
        self.copies = Copies(self.count)
        self._at = np.zeros(self.count, dtype=np.int64)
        self._waits = np.zeros(self.count, dtype=np.bool_)
        self._end = len(module.code)
        self._steps = steps

    # --- threads --------------------------------------------------------------------------------------------

    @property
    def alive(self) -> Bools:
        """The threads that have not ended."""
        return self._at < self._end

    def run(self) -> None:
        while True:
            ready = ~self._waits & (self._at < self._end)
            if not ready.any():
                if not self._waits.any():
                    return
                self._meet()
                continue
            at = int(self._at[ready].min())
            here = ready & (self._at == at)
            self.active = self.every if here.all() else here
            self._go(at)

    def _go(self, at: int) -> None:
        """From an instruction up to where others may be met."""
        code, starts = self.module.code, self.module.starts
        start = at
        while at < self._end:
            one = code[at]
            if at != start and at in starts and not self.all_active:
                self._at[self.active] = at
                return
            if is_meeting(one):
                self._at[self.active] = at
                self._waits[self.active] = True
                if not (self.all_active and self._met(at)):
                    return
                at += 1
                continue
            if one.parts[0] in ("bra", "ret", "exit"):
                after = self._branch(one, at)
                if after is None:
                    return
                at = after
                continue
            self.step(one, at)
            at += 1
        self._at[self.active] = self._end

    def step(self, one: Instruction, at: int) -> None:
        self._work.spend(self.count)
        found = self._steps[at]
        active = self.active
        try:
            if one.guard is not None:
                guard = self.guard(one)
                if not guard.any():
                    return
                if not guard.all():
                    self.active = active & guard
                    if not self.active.any():
                        return
            if isinstance(found, str):
                raise NotModelled(found)
            found(self, one)
        except HoldsFloats:
            raise
        except NotModelled as reason:
            raise NotModelled(f"{one.name}: {reason}") from None
        finally:
            self.active = active

    def guard(self, one: Instruction) -> Bools:
        """Where an instruction runs."""
        assert one.guard is not None
        name, negated = one.guard
        value = as_predicate(self.read(Register(name)))
        if value.degree != Degree():
            raise NotModelled("whether it runs depends on floats")
        return ~value.data if negated else value.data

    def _branch(self, one: Instruction, at: int) -> int | None:
        """Where all active threads are now; None if they part or end."""
        taken: Bools = self.every
        self._work.spend(self.count)
        if one.guard is not None:
            try:
                taken = np.broadcast_to(self.guard(one), (self.count,))
            except NotModelled as reason:
                raise NotModelled(f"{one.name}: {reason}") from None
        target = self._end
        if one.parts[0] == "bra":
            [label] = one.operands
            if not isinstance(label, Symbol) or label.name not in self.module.labels:
                raise NotModelled(f"{one.name}: the label is not there")
            target = self.module.labels[label.name]
        mine = taken if self.all_active else taken & self.active
        if mine.sum() in (0, self.active.sum()):
            after = target if mine.any() else at + 1
            if self.all_active and after < self._end:
                return after
            self._at[self.active] = after
            return None
        self._at[self.active] = at + 1
        self._at[mine] = target
        return None

    # --- meeting --------------------------------------------------------------------------------------------

    def _meet(self) -> None:
        """Let go on who has met all others that it waits for."""
        done = False
        for at in np.unique(self._at[self._waits]):
            done = self._met(int(at)) or done
        if not done:
            one = self.module.code[int(self._at[self._waits][0])]
            raise NotModelled(f"{one.name}: not all threads come there that it waits for")

    def _met(self, at: int) -> bool:
        one = self.module.code[at]
        if one.guard is not None:
            raise NotModelled(f"{one.name}: with a predicate")
        there = self._waits & (self._at == at)
        group = self._group(one)
        size = self.threads if group is None else 32
        lanes = self.padded(there, size)
        wanted = self.padded(np.ones(self.count, np.bool_), size)
        if group is not None:
            wanted = wanted & self._members(group, there)
            wanted &= self.padded(self.alive, size)  # those that ended are not waited for
        complete: Bools = np.asarray((lanes | ~wanted).all(axis=1) & lanes.any(axis=1))
        if group is not None and np.any(lanes[complete] & ~self._members(group, there)[complete]):
            raise NotModelled(f"{one.name}: a thread that is not in its own mask")
        if not complete.any():
            return False
        free = there & self.unpadded(np.repeat(complete[:, None], lanes.shape[1], axis=1), size)
        self.active = self.every if free.all() else free
        self._work.spend(self.count)
        found = self._steps[at]
        try:
            if isinstance(found, str):
                raise NotModelled(found)
            found(self, one)
        except HoldsFloats:
            raise
        except NotModelled as reason:
            raise NotModelled(f"{one.name}: {reason}") from None
        self._ordered(one, free, group)
        self._waits[free] = False
        self._at[free] = at + 1
        return True

    def _group(self, one: Instruction) -> Operand | None:
        """The mask of those of a warp that meet; None: the block."""
        if one.parts[0] in ("bar", "barrier") and "warp" not in one.parts:
            return None
        return Integer(0xFFFFFFFF) if one.parts[0] in OF_WHOLE_WARPS else one.operands[-1]

    def _members(self, mask: Operand, there: Bools) -> Bools:
        value = self.settled(mask, there)
        bits = np.broadcast_to(value.data & np.uint64(0xFFFFFFFF), (self.count,))
        padded = self.padded(np.where(there, bits, np.uint64(0)), 32)
        whole = padded.max(axis=1)
        if ((padded != whole[:, None]) & self.padded(there, 32)).any():
            raise NotModelled("threads of one warp with several masks")
        found: Bools = (whole[:, None] >> np.arange(32, dtype=np.uint64) & np.uint64(1)) == 1
        return found

    def padded(self, array: Array, size: int) -> Array:
        """By groups of threads of a block, the last of which may be short."""
        groups = -(-self.threads // size)
        found = np.zeros((len(self._blocks), groups * size), dtype=array.dtype)
        found[:, : self.threads] = array.reshape(len(self._blocks), self.threads)
        return found.reshape(-1, size)

    def unpadded(self, array: Array, size: int) -> Array:
        groups = -(-self.threads // size)
        return array.reshape(len(self._blocks), groups * size)[:, : self.threads].reshape(-1)

    def _ordered(self, one: Instruction, free: Bools, group: Operand | None) -> None:
        if self._order is None or one.parts[0] not in ("bar", "barrier"):
            return  # a shuffle orders no memory
        if group is None:
            self._order.of_blocks[self._blocks[np.unique(self.block[free])]] += 1
            return
        whole = (self.padded(free, 32) | ~self.padded(np.ones(self.count, np.bool_), 32)).all(axis=1)
        warps = np.unique(self._order.warp_of(self.numbers))
        self._order.of_warps[warps[whole]] += 1
