"""Persistent kernels, split-K with atomics, semaphores and workspaces, stream-K, grouped problems."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, izeros, rand, zeros


def product(m=32, n=48, k=32):
    return {
        "a_ptr": half(m, k), "b_ptr": half(k, n), "c_ptr": zeros(m, n), "m": m, "n": n, "k": k, "BM": 16,
        "BN": 16, "BK": 16,
    }  # fmt: skip


@triton.jit
def tile_product(
    a_ptr, b_ptr, rm, rn, n, k, first, last, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(first, last, BK):
        rk = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * k + rk[None, :])
        b = tl.load(b_ptr + rk[:, None] * n + rn[None, :])
        acc += tl.dot(a, b)
    return acc


@case((4,), **product())
@triton.jit
def matmul_persistent(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(n, BN)
    tiles = tl.cdiv(m, BM) * tiles_n
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rm = tile // tiles_n * BM + tl.arange(0, BM)
        rn = tile % tiles_n * BN + tl.arange(0, BN)
        acc = tile_product(a_ptr, b_ptr, rm, rn, n, k, 0, k, BM, BN, BK)
        tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc)


@case((4,), **product())
@triton.jit
def matmul_persistent_ignores_the_stride(
    a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tiles_n = tl.cdiv(n, BN)
    tiles = tl.cdiv(m, BM) * tiles_n
    pid = tl.program_id(0)
    for tile in range(pid, tiles, 3):
        rm = tile // tiles_n * BM + tl.arange(0, BM)
        rn = tile % tiles_n * BN + tl.arange(0, BN)
        acc = tile_product(a_ptr, b_ptr, rm, rn, n, k, 0, k, BM, BN, BK)
        tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc + pid)  # BUG: race argument=c_ptr


@case((4,), **product())
@triton.jit
def matmul_persistent_rows_and_columns_swapped(
    a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tiles_m = tl.cdiv(m, BM)
    tiles_n = tl.cdiv(n, BN)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        rm = tile // tiles_m * BM + tl.arange(0, BM)
        rn = tile % tiles_m * BN + tl.arange(0, BN)
        # Three rows of tiles where there are two.
        a = tl.load(a_ptr + rm[:, None] * k + tl.arange(0, BK)[None, :])  # BUG: oob argument=a_ptr
        b = tl.load(b_ptr + tl.arange(0, BK)[:, None] * n + rn[None, :])
        tl.store(c_ptr + rm[:, None] * n + rn[None, :], tl.dot(a, b))  # BUG: oob argument=c_ptr


@case((2, 3, 2), **product(), SPLIT=2)
@triton.jit
def split_k_atomic(
    a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    part = k // SPLIT
    first = tl.program_id(2) * part
    acc = tile_product(a_ptr, b_ptr, rm, rn, n, k, first, first + part, BM, BN, BK)
    tl.atomic_add(c_ptr + rm[:, None] * n + rn[None, :], acc, sem="relaxed")


@case((2, 3, 2), **product(), SPLIT=2)
@triton.jit
def split_k_plain_stores(
    a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    part = k // SPLIT
    first = tl.program_id(2) * part
    acc = tile_product(a_ptr, b_ptr, rm, rn, n, k, first, first + part, BM, BN, BK)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc)  # BUG: race argument=c_ptr


@case(
    (2, 3, 3), heavy=True, a_ptr=half(32, 40), b_ptr=half(40, 48), c_ptr=zeros(32, 48), n=48, k=40, BM=16,
    BN=16, BK=16,
)  # fmt: skip
@triton.jit
def split_k_tail_of_the_last_part(
    a_ptr, b_ptr, c_ptr, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.program_id(2) * BK + tl.arange(0, BK)
    a = tl.load(a_ptr + rm[:, None] * k + rk[None, :], mask=rk[None, :] < k, other=0)
    b = tl.load(b_ptr + rk[:, None] * n + rn[None, :])  # BUG: oob argument=b_ptr
    tl.atomic_add(c_ptr + rm[:, None] * n + rn[None, :], tl.dot(a, b))


@case((6, 2), **product(), locks_ptr=izeros(6))
@triton.jit
def split_k_with_a_semaphore(
    a_ptr, b_ptr, c_ptr, m, n, k, locks_ptr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tile = tl.program_id(0)
    split = tl.program_id(1)
    rm = tile // (n // BN) * BM + tl.arange(0, BM)
    rn = tile % (n // BN) * BN + tl.arange(0, BN)
    acc = tile_product(a_ptr, b_ptr, rm, rn, n, k, split * BK, split * BK + BK, BM, BN, BK)
    c_ptrs = c_ptr + rm[:, None] * n + rn[None, :]
    # The parts of one tile take turns.
    while tl.atomic_cas(locks_ptr + tile, split, split) != split:
        pass
    if split > 0:
        acc += tl.load(c_ptrs)
    tl.store(c_ptrs, acc)
    tl.debug_barrier()
    tl.atomic_xchg(locks_ptr + tile, (split + 1) % tl.num_programs(1))


@case((6, 2), heavy=True, **product(), locks_ptr=izeros(6))
@triton.jit
def split_k_semaphore_not_awaited(
    a_ptr, b_ptr, c_ptr, m, n, k, locks_ptr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tile = tl.program_id(0)
    split = tl.program_id(1)
    rm = tile // (n // BN) * BM + tl.arange(0, BM)
    rn = tile % (n // BN) * BN + tl.arange(0, BN)
    acc = tile_product(a_ptr, b_ptr, rm, rn, n, k, split * BK, split * BK + BK, BM, BN, BK)
    c_ptrs = c_ptr + rm[:, None] * n + rn[None, :]
    if split > 0:
        acc += tl.load(c_ptrs)  # BUG: race argument=c_ptr
    tl.store(c_ptrs, acc)  # BUG: race argument=c_ptr
    tl.debug_barrier()
    tl.atomic_xchg(locks_ptr + tile, (split + 1) % tl.num_programs(1))


@case((6, 2), **product(), work_ptr=zeros(2, 32, 48))
@triton.jit
def split_k_workspace(
    a_ptr, b_ptr, c_ptr, m, n, k, work_ptr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tile = tl.program_id(0)
    split = tl.program_id(1)
    rm = tile // (n // BN) * BM + tl.arange(0, BM)
    rn = tile % (n // BN) * BN + tl.arange(0, BN)
    acc = tile_product(a_ptr, b_ptr, rm, rn, n, k, split * BK, split * BK + BK, BM, BN, BK)
    tl.store(work_ptr + split * m * n + rm[:, None] * n + rn[None, :], acc)


@case((6, 2), **product(), work_ptr=zeros(2, 32, 32))
@triton.jit
def split_k_workspace_for_square_tiles(
    a_ptr, b_ptr, c_ptr, m, n, k, work_ptr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tile = tl.program_id(0)
    split = tl.program_id(1)
    rm = tile // (n // BN) * BM + tl.arange(0, BM)
    rn = tile % (n // BN) * BN + tl.arange(0, BN)
    acc = tile_product(a_ptr, b_ptr, rm, rn, n, k, split * BK, split * BK + BK, BM, BN, BK)
    at = work_ptr + split * m * m + rm[:, None] * n + rn[None, :]
    tl.store(at, acc + split + tile)  # BUG: oob argument=work_ptr; race argument=work_ptr


@case((3,), work_ptr=rand(2, 32, 48), c_ptr=zeros(32, 48), size=1536, splits=2, BLOCK=512)
@triton.jit
def split_k_sum_of_the_workspace(work_ptr, c_ptr, size, splits, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for split in range(splits):
        acc += tl.load(work_ptr + split * size + offs, mask=offs < size, other=0.0)
    tl.store(c_ptr + offs, acc, mask=offs < size)


@case((3,), work_ptr=rand(2, 32, 48), c_ptr=zeros(32, 48), size=1536, splits=3, BLOCK=512)
@triton.jit
def split_k_sum_of_too_many_parts(work_ptr, c_ptr, size, splits, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for split in range(splits):
        # BUG: oob argument=work_ptr
        acc += tl.load(work_ptr + split * size + offs, mask=offs < size, other=0.0)
    tl.store(c_ptr + offs, acc, mask=offs < size)


@case((5,), **product(), per_program=3)
@triton.jit
def stream_k_atomic(
    a_ptr, b_ptr, c_ptr, m, n, k, per_program, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    per_tile = tl.cdiv(k, BK)
    tiles_n = tl.cdiv(n, BN)
    total = tl.cdiv(m, BM) * tiles_n * per_tile
    step = tl.program_id(0) * per_program
    last = tl.minimum(step + per_program, total)
    while step < last:
        tile = step // per_tile
        until = tl.minimum((tile + 1) * per_tile, last)
        rm = tile // tiles_n * BM + tl.arange(0, BM)
        rn = tile % tiles_n * BN + tl.arange(0, BN)
        first = (step - tile * per_tile) * BK
        acc = tile_product(a_ptr, b_ptr, rm, rn, n, k, first, first + (until - step) * BK, BM, BN, BK)
        tl.atomic_add(c_ptr + rm[:, None] * n + rn[None, :], acc)
        step = until


@case((5,), heavy=True, **product(), per_program=3)
@triton.jit
def stream_k_end_not_clamped(
    a_ptr, b_ptr, c_ptr, m, n, k, per_program, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    per_tile = tl.cdiv(k, BK)
    tiles_n = tl.cdiv(n, BN)
    step = tl.program_id(0) * per_program
    last = step + per_program
    while step < last:
        tile = step // per_tile
        rm = tile // tiles_n * BM + tl.arange(0, BM)
        rn = tile % tiles_n * BN + tl.arange(0, BN)
        rk = (step % per_tile) * BK + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * k + rk[None, :])  # BUG: oob argument=a_ptr
        b = tl.load(b_ptr + rk[:, None] * n + rn[None, :])
        tl.atomic_add(c_ptr + rm[:, None] * n + rn[None, :], tl.dot(a, b))  # BUG: oob argument=c_ptr
        step += 1


@case((3,), queue_ptr=izeros(1), x_ptr=rand(8, 16), out_ptr=zeros(8, 16), tasks=8, BLOCK=16)
@triton.jit
def work_queue(queue_ptr, x_ptr, out_ptr, tasks, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    task = tl.atomic_add(queue_ptr, 1)
    while task < tasks:
        tl.store(out_ptr + task * BLOCK + cols, tl.load(x_ptr + task * BLOCK + cols) * 2)
        task = tl.atomic_add(queue_ptr, 1)


@case((3,), queue_ptr=izeros(1), x_ptr=rand(8, 16), out_ptr=zeros(8, 16), tasks=8, BLOCK=16)
@triton.jit
def work_queue_one_task_too_many(queue_ptr, x_ptr, out_ptr, tasks, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    task = tl.atomic_add(queue_ptr, 1)
    while task <= tasks:
        x = tl.load(x_ptr + task * BLOCK + cols)  # BUG: oob argument=x_ptr
        tl.store(out_ptr + task * BLOCK + cols, x * 2)  # BUG: oob argument=out_ptr
        task = tl.atomic_add(queue_ptr, 1)


@case(
    (2,), sizes_ptr=ints([16, 40, 8]), starts_ptr=ints([0, 16, 56]), x_ptr=rand(64), out_ptr=zeros(64),
    BLOCK=16,
)  # fmt: skip
@triton.jit
def grouped_problems(sizes_ptr, starts_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    tile = tl.program_id(0)
    before = 0
    for problem in range(3):
        size = tl.load(sizes_ptr + problem)
        start = tl.load(starts_ptr + problem)
        tiles = tl.cdiv(size, BLOCK)
        while tile >= before and tile < before + tiles:
            offs = (tile - before) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + start + offs, mask=offs < size)
            tl.store(out_ptr + start + offs, x * 2, mask=offs < size)
            tile += tl.num_programs(0)
        before += tiles


@case(
    (2,), sizes_ptr=ints([16, 40, 8]), starts_ptr=ints([0, 16, 56]), x_ptr=rand(64), out_ptr=zeros(64),
    BLOCK=16,
)  # fmt: skip
@triton.jit
def grouped_problems_tile_not_relative(sizes_ptr, starts_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    tile = tl.program_id(0)
    before = 0
    for problem in range(3):
        size = tl.load(sizes_ptr + problem)
        start = tl.load(starts_ptr + problem)
        tiles = tl.cdiv(size, BLOCK)
        while tile >= before and tile < before + tiles:
            offs = tile * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + start + offs)  # BUG: oob argument=x_ptr
            tl.store(out_ptr + start + offs, x * 2, mask=offs < size)
            tile += tl.num_programs(0)
        before += tiles
