"""Indices that leave 32 bits, casts that change width, C's division and remainder, broken promises.

An access that is out of bounds only because an integer wrapped around is an overflow, said once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import ints, longs, rand, zeros

ROWS = (70_000, 40_000)  # 2.8·10⁹ elements


@case(
    (4,), huge={"x_ptr": ROWS}, x_ptr=rand(4), row_ptr=ints([0, 5, 53_000, 69_999]), out_ptr=zeros(4, 16),
    stride=40_000, BLOCK=16,
)  # fmt: skip
@triton.jit
def row_offset_in_64_bits(x_ptr, row_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    row = tl.load(row_ptr + pid).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    tl.store(out_ptr + pid * BLOCK + cols, tl.load(x_ptr + row * stride + cols))


@case(
    (4,), huge={"x_ptr": ROWS}, x_ptr=rand(4), row_ptr=ints([0, 5, 53_000, 69_999]), out_ptr=zeros(4, 16),
    stride=40_000, BLOCK=16,
)  # fmt: skip
@triton.jit
def row_offset_in_32_bits(x_ptr, row_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    row = tl.load(row_ptr + pid)
    cols = tl.arange(0, BLOCK)
    # BUG: overflow argument=x_ptr
    x = tl.load(x_ptr + row * stride + cols)
    tl.store(out_ptr + pid * BLOCK + cols, x)


@case(
    (4,), huge={"x_ptr": ROWS}, x_ptr=rand(4), row_ptr=ints([0, 5, 53_000, 69_999]), out_ptr=zeros(4, 16),
    stride=40_000, BLOCK=16,
)  # fmt: skip
@triton.jit
def row_offset_widened_too_late(x_ptr, row_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    row = tl.load(row_ptr + pid)
    cols = tl.arange(0, BLOCK)
    start = (row * stride).to(tl.int64)
    # BUG: overflow argument=x_ptr
    x = tl.load(x_ptr + start + cols)
    tl.store(out_ptr + pid * BLOCK + cols, x)


@case(
    (32, 2), huge={"x_ptr": (32, 2, 64_000_000)}, x_ptr=rand(4), out_ptr=zeros(64, 16),
    stride_b=128_000_000, stride_h=64_000_000, BLOCK=16,
)  # fmt: skip
@triton.jit
def batch_stride_wraps_around(x_ptr, out_ptr, stride_b, stride_h, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    head = tl.program_id(1)
    cols = tl.arange(0, BLOCK)
    # BUG: overflow argument=x_ptr
    x = tl.load(x_ptr + batch * stride_b + head * stride_h + cols)
    tl.store(out_ptr + (batch * 2 + head) * BLOCK + cols, x)


@case(
    (32, 2), huge={"x_ptr": (32, 2, 64_000_000)}, x_ptr=rand(4), out_ptr=zeros(64, 16),
    stride_b=128_000_000, stride_h=64_000_000, BLOCK=16,
)  # fmt: skip
@triton.jit
def batch_stride_by_two_pointer_steps(x_ptr, out_ptr, stride_b, stride_h, BLOCK: tl.constexpr):
    batch = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + batch * stride_b + head * stride_h + cols)
    tl.store(out_ptr + (batch * 2 + head) * BLOCK + cols, x)


@case(
    (4,), x_ptr=rand(64), row_ptr=ints([0, 4096, 8192, 12288]), out_ptr=zeros(4, 16), stride=1 << 20, BLOCK=16
)
@triton.jit
def wraps_around_to_a_valid_offset(x_ptr, row_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    row = tl.load(row_ptr + pid)
    # 4096·2²⁰ is zero in 32 bits: in bounds, and the wrong element.
    x = tl.load(x_ptr + row * stride + cols)  # BUG: overflow argument=x_ptr
    tl.store(out_ptr + pid * BLOCK + cols, x)


@case((3,), x_ptr=rand(40), out_ptr=zeros(40), n=40, stride=1 << 30, BLOCK=16)
@triton.jit
def wrapped_offsets_are_masked(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    far = offs * stride
    x = tl.load(x_ptr + far, mask=offs < 1, other=0.0)
    tl.store(out_ptr + offs, x, mask=offs < n)


@case((4,), x_ptr=rand(300), index_ptr=ints([0, 100, 200, 127]), out_ptr=zeros(4))
@triton.jit
def index_truncated_to_eight_bits(x_ptr, index_ptr, out_ptr):
    pid = tl.program_id(0)
    index = tl.load(index_ptr + pid).to(tl.int8)
    x = tl.load(x_ptr + index)  # BUG: overflow argument=x_ptr
    tl.store(out_ptr + pid, x)


@case((4,), x_ptr=rand(300), index_ptr=ints([0, 100, 200, 255], torch.uint8), out_ptr=zeros(4))
@triton.jit
def index_from_unsigned_bytes(x_ptr, index_ptr, out_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, tl.load(x_ptr + tl.load(index_ptr + pid)))


@case((4,), x_ptr=rand(300), index_ptr=longs([0, 100, (1 << 32) + 299, 7]), out_ptr=zeros(4))
@triton.jit
def wide_index_used_whole(x_ptr, index_ptr, out_ptr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + tl.load(index_ptr + pid))  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid, x)


@case((4,), x_ptr=rand(300), index_ptr=longs([0, 100, (1 << 32) + 299, 7]), out_ptr=zeros(4))
@triton.jit
def wide_index_cut_to_32_bits(x_ptr, index_ptr, out_ptr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + tl.load(index_ptr + pid).to(tl.int32))  # BUG: overflow argument=x_ptr
    tl.store(out_ptr + pid, x)


@case((4,), x_ptr=rand(300), index_ptr=longs([0, 100, -1, 7]), out_ptr=zeros(4))
@triton.jit
def wide_index_cut_where_it_fits(x_ptr, index_ptr, out_ptr):
    pid = tl.program_id(0)
    index = tl.load(index_ptr + pid).to(tl.int32)
    tl.store(out_ptr + pid, tl.load(x_ptr + index, mask=index >= 0, other=0.0))


@case((5,), x_ptr=rand(8), out_ptr=zeros(5), n=8)
@triton.jit
def ring_buffer_negative_remainder(x_ptr, out_ptr, n):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + (pid - 3) % n)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid, x)


@case((5,), x_ptr=rand(8), out_ptr=zeros(5), n=8)
@triton.jit
def ring_buffer_shifted_into_range(x_ptr, out_ptr, n):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, tl.load(x_ptr + (pid - 3 + n) % n))


@case((5,), x_ptr=rand(4), out_ptr=zeros(5))
@triton.jit
def halved_towards_zero(x_ptr, out_ptr):
    pid = tl.program_id(0)
    # C's division: -1 // 2 is 0, not -1.
    tl.store(out_ptr + pid, tl.load(x_ptr + (pid - 1) // 2))


@case((5,), x_ptr=rand(4), out_ptr=zeros(5))
@triton.jit
def halved_by_a_shift(x_ptr, out_ptr):
    pid = tl.program_id(0)
    # An arithmetic shift rounds down: -1 >> 1 is -1.
    x = tl.load(x_ptr + ((pid - 1) >> 1))  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid, x)


@case((4,), x_ptr=rand(64), out_ptr=zeros(64), start=3, BLOCK=16)
@triton.jit
def promised_multiple_of_sixteen(x_ptr, out_ptr, start, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    first = pid * 12 + start
    first = tl.multiple_of(first, 4)  # BUG: promise
    offs = first + tl.arange(0, BLOCK)
    tl.store(out_ptr + pid * BLOCK + tl.arange(0, BLOCK), tl.load(x_ptr + offs))


@case((4,), x_ptr=rand(64), out_ptr=zeros(64), BLOCK=16)
@triton.jit
def promised_multiple_of_sixteen_kept(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    first = pid * BLOCK
    first = tl.multiple_of(first, 16)
    offs = first + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@case((4,), x_ptr=rand(70), out_ptr=zeros(64), m=50, BLOCK=16)
@triton.jit
def promised_contiguous_after_a_remainder(x_ptr, out_ptr, m, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wrapped = offs % m
    wrapped = tl.max_contiguous(wrapped, BLOCK)  # BUG: promise
    tl.store(out_ptr + offs, tl.load(x_ptr + wrapped))


@case((4,), x_ptr=rand(70), out_ptr=zeros(64), m=64, BLOCK=16)
@triton.jit
def promised_contiguous_after_a_whole_remainder(x_ptr, out_ptr, m, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wrapped = offs % m
    wrapped = tl.max_contiguous(tl.multiple_of(wrapped, BLOCK), BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + wrapped))


@case((4,), x_ptr=rand(64), out_ptr=zeros(64), n=60, BLOCK=16)
@triton.jit
def assumed_what_does_not_hold(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.assume(pid * BLOCK + BLOCK <= n)  # BUG: promise
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@case((4,), x_ptr=rand(64), out_ptr=zeros(64), n=60, BLOCK=16)
@triton.jit
def assumed_what_holds(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.assume(pid >= 0)
    tl.assume(n > 0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n, other=0.0))


@case((1,), i_ptr=ints(range(200), torch.uint8), x_ptr=rand(250), out_ptr=zeros(128), BLOCK=128)
@triton.jit
def difference_of_bytes_wraps(i_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    i = tl.load(i_ptr + k) - 1  # 255, once
    tl.store(out_ptr + k, tl.load(x_ptr + i.to(tl.int32)))  # BUG: oob argument=x_ptr


@case((1,), i_ptr=ints(range(200), torch.uint8), x_ptr=rand(256), out_ptr=zeros(128), BLOCK=128)
@triton.jit
def product_of_bytes_wraps(i_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    i = tl.load(i_ptr + k)
    tl.store(out_ptr + k, tl.load(x_ptr + (i * i).to(tl.int32)))


@case((1,), i_ptr=ints([-1, 0, 1, 5] * 8), n=4, x_ptr=rand(4), out_ptr=zeros(32), BLOCK=32)
@triton.jit
def negative_as_unsigned_is_large(i_ptr, n, x_ptr, out_ptr, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    i = tl.load(i_ptr + k)
    inside = i.to(tl.uint32, bitcast=True) < n
    tl.store(out_ptr + k, tl.load(x_ptr + i, mask=inside, other=0.0))


@case((1,), i_ptr=ints([-1, 0, 1, 5] * 8), n=4, x_ptr=rand(4), out_ptr=zeros(32), BLOCK=32)
@triton.jit
def negative_is_small(i_ptr, n, x_ptr, out_ptr, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    i = tl.load(i_ptr + k)
    tl.store(out_ptr + k, tl.load(x_ptr + i, mask=i < n, other=0.0))  # BUG: oob argument=x_ptr
