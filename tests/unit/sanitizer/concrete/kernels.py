"""Small kernels that together use what the evaluator knows; `cases` has their launches."""

from __future__ import annotations

import triton
import triton.language as tl

# --- arithmetic --------------------------------------------------------------------------------------


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + y, mask=i < n)


@triton.jit
def integers(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    row = out_ptr + i
    tl.store(row, x // y)
    tl.store(row + BLOCK, x % y)
    tl.store(row + 2 * BLOCK, x & y)
    tl.store(row + 3 * BLOCK, x | y)
    tl.store(row + 4 * BLOCK, x ^ y)
    tl.store(row + 5 * BLOCK, x << (y & 7))
    tl.store(row + 6 * BLOCK, x >> (y & 7))
    tl.store(row + 7 * BLOCK, x * y)
    tl.store(row + 8 * BLOCK, tl.maximum(x, y) - tl.minimum(x, y))
    tl.store(row + 9 * BLOCK, tl.abs(x))
    tl.store(row + 10 * BLOCK, -x)
    tl.store(row + 11 * BLOCK, ~x)


@triton.jit
def compare(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    bits = (x < y).to(tl.int32)
    bits += (x <= y).to(tl.int32) * 2
    bits += (x > y).to(tl.int32) * 4
    bits += (x >= y).to(tl.int32) * 8
    bits += (x == y).to(tl.int32) * 16
    bits += (x != y).to(tl.int32) * 32
    tl.store(out_ptr + i, bits)


@triton.jit
def floats(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    row = out_ptr + i
    tl.store(row, x / y)
    tl.store(row + BLOCK, tl.maximum(x, y))
    tl.store(row + 2 * BLOCK, tl.minimum(x, y))
    tl.store(row + 3 * BLOCK, tl.where(x < y, x - y, x * y))
    tl.store(row + 4 * BLOCK, tl.fma(x, y, x))
    tl.store(row + 5 * BLOCK, tl.clamp(x, -1.0, 1.0))
    tl.store(row + 6 * BLOCK, -x)


@triton.jit
def functions(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    row = out_ptr + i
    tl.store(row, tl.exp(x))
    tl.store(row + BLOCK, tl.log(tl.abs(x) + 1.0))
    tl.store(row + 2 * BLOCK, tl.sqrt(tl.abs(x)))
    tl.store(row + 3 * BLOCK, tl.rsqrt(tl.abs(x) + 0.5))
    tl.store(row + 4 * BLOCK, tl.sin(x) + tl.cos(x))
    tl.store(row + 5 * BLOCK, tl.exp2(x) + tl.log2(tl.abs(x) + 1.0))
    tl.store(row + 6 * BLOCK, tl.floor(x) + tl.ceil(x))
    tl.store(row + 7 * BLOCK, tl.erf(x))
    tl.store(row + 8 * BLOCK, tl.sigmoid(x))


@triton.jit
def casts(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    row = out_ptr + i
    tl.store(row, x.to(tl.int8).to(tl.float32))
    tl.store(row + BLOCK, x.to(tl.int32).to(tl.float32))
    tl.store(row + 2 * BLOCK, x.to(tl.int64).to(tl.int16).to(tl.float32))
    tl.store(row + 3 * BLOCK, x.to(tl.float16).to(tl.float32))
    tl.store(row + 4 * BLOCK, x.to(tl.int32, bitcast=True).to(tl.float32))
    tl.store(row + 5 * BLOCK, tl.abs(x).to(tl.uint8).to(tl.float32))
    tl.store(row + 6 * BLOCK, (x > 0).to(tl.float32))


@triton.jit
def convert(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x.to(out_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def random(out_ptr, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.rand(seed, i))


@triton.jit
def high_product(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i).to(tl.uint32, bitcast=True)
    y = tl.load(y_ptr + i).to(tl.uint32, bitcast=True)
    tl.store(out_ptr + i, tl.umulhi(x, y).to(tl.int32, bitcast=True))


# --- shapes ------------------------------------------------------------------------------------------


@triton.jit
def transpose(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x))


@triton.jit
def reshape(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M * N))
    y = tl.permute(tl.reshape(x, (M, N // 2, 2)), (2, 0, 1))
    tl.store(out_ptr + tl.arange(0, M * N), tl.reshape(y, (M * N,)))


@triton.jit
def join_split(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    both = tl.join(tl.load(x_ptr + i), tl.load(y_ptr + i))
    flat = tl.reshape(both, (2 * BLOCK,))
    tl.store(out_ptr + tl.arange(0, 2 * BLOCK), flat)
    a, b = tl.split(tl.reshape(flat, (BLOCK, 2)))
    tl.store(out_ptr + 2 * BLOCK + i, a - b)


@triton.jit
def gather_rows(x_ptr, index_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    at = tl.load(index_ptr + m[:, None] * N + n[None, :])
    tl.store(out_ptr + m[:, None] * N + n[None, :], tl.gather(x, at, 1))


@triton.jit
def histogram(x_ptr, out_ptr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * BLOCK + tl.arange(0, BLOCK))
    tl.store(out_ptr + pid * BINS + tl.arange(0, BINS), tl.histogram(x, BINS))


@triton.jit
def sort_rows(x_ptr, out_ptr, N: tl.constexpr):
    row = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + row, tl.sort(tl.load(x_ptr + row)))


# --- reductions --------------------------------------------------------------------------------------


@triton.jit
def reductions(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(out_ptr + m, tl.sum(x, 1))
    tl.store(out_ptr + M + m, tl.max(x, 1))
    tl.store(out_ptr + 2 * M + m, tl.min(x, 1))
    tl.store(out_ptr + 3 * M + m, tl.argmax(x, 1).to(x.dtype))
    tl.store(out_ptr + 4 * M + m, tl.argmin(x, 1).to(x.dtype))
    tl.store(out_ptr + 5 * M + n, tl.sum(x, 0))
    tl.store(out_ptr + 5 * M + N, tl.sum(tl.sum(x, 1), 0))


@triton.jit
def xor_sum(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.xor_sum(x, 0))
    tl.store(out_ptr + 1, tl.max(x, 0))
    tl.store(out_ptr + 2, tl.sum((x > 0).to(tl.int32), 0))


@triton.jit
def _first_nonzero(a, a_index, b, b_index):
    pick = ((a != 0) & (b == 0)) | (((a != 0) == (b != 0)) & (a_index < b_index))
    return tl.where(pick, a, b), tl.where(pick, a_index, b_index)


@triton.jit
def custom_reduce(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    value, index = tl.reduce((x, i), 0, _first_nonzero)
    tl.store(out_ptr, value)
    tl.store(out_ptr + 1, index)


@triton.jit
def scans(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.cumsum(x, 1))
    tl.store(out_ptr + M * N + at, tl.cumsum(x, 0))
    tl.store(out_ptr + 2 * M * N + at, tl.cumsum(x, 1, reverse=True))
    tl.store(out_ptr + 3 * M * N + at, tl.cumprod(x, 1))


@triton.jit
def _affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def custom_scan(a_ptr, b_ptr, out_ptr, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(a_ptr + i)
    b = tl.load(b_ptr + i)
    x, y = tl.associative_scan((a, b), 0, _affine, reverse=REVERSE)
    tl.store(out_ptr + i, x)
    tl.store(out_ptr + N + i, y)


# --- matrices ----------------------------------------------------------------------------------------


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a = a_ptr + m[:, None] * K + k[None, :]
    b = b_ptr + k[:, None] * N + n[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        x = tl.load(a, mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
        y = tl.load(b, mask=(k[:, None] < left) & (n[None, :] < N), other=0.0)
        total = tl.dot(x, y, total)
        a += BK
        b += BK * N
    where = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty), mask=where)


@triton.jit
def dot_integers(a_ptr, b_ptr, c_ptr, S: tl.constexpr):
    i = tl.arange(0, S)
    at = i[:, None] * S + i[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), out_dtype=tl.int32))


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + i, e / tl.sum(e, 0), mask=i < columns)


# --- control flow ------------------------------------------------------------------------------------


@triton.jit
def early_return(out_ptr, n):
    pid = tl.program_id(0)
    if pid % 3 == 1:
        return
    if pid >= n:
        tl.store(out_ptr + pid, -1)
        return
    tl.store(out_ptr + pid, pid * 2)


@triton.jit
def branches(out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if pid % 2 == 0:
        x = i * pid
        if pid > 4:
            x += 1000
    else:
        x = i - pid
    tl.store(out_ptr + pid * BLOCK + i, x)


@triton.jit
def own_trips(count_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.int32)
    for t in range(pid, tl.load(count_ptr + pid), 2):
        total += tl.load(x_ptr + t * BLOCK + i) * (t + 1)
    tl.store(out_ptr + pid * BLOCK + i, total)


@triton.jit
def collatz(out_ptr):
    pid = tl.program_id(0)
    x = pid + 1
    steps = 0
    while x != 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    tl.store(out_ptr + pid, steps)


@triton.jit(noinline=True)
def _twice(x, limit):
    y = x + x
    if limit > 2:
        y = y * limit
    return y


@triton.jit
def calls(out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + pid * BLOCK + i, i * _twice(pid, 1) + _twice(7, pid))


@triton.jit
def binary_search(x_ptr, wanted_ptr, out_ptr, n):
    pid = tl.program_id(0)
    wanted = tl.load(wanted_ptr + pid)
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if tl.load(x_ptr + middle) < wanted:
            low = middle + 1
        else:
            high = middle
    tl.store(out_ptr + pid, low)


@triton.jit
def grid_of_three(out_ptr):
    x = tl.program_id(0)
    y = tl.program_id(1)
    z = tl.program_id(2)
    at = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    tl.store(out_ptr + at, x * 100 + y * 10 + z)


# --- memory ------------------------------------------------------------------------------------------


@triton.jit
def indirect(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i, mask=i < n, other=0)
    ok = (at >= 0) & (i < n)
    tl.store(out_ptr + i, tl.load(x_ptr + at, mask=ok, other=-7), mask=i < n)


@triton.jit
def scatter_in_place(x_ptr, index_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i)
    x = tl.load(x_ptr + i)
    tl.store(x_ptr + at, x + 1)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)


@triton.jit
def unaligned(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    words = (x_ptr + 1 + 3 * i).to(tl.pointer_type(tl.int16))
    tl.store(out_ptr + i, tl.load(words))


@triton.jit
def atomics(x_ptr, index_ptr, cells_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    at = tl.load(index_ptr + i)
    ok = i < n
    tl.atomic_add(cells_ptr + at, x, mask=ok)
    tl.atomic_max(cells_ptr + 8 + at, x, mask=ok)
    tl.atomic_min(cells_ptr + 16 + at, x, mask=ok)
    tl.atomic_and(cells_ptr + 24 + at, x, mask=ok)
    tl.atomic_or(cells_ptr + 32 + at, x, mask=ok)
    tl.atomic_xor(cells_ptr + 40 + at, x, mask=ok)
    tl.atomic_xchg(cells_ptr + 48 + pid, pid)
    tl.store(out_ptr + pid, tl.atomic_add(cells_ptr + 56, 3))


@triton.jit
def atomic_floats(x_ptr, index_ptr, cells_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    at = tl.load(index_ptr + i)
    tl.atomic_add(cells_ptr + at, x)
    tl.atomic_max(cells_ptr + 8 + at, x)
    tl.atomic_min(cells_ptr + 16 + at, x)


@triton.jit
def locked_sum(lock_ptr, total_ptr, x_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.sum(tl.load(x_ptr + pid * BLOCK + tl.arange(0, BLOCK)), 0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + x)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def last_arriver(count_ptr, part_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(part_ptr + pid, tl.sum(tl.load(x_ptr + pid * BLOCK + tl.arange(0, BLOCK)), 0))
    if tl.atomic_add(count_ptr, 1) == N - 1:
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, N)), 0))


@triton.jit
def block_pointers(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    o = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM
    for n in range(0, N, BN):
        o.store([m, n], d.load([m, n]) * 2)


@triton.jit
def nan_padding(x_ptr, out_ptr, M, N, B: tl.constexpr):
    d = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [B, B], padding_option="nan")
    i = tl.arange(0, B)
    x = d.load([4, 4])
    tl.store(out_ptr + i[:, None] * B + i[None, :], tl.where(x != x, -1.0, x))
