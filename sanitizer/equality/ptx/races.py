"""Whether threads that access the same memory are ordered, by barriers of their block or their warp."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, NotModelled
from kerncap.sanitizer.paged_bytes import zeros

_NOBODY, _MANY = 0, -1


class Order:
    """How often each block, and each warp, met at a barrier. Threads and warps are numbered over the grid.

    ``threads``: of a block.
    """

    def __init__(self, blocks: int, threads: int) -> None:
        self.threads = threads
        self.warps = -(-threads // 32)  # of a block
        self.of_blocks = np.zeros(blocks, dtype=np.int32)
        self.of_warps = np.zeros(blocks * self.warps, dtype=np.int32)

    def block_of(self, thread: Ints) -> Ints:
        return thread // self.threads

    def warp_of(self, thread: Ints) -> Ints:
        return thread // self.threads * self.warps + thread % self.threads // 32


class _Accesses:
    """Of each cell the last thread that accessed it, and when. Several are the warp's, or the block's.

    Arrays hold numbers plus one: zero is nobody.
    """

    def __init__(self, cells: int, order: Order) -> None:
        self._order = order
        self._thread, self._warp, self._block, self._of_block, self._of_warp = (
            zeros(4 * cells).view(np.int32) for _ in range(5)
        )

    def unordered(self, cells: Ints, threads: Ints) -> Bools:
        """Where another thread's access is not before these."""
        order = self._order
        thread, warp, block = self._thread[cells], self._warp[cells], self._block[cells]
        mine, my_warp = order.block_of(threads) + 1, order.warp_of(threads) + 1
        after_block = (block == mine) & (self._of_block[cells] < order.of_blocks[mine - 1])
        after_warp = (warp == my_warp) & (self._of_warp[cells] < order.of_warps[my_warp - 1])
        found: Bools = (thread != _NOBODY) & (thread != threads + 1) & ~after_block & ~after_warp
        return found

    def met(self, cells: Ints) -> Bools:
        """Where there was any."""
        return np.asarray(self._thread[cells] != _NOBODY)

    def put(self, cells: Ints, threads: Ints) -> None:
        """These access them now, and are the last."""
        order = self._order
        block, warp = order.block_of(threads), order.warp_of(threads)
        alone = self._thread[cells] == _NOBODY
        after_block = (self._block[cells] == block + 1) & (self._of_block[cells] < order.of_blocks[block])
        after_warp = (self._warp[cells] == warp + 1) & (self._of_warp[cells] < order.of_warps[warp])
        fresh = alone | after_block | after_warp
        for array, number in ((self._thread, threads + 1), (self._warp, warp + 1), (self._block, block + 1)):
            also = ~fresh & (array[cells] != number)
            array[cells] = number
            # Of threads of one instruction the last is there now.
            array[cells[also | (array[cells] != number)]] = _MANY
        self._of_block[cells] = order.of_blocks[block]
        self._of_warp[cells] = order.of_warps[warp]


class Races:
    """Accesses to one range of cells. Raises NotModelled for two that no barrier orders."""

    def __init__(self, what: str, cells: int, order: Order) -> None:
        self._what = what
        self._reads, self._writes, self._atomics = (_Accesses(cells, order) for _ in range(3))

    def read(self, cells: Ints, threads: Ints, *, constant: bool = False) -> None:
        """``constant``: by a cache that does not see what the kernel stores."""
        self._check(cells, threads, self._writes, self._atomics)
        if constant and (self._writes.met(cells) | self._atomics.met(cells)).any():
            raise NotModelled(f"a load of what does not change from {self._what}, which was stored to")
        self._reads.put(cells, threads)

    def write(self, cells: Ints, threads: Ints) -> None:
        self._check(cells, threads, self._reads, self._writes, self._atomics)
        if len(np.unique(cells)) < len(cells):
            raise NotModelled(f"threads that store to one place in {self._what} with no barrier between them")
        self._writes.put(cells, threads)

    def add(self, cells: Ints, threads: Ints) -> None:
        """Atomically."""
        self._check(cells, threads, self._reads, self._writes)
        self._atomics.put(cells, threads)

    def _check(self, cells: Ints, threads: Ints, *others: _Accesses) -> None:
        if any(one.unordered(cells, threads).any() for one in others):
            raise NotModelled(f"threads that access {self._what} with no barrier between them")


def cells_of(offsets: Array, width: int, cell: int) -> list[Ints]:
    """The cells of accesses of ``width`` bytes at byte offsets."""
    first = offsets.astype(np.int64) // cell
    return [first + at for at in range(max(1, width // cell))]
