"""Less common parts of the language: calls, inline assembly, libraries, random numbers, custom reductions."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, izeros, rand, zeros


@triton.jit(noinline=True)
def row_sum(ptr, row, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    return tl.sum(tl.load(ptr + row * n + cols, mask=cols < n, other=0.0), 0)


@triton.jit(noinline=True)
def row_sum_unmasked(ptr, row, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    return tl.sum(tl.load(ptr + row * n + cols), 0)  # BUG: oob argument=x_ptr


@case((4,), x_ptr=rand(4, 20), out_ptr=zeros(4), n=20, BLOCK=32)
@triton.jit
def function_not_inlined(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, row_sum(x_ptr, row, n, BLOCK))


@case((4,), also=(row_sum_unmasked,), x_ptr=rand(4, 20), out_ptr=zeros(4), n=20, BLOCK=32)
@triton.jit
def function_not_inlined_unmasked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, row_sum_unmasked(x_ptr, row, n, BLOCK))


@case((3,), oracle=False, x_ptr=rand(40), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def inline_assembly_on_values(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.inline_asm_elementwise(
        "rcp.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out_ptr + offs, y, mask=offs < n)


@case((3,), oracle=False, x_ptr=rand(40), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def inline_assembly_beside_a_missing_mask(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1.0)
    y = tl.inline_asm_elementwise(
        "rcp.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out_ptr + offs, y)  # BUG: oob argument=out_ptr


@case((3,), oracle=False, x_ptr=rand(40), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def library_call_on_values(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, libdevice.tanh(x), mask=offs < n)


@case((3,), x_ptr=rand(64), out_ptr=zeros(48), seed=3, BLOCK=16)
@triton.jit
def random_gather_in_range(x_ptr, out_ptr, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.randint(seed, offs) & 63
    tl.store(out_ptr + offs, tl.load(x_ptr + at))


@case((3,), x_ptr=rand(60), out_ptr=zeros(48), seed=3, BLOCK=16)
@triton.jit
def random_gather_a_bit_too_wide(x_ptr, out_ptr, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.randint(seed, offs) & 63
    x = tl.load(x_ptr + at)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, x)


@triton.jit
def larger_with_index(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@case((2,), x_ptr=rand(2, 16), table_ptr=rand(16), out_ptr=zeros(2), BLOCK=16)
@triton.jit
def custom_argmax_in_an_address(x_ptr, table_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    _, at = tl.reduce((tl.load(x_ptr + row * BLOCK + lane), lane), 0, larger_with_index)
    tl.store(out_ptr + row, tl.load(table_ptr + at))


@case((2,), x_ptr=torch.arange(32.0), table_ptr=rand(15), out_ptr=zeros(2), BLOCK=16)
@triton.jit
def custom_argmax_past_a_table(x_ptr, table_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    _, at = tl.reduce((tl.load(x_ptr + row * BLOCK + lane), lane), 0, larger_with_index)
    x = tl.load(table_ptr + at)  # BUG: oob argument=table_ptr
    tl.store(out_ptr + row, x)


@case((3,), x_ptr=rand(40), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def assertions_and_prints(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 16 == 0)
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, cache_modifier=".ca", eviction_policy="evict_first")
    tl.device_assert(offs >= 0, "an offset is negative")
    tl.store(out_ptr + offs, x, mask=offs < n, cache_modifier=".cs")


@case((2,), x_ptr=rand(2, 40), out_ptr=zeros(2), n=40, BLOCK=16)
@triton.jit
def pipelined_range(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=3, loop_unroll_factor=2):
        cols = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(acc, 0))


@case((2,), x_ptr=rand(2, 40), out_ptr=zeros(2), n=40, BLOCK=16)
@triton.jit
def flattened_range_tail_unmasked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, n, BLOCK, flatten=True):
        cols = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * n + cols)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + row, tl.sum(acc, 0))


@case((2,), x_ptr=torch.tensor([True, False] * 16), out_ptr=zeros(32, dtype=torch.bool), BLOCK=16)
@triton.jit
def booleans_in_memory(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, ~x)


@case((2,), mask_ptr=torch.tensor([True] * 20 + [False] * 12), x_ptr=rand(20), out_ptr=zeros(32), BLOCK=16)
@triton.jit
def boolean_mask_from_memory(mask_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = tl.load(mask_ptr + offs)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask, other=0.0))


@case((2,), mask_ptr=torch.tensor([True] * 21 + [False] * 11), x_ptr=rand(20), out_ptr=zeros(32), BLOCK=16)
@triton.jit
def boolean_mask_a_lane_too_long(mask_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = tl.load(mask_ptr + offs)
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, x)


@case((2,), x_ptr=rand(32, dtype=torch.bfloat16), out_ptr=zeros(16, dtype=torch.bfloat16), BLOCK=16)
@triton.jit
def bfloat16_atomics(x_ptr, out_ptr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + cols)
    tl.atomic_add(out_ptr + cols, x)


@case((2, 2), x_ptr=rand(16, 16), out_ptr=zeros(16, 16), B=8)
@triton.jit
def permuted_tiles(x_ptr, out_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    x = tl.permute(tl.load(x_ptr + i[:, None] * 16 + j[None, :]), 1, 0)
    tl.store(out_ptr + j[:, None] * 16 + i[None, :], x)


@case((2, 2), x_ptr=rand(16, 16), out_ptr=zeros(16, 16), B=8)
@triton.jit
def permuted_tiles_not_exchanged(x_ptr, out_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.permute(tl.load(x_ptr + i[:, None] * 16 + tl.arange(0, B)[None, :]), 1, 0)
    # The second program id never enters.
    x += tl.program_id(1) * 5 + 1
    tl.store(out_ptr + i[:, None] * 16 + tl.arange(0, B)[None, :], x)  # BUG: race argument=out_ptr


@case(
    (2,), x_desc=TensorDescriptor(rand(12, 32), [12, 32], [32, 1], [1, 32]),
    index_ptr=ints([0, 11, 3, 5] * 4), out_ptr=zeros(32, 32), oracle=False, BM=8,
)  # fmt: skip
@triton.jit
def descriptor_gather(x_desc, index_ptr, out_ptr, BM: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    x = x_desc.gather(tl.load(index_ptr + rows), 0)
    tl.store(out_ptr + rows[:, None] * 32 + tl.arange(0, 32)[None, :], x)


@case(
    (2,), x_desc=TensorDescriptor(rand(12, 32), [16, 32], [32, 1], [1, 32]),
    index_ptr=ints([0, 11, 3, 15] * 4), out_ptr=zeros(32, 32), oracle=False, BM=8,
)  # fmt: skip
@triton.jit
def descriptor_gather_of_a_row_that_is_not_there(x_desc, index_ptr, out_ptr, BM: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    x = x_desc.gather(tl.load(index_ptr + rows), 0)  # BUG: oob argument=x_desc
    tl.store(out_ptr + rows[:, None] * 32 + tl.arange(0, 32)[None, :], x)


@case(
    (3,), out_desc=TensorDescriptor(zeros(8, 16), [8, 16], [16, 1], [8, 16]), x_ptr=rand(24, 16),
    oracle=False, B=8,
)  # fmt: skip
@triton.jit
def descriptor_atomic_add(out_desc, x_ptr, B: tl.constexpr):
    at = (tl.program_id(0) * B + tl.arange(0, B))[:, None] * 16 + tl.arange(0, 16)[None, :]
    out_desc.atomic_add([0, 0], tl.load(x_ptr + at))


@case((3,), out_desc=TensorDescriptor(zeros(8, 16), [8, 16], [16, 1], [8, 16]), x_ptr=rand(24, 16), B=8)
@triton.jit
def descriptor_stores_of_all_programs(out_desc, x_ptr, B: tl.constexpr):
    at = (tl.program_id(0) * B + tl.arange(0, B))[:, None] * 16 + tl.arange(0, 16)[None, :]
    out_desc.store([0, 0], tl.load(x_ptr + at))  # BUG: race argument=out_desc


@case((2,), a_ptr=torch.zeros(16, 32, dtype=torch.uint8), b_ptr=half(64, 16), out_ptr=zeros(2, 16, 16))
@triton.jit
def three_way_select_of_pointers(a_ptr, b_ptr, out_ptr):
    pid = tl.program_id(0)
    lane = tl.arange(0, 16)
    low = tl.load(a_ptr + lane[:, None] * 32 + lane[None, :] + pid * 16).to(tl.float16)
    high = tl.load(b_ptr + (lane + 16 * pid)[:, None] * 16 + lane[None, :])
    tl.store(out_ptr + pid * 256 + lane[:, None] * 16 + lane[None, :], tl.dot(low, high))


@case((4,), count_ptr=izeros(1), out_ptr=izeros(8), n=8)
@triton.jit
def retry_until_a_slot_is_free(count_ptr, out_ptr, n):
    slot = tl.atomic_add(count_ptr, 2)
    tries = 0
    while (slot >= n) and (tries < 3):
        slot = tl.atomic_add(count_ptr, 2)
        tries += 1
    if slot < n:
        tl.store(out_ptr + slot, tries)


@case((5,), count_ptr=izeros(1), out_ptr=izeros(8), n=8)
@triton.jit
def retry_gives_up_and_stores(count_ptr, out_ptr, n):
    slot = tl.atomic_add(count_ptr, 2)
    tries = 0
    while (slot >= n) and (tries < 3):
        slot = tl.atomic_add(count_ptr, 2)
        tries += 1
    tl.store(out_ptr + slot, tries)  # BUG: oob argument=out_ptr


_ODD = torch.tensor([float("nan"), 1e-42, 2.0, -0.0] * 8)


@case((1,), x_ptr=_ODD, y_ptr=rand(32), out_ptr=zeros(32), BLOCK=32)
@triton.jit
def nan_is_masked_by_itself(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + k)
    number = x == x
    y = tl.load(y_ptr + tl.where(number, k, 100), mask=number, other=0.0)
    tl.store(out_ptr + k, y)


@case((1,), x_ptr=_ODD, y_ptr=rand(32), out_ptr=zeros(32), BLOCK=32)
@triton.jit
def nan_is_neither_below_nor_above(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + k)
    below, above = x < 3.0, x > 3.0
    # BUG: oob argument=y_ptr
    y = tl.load(y_ptr + tl.where(below, k, 100), mask=above == False, other=0.0)  # noqa: E712
    tl.store(out_ptr + k, y)


@case((1,), x_ptr=_ODD, y_ptr=rand(32), out_ptr=zeros(32), BLOCK=32)
@triton.jit
def denormals_are_not_zero(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + k)
    y = tl.load(y_ptr + tl.where((x > 0.0) & (x < 1.0), 40, k))  # BUG: oob argument=y_ptr
    tl.store(out_ptr + k, y)
