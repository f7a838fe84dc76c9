"""Sparse matrices (CSR, COO, ELL, blocks) and message passing over graphs."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, izeros, rand, zeros

ROWS = [0, 3, 3, 4, 8]
COLUMNS = [0, 2, 5, 1, 0, 3, 4, 5]


@case(
    (4,), rows_ptr=ints(ROWS), cols_ptr=ints(COLUMNS), v_ptr=rand(8), x_ptr=rand(6), y_ptr=zeros(4), BLOCK=4
)
@triton.jit
def csr_times_vector(rows_ptr, cols_ptr, v_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(rows_ptr + row)
    last = tl.load(rows_ptr + row + 1)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, last, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        col = tl.load(cols_ptr + offs, mask=offs < last, other=0)
        v = tl.load(v_ptr + offs, mask=offs < last, other=0.0)
        acc += v * tl.load(x_ptr + col)
    tl.store(y_ptr + row, tl.sum(acc, 0))


@case(
    (4,), rows_ptr=ints(ROWS), cols_ptr=ints(COLUMNS), v_ptr=rand(8), x_ptr=rand(6), y_ptr=zeros(4), BLOCK=8
)
@triton.jit
def csr_block_not_cut_at_the_row(rows_ptr, cols_ptr, v_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(rows_ptr + row)
    offs = first + tl.arange(0, BLOCK)
    col = tl.load(cols_ptr + offs, mask=offs <= 8, other=0)  # BUG: oob argument=cols_ptr
    v = tl.load(v_ptr + offs, mask=offs < 8, other=0.0)
    tl.store(y_ptr + row, tl.sum(v * tl.load(x_ptr + col), 0))


@case((5,), rows_ptr=ints(ROWS), cols_ptr=ints(COLUMNS), v_ptr=rand(8), y_ptr=zeros(5))
@triton.jit
def csr_a_row_too_many(rows_ptr, cols_ptr, v_ptr, y_ptr):
    row = tl.program_id(0)
    first = tl.load(rows_ptr + row)
    last = tl.load(rows_ptr + row + 1)  # BUG: oob argument=rows_ptr
    total = 0.0
    for i in range(first, last):
        total += tl.load(v_ptr + i)
    tl.store(y_ptr + row, total)


@case((4,), rows_ptr=ints(ROWS), cols_ptr=ints(COLUMNS), v_ptr=rand(8), x_ptr=rand(5), y_ptr=zeros(4))
@triton.jit
def csr_matrix_is_wider_than_the_vector(rows_ptr, cols_ptr, v_ptr, x_ptr, y_ptr):
    row = tl.program_id(0)
    first = tl.load(rows_ptr + row)
    last = tl.load(rows_ptr + row + 1)
    total = 0.0
    for i in range(first, last):
        col = tl.load(cols_ptr + i)
        total += tl.load(v_ptr + i) * tl.load(x_ptr + col)  # BUG: oob argument=x_ptr
    tl.store(y_ptr + row, total)


@case(
    (2,), row_ptr=ints([0, 0, 1, 2, 2, 3]), col_ptr=ints([1, 2, 0, 3, 1, 2]), v_ptr=rand(6),
    x_ptr=rand(4, 8), y_ptr=zeros(4, 8), n=6, BLOCK=4, D=8,
)  # fmt: skip
@triton.jit
def coo_times_matrix(row_ptr, col_ptr, v_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr, D: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = offs < n
    row = tl.load(row_ptr + offs, mask=ok, other=0)
    col = tl.load(col_ptr + offs, mask=ok, other=0)
    v = tl.load(v_ptr + offs, mask=ok, other=0.0)
    rd = tl.arange(0, D)
    x = tl.load(x_ptr + col[:, None] * D + rd[None, :], mask=ok[:, None], other=0.0)
    tl.atomic_add(y_ptr + row[:, None] * D + rd[None, :], v[:, None] * x, mask=ok[:, None])


@case((2,), row_ptr=ints([0, 0, 1, 2, 2, 3]), v_ptr=rand(6), y_ptr=zeros(4), n=6, BLOCK=3, PAD=4)
@triton.jit
def coo_blocks_share_a_row(row_ptr, v_ptr, y_ptr, n, BLOCK: tl.constexpr, PAD: tl.constexpr):
    lane = tl.arange(0, PAD)
    offs = tl.program_id(0) * 3 + lane
    ok = lane < 4
    row = tl.load(row_ptr + offs, mask=ok & (offs < n), other=3)
    v = tl.load(v_ptr + offs, mask=ok & (offs < n), other=0.0)
    tl.store(y_ptr + row, v, mask=ok & (offs < n))  # BUG: race argument=y_ptr


@case(
    (3,), cols_ptr=ints([0, 2, -1, 1, -1, -1, 3, 0, 2]), v_ptr=rand(9), x_ptr=rand(4), y_ptr=zeros(3),
    width=3, W=4,
)  # fmt: skip
@triton.jit
def ell_padding_masked(cols_ptr, v_ptr, x_ptr, y_ptr, width, W: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, W)
    col = tl.load(cols_ptr + row * width + lane, mask=lane < width, other=-1)
    v = tl.load(v_ptr + row * width + lane, mask=lane < width, other=0.0)
    x = tl.load(x_ptr + col, mask=col >= 0, other=0.0)
    tl.store(y_ptr + row, tl.sum(v * x, 0))


@case(
    (3,), cols_ptr=ints([0, 2, -1, 1, -1, -1, 3, 0, 2]), v_ptr=rand(9), x_ptr=rand(4), y_ptr=zeros(3),
    width=3, W=4,
)  # fmt: skip
@triton.jit
def ell_padding_read(cols_ptr, v_ptr, x_ptr, y_ptr, width, W: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, W)
    col = tl.load(cols_ptr + row * width + lane, mask=lane < width, other=0)
    v = tl.load(v_ptr + row * width + lane, mask=lane < width, other=0.0)
    x = tl.load(x_ptr + col, mask=lane < width, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(y_ptr + row, tl.sum(v * x, 0))


@case(
    (2,), layout_ptr=ints([0, 2, 1]), start_ptr=ints([0, 2, 3]), a_ptr=half(3, 16, 16), b_ptr=half(48, 16),
    c_ptr=zeros(32, 16), B=16,
)  # fmt: skip
@triton.jit
def block_sparse_product(layout_ptr, start_ptr, a_ptr, b_ptr, c_ptr, B: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(start_ptr + row)
    count = tl.load(start_ptr + row + 1) - first
    r = tl.arange(0, B)
    tile = r[:, None] * B + r[None, :]
    acc = tl.zeros((B, B), tl.float32)
    a_ptrs = a_ptr + first * B * B + tile
    layout = layout_ptr + first
    for _ in range(count):
        col = tl.load(layout)
        acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptr + col * B * B + tile))
        a_ptrs += B * B
        layout += 1
    tl.store(c_ptr + row * B * B + tile, acc)


@case(
    (2,), layout_ptr=ints([0, 2, 1]), start_ptr=ints([0, 2, 3]), a_ptr=half(3, 16, 16), b_ptr=half(32, 16),
    c_ptr=zeros(32, 16), B=16,
)  # fmt: skip
@triton.jit
def block_sparse_column_outside(layout_ptr, start_ptr, a_ptr, b_ptr, c_ptr, B: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(start_ptr + row)
    last = tl.load(start_ptr + row + 1)
    r = tl.arange(0, B)
    tile = r[:, None] * B + r[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for i in range(first, last):
        col = tl.load(layout_ptr + i)
        b = tl.load(b_ptr + col * B * B + tile)  # BUG: oob argument=b_ptr
        acc += tl.dot(tl.load(a_ptr + i * B * B + tile), b)
    tl.store(c_ptr + row * B * B + tile, acc)


EDGES = {"from_ptr": ints([0, 1, 2, 2, 4, 3]), "to_ptr": ints([1, 2, 0, 3, 3, 4])}


@case((6,), **EDGES, h_ptr=rand(5, 8), out_ptr=zeros(5, 8), D=8)
@triton.jit
def messages_added_atomically(from_ptr, to_ptr, h_ptr, out_ptr, D: tl.constexpr):
    edge = tl.program_id(0)
    rd = tl.arange(0, D)
    h = tl.load(h_ptr + tl.load(from_ptr + edge) * D + rd)
    tl.atomic_add(out_ptr + tl.load(to_ptr + edge) * D + rd, h)


@case((6,), **EDGES, h_ptr=rand(5, 8), D=8)
@triton.jit
def messages_passed_in_place(from_ptr, to_ptr, h_ptr, D: tl.constexpr):
    edge = tl.program_id(0)
    rd = tl.arange(0, D)
    h = tl.load(h_ptr + tl.load(from_ptr + edge) * D + rd)  # BUG: race argument=h_ptr
    tl.atomic_add(h_ptr + tl.load(to_ptr + edge) * D + rd, h)  # BUG: race argument=h_ptr


@case((3,), parent_ptr=ints([1, 3, 3, 3, 0]), out_ptr=izeros(3), n=5)
@triton.jit
def chase_to_the_root(parent_ptr, out_ptr, n):
    at = tl.program_id(0)
    up = tl.load(parent_ptr + at)
    while up != at:
        at = up
        up = tl.load(parent_ptr + at)
    tl.store(out_ptr + tl.program_id(0), at)


@case((4,), size_ptr=ints([3, 1, 4, 2]), x_ptr=rand(10), out_ptr=zeros(4), BLOCK=4)
@triton.jit
def ragged_offsets_by_summing_sizes(size_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    sizes = tl.load(size_ptr + lane)
    start = tl.sum(tl.where(lane < pid, sizes, 0), 0)
    size = tl.load(size_ptr + pid)
    x = tl.load(x_ptr + start + lane, mask=lane < size, other=0.0)
    tl.store(out_ptr + pid, tl.sum(x, 0))


@case((4,), size_ptr=ints([3, 1, 4, 2]), x_ptr=rand(10), out_ptr=zeros(4), BLOCK=4)
@triton.jit
def ragged_offsets_inclusive(size_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    sizes = tl.load(size_ptr + lane)
    start = tl.sum(tl.where(lane <= pid, sizes, 0), 0)
    size = tl.load(size_ptr + pid)
    x = tl.load(x_ptr + start + lane, mask=lane < size, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid, tl.sum(x, 0))
