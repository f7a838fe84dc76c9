"""Language features that few kernels use, and promises to the compiler."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, rand, zeros


@case(
    (2,), x_ptr=half(32, 64), idx_ptr=ints([3, 9, 31, 0, 5, 6, 7, 8, 1, 2, 30, 12, 13, 14, 15, 16]),
    o_ptr=half(16, 32), oracle=False, M=32, N=64,
)  # fmt: skip
@triton.jit
def desc_gather(x_ptr, idx_ptr, o_ptr, M, N):
    d = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [1, 32])
    p = tl.program_id(0)
    i = tl.arange(0, 8)
    ix = tl.load(idx_ptr + p * 8 + i)
    v = d.gather(ix, 32)
    tl.store(o_ptr + (p * 8 + i)[:, None] * 32 + tl.arange(0, 32)[None, :], v)


@case(
    (2,), x_ptr=half(32, 64), idx_ptr=ints([3, 9, 31, 0, 5, 6, 7, 8, 1, 2, 30, 12, 13, 9, 15, 16]),
    y_ptr=half(16, 32), oracle=False, M=32, N=64,
)  # fmt: skip
@triton.jit
def desc_scatter_collides(x_ptr, idx_ptr, y_ptr, M, N):
    d = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [1, 32])
    p = tl.program_id(0)
    i = tl.arange(0, 8)
    ix = tl.load(idx_ptr + p * 8 + i)
    v = tl.load(y_ptr + (p * 8 + i)[:, None] * 32 + tl.arange(0, 32)[None, :])
    d.scatter(v, ix, 0)  # BUG: race argument=x_ptr


@case(
    (2,), x_ptr=half(32, 64), idx_ptr=ints([3, 9, 32, 0, 5, 6, 7, 8, 1, 2, 30, 12, 13, 14, 15, -1]),
    o_ptr=half(16, 32), oracle=False, M=32, N=64,
)  # fmt: skip
@triton.jit
def desc_gather_outside_is_zero(x_ptr, idx_ptr, o_ptr, M, N):
    d = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [1, 32])
    p = tl.program_id(0)
    i = tl.arange(0, 8)
    ix = tl.load(idx_ptr + p * 8 + i)
    v = d.gather(ix, 0)
    tl.store(o_ptr + (p * 8 + i)[:, None] * 32 + tl.arange(0, 32)[None, :], v)


@case(
    (2,), x_ptr=half(32, 64), idx_ptr=ints([3, 9, 31, 0, 5, 6, 7, 8]), o_ptr=half(16, 32), oracle=False,
    M=64, N=64,
)  # fmt: skip
@triton.jit
def desc_gather_rows_overstated(x_ptr, idx_ptr, o_ptr, M, N):
    d = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [1, 32])
    p = tl.program_id(0)
    i = tl.arange(0, 8)
    ix = tl.load(idx_ptr + i) + p * 8
    v = d.gather(ix, 0)  # BUG: oob argument=x_ptr
    tl.store(o_ptr + (p * 8 + i)[:, None] * 32 + tl.arange(0, 32)[None, :], v)


@triton.jit
def _scan2(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@case((2,), a_ptr=rand(2, 20, 8), b_ptr=rand(2, 20, 8), o_ptr=zeros(2, 20, 8), T=20, BT=32, D=8)
@triton.jit
def assoc_scan_reverse_undefined(a_ptr, b_ptr, o_ptr, T, BT: tl.constexpr, D: tl.constexpr):
    p = tl.program_id(0)
    t = tl.arange(0, BT)[:, None]
    d = tl.arange(0, D)[None, :]
    m = t < T
    a = tl.load(a_ptr + p * T * D + t * D + d, mask=m, other=1.0)
    b = tl.load(b_ptr + p * T * D + t * D + d, mask=m)
    aa, bb = tl.associative_scan((a, b), 0, _scan2, reverse=True)
    tl.store(o_ptr + p * T * D + t * D + d, bb, mask=m)  # BUG: uninit argument=o_ptr


@case((2,), a_ptr=rand(2, 20, 8), b_ptr=rand(2, 20, 8), o_ptr=zeros(2, 20, 8), T=20, BT=32, D=8)
@triton.jit
def assoc_scan_forward_undefined_tail_fine(a_ptr, b_ptr, o_ptr, T, BT: tl.constexpr, D: tl.constexpr):
    p = tl.program_id(0)
    t = tl.arange(0, BT)[:, None]
    d = tl.arange(0, D)[None, :]
    m = t < T
    a = tl.load(a_ptr + p * T * D + t * D + d, mask=m)
    b = tl.load(b_ptr + p * T * D + t * D + d, mask=m)
    aa, bb = tl.associative_scan((a, b), 0, _scan2)
    tl.store(o_ptr + p * T * D + t * D + d, bb, mask=m)


@triton.jit
def _el(a, b):
    if a > b:
        r = a - b
    else:
        r = b * 2
    return r


@case((2,), x_ptr=ints(range(32)), t_ptr=rand(64), o_ptr=zeros(32), B=16, oracle=False)
@triton.jit
def map_el(x_ptr, t_ptr, o_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.map_elementwise(_el, x, i // 2)
    tl.store(o_ptr + i, tl.load(t_ptr + y))


@case((4,), x_ptr=rand(64), k_ptr=ints([1234567, -5, 77, 1 << 30]), o_ptr=zeros(4))
@triton.jit
def hash32_signed_rem(x_ptr, k_ptr, o_ptr):
    p = tl.program_id(0)
    k = tl.load(k_ptr + p)
    h = k * 1540483477
    h = h % 64
    tl.store(o_ptr + p, tl.load(x_ptr + h))  # BUG: oob argument=x_ptr


@case((4,), x_ptr=rand(64), k_ptr=ints([1234567, -5, 77, 1 << 30]), o_ptr=zeros(4))
@triton.jit
def hash32_unsigned_rem(x_ptr, k_ptr, o_ptr):
    p = tl.program_id(0)
    k = tl.load(k_ptr + p).to(tl.uint32, bitcast=True)
    h = k * 1540483477
    h = h % 64
    tl.store(o_ptr + p, tl.load(x_ptr + h))


@case((4,), x_ptr=rand(64), o_ptr=zeros(4))
@triton.jit
def lcg_walk(x_ptr, o_ptr):
    p = tl.program_id(0)
    s = (p + 1).to(tl.uint32)
    acc = 0.0
    for _ in range(10):
        s = s * 1664525 + 1013904223
        acc += tl.load(x_ptr + (s >> 26))
    tl.store(o_ptr + p, acc)


@case(
    (4,), x_ptr=rand(80), i_ptr=ints([0, 1, 2, 3, 4, 5, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15]),
    o_ptr=zeros(4, 16), B=16,
)  # fmt: skip
@triton.jit
def contiguous_of_loaded_broken(x_ptr, i_ptr, o_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.load(i_ptr + tl.arange(0, B))
    i = tl.max_contiguous(i, 4)  # BUG: promise argument=-
    tl.store(o_ptr + p * B + tl.arange(0, B), tl.load(x_ptr + i))


@case((3,), x_ptr=rand(80), o_ptr=zeros(40), n=40, B=16)
@triton.jit
def matmul_style_hints_after_mod(x_ptr, o_ptr, n, B: tl.constexpr):
    p = tl.program_id(0)
    i = (p * B + tl.arange(0, B)) % n
    i = tl.max_contiguous(tl.multiple_of(i, B), B)  # BUG: promise argument=-
    o = p * B + tl.arange(0, B)
    tl.store(o_ptr + o, tl.load(x_ptr + i), mask=o < n)


@case((2,), x_ptr=rand(80), o_ptr=zeros(32), B=16)
@triton.jit
def max_constancy_broken(x_ptr, o_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B) // 4
    i = tl.max_constancy(i, 8)  # BUG: promise argument=-
    tl.store(o_ptr + p * B + tl.arange(0, B), tl.load(x_ptr + i))


@case((4,), x_ptr=torch.zeros(4, 20, dtype=torch.uint8), o_ptr=zeros(4, 16), B=16)
@triton.jit
def packed_rows_scale_wide(x_ptr, o_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, B)
    q = tl.load(x_ptr + p * 20 + c)
    s = tl.load((x_ptr + p * 20 + 18).to(tl.pointer_type(tl.float16)) + 1)  # BUG: oob argument=x_ptr
    tl.store(o_ptr + p * B + c, q.to(tl.float32) * s)


@triton.jit(noinline=True)
def _scalar_bad(ptr, i, n):
    r = 0.0
    if i <= n:
        r = tl.load(ptr + i)  # BUG: oob argument=x_ptr
    return r


@case((4,), x_ptr=rand(3), o_ptr=zeros(4), n=3, oracle=False, also=(_scalar_bad,))
@triton.jit
def noinline_bad(x_ptr, o_ptr, n):
    p = tl.program_id(0)
    tl.store(o_ptr + p, _scalar_bad(x_ptr, p, n))


@case((3,), x_ptr=rand(40), o_ptr=zeros(3), n=40)
@triton.jit
def search_by_halves(x_ptr, o_ptr, n):
    p = tl.program_id(0)
    lo = 0
    hi = n
    while lo < hi:
        mid = (lo + hi) // 2
        v = tl.load(x_ptr + mid)
        if v < 0.5:
            lo = mid + 1
        else:
            hi = mid
    tl.store(o_ptr + p, lo.to(tl.float32))


@case((3,), x_ptr=zeros(40), o_ptr=zeros(3), n=40)
@triton.jit
def search_by_halves_one_too_far(x_ptr, o_ptr, n):
    p = tl.program_id(0)
    lo = 0
    hi = n
    while lo <= hi:
        mid = (lo + hi) // 2
        v = tl.load(x_ptr + mid)  # BUG: oob argument=x_ptr
        if v < 0.5:
            lo = mid + 1
        else:
            hi = mid - 1
    tl.store(o_ptr + p, lo.to(tl.float32))
