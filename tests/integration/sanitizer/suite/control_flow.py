"""Branches, early returns, loops of every kind, helper functions, tuples, static choices."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import ints, izeros, rand, zeros


@triton.jit
def load_row(ptr, row, stride, cols, n):
    return tl.load(ptr + row * stride + cols, mask=cols < n, other=0.0)


@triton.jit
def load_row_unmasked(ptr, row, stride, cols):
    return tl.load(ptr + row * stride + cols)  # BUG: oob argument=y_ptr


@case((4,), x_ptr=rand(4, 20), y_ptr=rand(4, 20), out_ptr=zeros(4, 20), n=20, BLOCK=32)
@triton.jit
def helper_called_for_two_tensors(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    total = load_row(x_ptr, row, n, cols, n) + load_row(y_ptr, row, n, cols, n)
    tl.store(out_ptr + row * n + cols, total, mask=cols < n)


@case(
    (4,), also=(load_row_unmasked,), x_ptr=rand(5, 20), y_ptr=rand(4, 20), out_ptr=zeros(4, 20), n=20,
    BLOCK=32,
)  # fmt: skip
@triton.jit
def helper_without_a_mask(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    total = load_row_unmasked(x_ptr, row, n, cols) + load_row_unmasked(y_ptr, row, n, cols)
    tl.store(out_ptr + row * n + cols, total, mask=cols < n)


@case((4,), x_ptr=rand(60), out_ptr=zeros(64), n=60, BLOCK=16)
@triton.jit
def full_blocks_take_the_unmasked_branch(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    if (pid + 1) * BLOCK <= n:
        tl.store(out_ptr + offs, tl.load(x_ptr + offs))
    else:
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n, other=0.0), mask=offs < n)


@case((4,), x_ptr=rand(60), out_ptr=zeros(64), n=60, BLOCK=16)
@triton.jit
def full_blocks_test_the_wrong_end(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    if pid * BLOCK <= n:
        tl.store(out_ptr + offs, tl.load(x_ptr + offs))  # BUG: oob argument=x_ptr
    else:
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n, other=0.0), mask=offs < n)


@case((6,), x_ptr=rand(64), out_ptr=zeros(64), n=64, BLOCK=16)
@triton.jit
def spare_programs_return(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid * BLOCK >= n:
        return
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@case((6,), x_ptr=rand(64), out_ptr=zeros(64), n=64, BLOCK=16)
@triton.jit
def spare_programs_return_one_late(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid * BLOCK > n:
        return
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, x)  # BUG: oob argument=out_ptr


@case((4,), x_ptr=rand(10), out_ptr=zeros(4))
@triton.jit
def triangular_loop(x_ptr, out_ptr):
    pid = tl.program_id(0)
    total = 0.0
    for i in range(pid + 1):
        for j in range(i, pid + 1):
            total += tl.load(x_ptr + i * (i + 1) // 2 + j - i)
    tl.store(out_ptr + pid, total)


@case((5,), x_ptr=rand(10), out_ptr=zeros(5))
@triton.jit
def triangle_packed_by_rows(x_ptr, out_ptr):
    pid = tl.program_id(0)
    total = 0.0
    for j in range(pid + 1):
        total += tl.load(x_ptr + pid * (pid + 1) // 2 + j)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid, total)


@case((2,), x_ptr=rand(2, 40), out_ptr=zeros(2, 40), n=40, BLOCK=8)
@triton.jit
def backwards_in_time(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = tl.zeros((BLOCK,), tl.float32)
    for start in range(n - BLOCK, -1, -BLOCK):
        offs = row * n + start + tl.arange(0, BLOCK)
        carry += tl.load(x_ptr + offs)
        tl.store(out_ptr + offs, carry)


@case((2,), x_ptr=rand(2, 40), out_ptr=zeros(2, 40), n=40, BLOCK=8)
@triton.jit
def backwards_one_block_below_zero(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = tl.zeros((BLOCK,), tl.float32)
    for start in range(n - BLOCK, -BLOCK - 1, -BLOCK):
        offs = row * n + start + tl.arange(0, BLOCK)
        carry += tl.load(x_ptr + offs)  # BUG: oob argument=x_ptr; race argument=x_ptr
        tl.store(x_ptr + offs, carry)  # BUG: oob argument=x_ptr; race argument=x_ptr


@case((3,), x_ptr=rand(100), out_ptr=zeros(3), n=100)
@triton.jit
def doubling_stride_while(x_ptr, out_ptr, n):
    pid = tl.program_id(0)
    at = pid + 1
    total = 0.0
    while at < n:
        total += tl.load(x_ptr + at)
        at *= 2
    tl.store(out_ptr + pid, total)


@case((3,), x_ptr=rand(100), out_ptr=zeros(3), n=100)
@triton.jit
def doubling_stride_checked_before_the_step(x_ptr, out_ptr, n):
    pid = tl.program_id(0)
    at = pid + 1
    total = 0.0
    while at < n:
        at *= 2
        total += tl.load(x_ptr + at)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid, total)


@case((4,), next_ptr=ints([2, -1, 3, 1]), head_ptr=ints([0, 1, 2, 3]), out_ptr=izeros(4))
@triton.jit
def linked_list_length(next_ptr, head_ptr, out_ptr):
    pid = tl.program_id(0)
    at = tl.load(head_ptr + pid)
    length = 0
    while at >= 0:
        at = tl.load(next_ptr + at)
        length += 1
    tl.store(out_ptr + pid, length)


@case((4,), next_ptr=ints([2, -1, 5, 1]), head_ptr=ints([3, 1, 1, 2]), out_ptr=izeros(4))
@triton.jit
def linked_list_with_a_dangling_end(next_ptr, head_ptr, out_ptr):
    pid = tl.program_id(0)
    at = tl.load(head_ptr + pid)
    length = 0
    while at >= 0 and length < 4:
        at = tl.load(next_ptr + at)  # BUG: oob argument=next_ptr
        length += 1
    tl.store(out_ptr + pid, length)


@case((3,), x_ptr=rand(48), out_ptr=zeros(48), bias_ptr=None, n=48, BLOCK=16, USE_BIAS=False)
@triton.jit
def absent_bias(x_ptr, out_ptr, bias_ptr, n, BLOCK: tl.constexpr, USE_BIAS: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    if USE_BIAS:
        x += tl.load(bias_ptr + offs)
    tl.store(out_ptr + offs, x, mask=offs < n)


@case((3,), x_ptr=rand(3, 20), out_ptr=zeros(3, 20), shape=(3, 20), strides=(20, 1), BLOCK=32)
@triton.jit
def shape_and_strides_as_tuples(x_ptr, out_ptr, shape, strides, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    at = row * strides[0] + cols * strides[1]
    mask = (row < shape[0]) & (cols < shape[1])
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


@case((3,), x_ptr=rand(3, 20), out_ptr=zeros(3, 20), shape=(3, 20), strides=(20, 1), BLOCK=32)
@triton.jit
def tuple_entries_swapped(x_ptr, out_ptr, shape, strides, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < shape[1]
    x = tl.load(x_ptr + row * strides[1] + cols * strides[0], mask=mask, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + row * strides[0] + cols, x, mask=mask)


@case((2, 2, 2), x_ptr=rand(8, 4), out_ptr=zeros(8, 4), BLOCK=4)
@triton.jit
def three_dimensional_grid(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) + pid)


@case((2, 2, 2), x_ptr=rand(8, 4), out_ptr=zeros(8, 4), BLOCK=4)
@triton.jit
def third_grid_dimension_forgotten(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs) * (tl.program_id(2) + 1)
    tl.store(out_ptr + offs, x)  # BUG: race argument=out_ptr


@case((4,), x_ptr=rand(16), out_ptr=zeros(16), BLOCK=4)
@triton.jit
def swizzled_programs(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i, j = tl.swizzle2d(tl.program_id(0) // 2, tl.program_id(0) % 2, 2, 2, 2)
    offs = (i * 2 + j) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))
