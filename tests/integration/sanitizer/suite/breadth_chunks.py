"""Recurrences over chunks, segments and states, of equal or of given lengths."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, rand, zeros


def varlen(ci=None, **k):
    return dict(
        cu_ptr=ints([0, 5, 5, 22, 30]), ci_ptr=ints(ci or [[0, 0], [2, 0], [2, 1], [2, 2], [3, 0]]), BT=8, **k
    )


@case((5, 2), x_ptr=rand(30, 2, 16), o_ptr=zeros(30, 2, 16), H=2, D=16, TT=30, **varlen())
@triton.jit
def varlen_chunk_global_T(
    x_ptr, o_ptr, cu_ptr, ci_ptr, TT, H: tl.constexpr, D: tl.constexpr, BT: tl.constexpr
):
    i_t = tl.program_id(0)
    i_h = tl.program_id(1)
    i_n = tl.load(ci_ptr + i_t * 2).to(tl.int32)
    i_t = tl.load(ci_ptr + i_t * 2 + 1).to(tl.int32)
    bos = tl.load(cu_ptr + i_n).to(tl.int32)
    t = i_t * BT + tl.arange(0, BT)
    d = tl.arange(0, D)
    m = (bos + t < TT)[:, None]
    o = (bos * H + i_h) * D + t[:, None] * (H * D) + d[None, :]
    x = tl.load(x_ptr + o, mask=m, other=0.0)
    tl.store(o_ptr + o, tl.cumsum(x, 0), mask=m)  # BUG: race argument=o_ptr


@case(
    (2, 2, 2), k_ptr=half(2, 40, 2, 16), v_ptr=half(2, 40, 2, 32), h_ptr=half(2, 3, 2, 16, 32), T=40, H=2,
    K=16, V=32, BT=16, BV=16,
)  # fmt: skip
@triton.jit
def chunk_fwd_h_final_state_in_wrong_slot(
    k_ptr, v_ptr, h_ptr, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BV: tl.constexpr,
):  # fmt: skip
    iv = tl.program_id(0)
    b = tl.program_id(1)
    hh = tl.program_id(2)
    NT = tl.cdiv(T, BT)
    k = tl.arange(0, K)
    v = iv * BV + tl.arange(0, BV)
    acc = tl.zeros([K, BV], tl.float32)
    for i in range(NT):
        t = i * BT + tl.arange(0, BT)
        kk = tl.load(
            k_ptr + ((b * T + t) * H + hh)[None, :] * K + k[:, None], mask=(t < T)[None, :], other=0.0
        )
        vv = tl.load(
            v_ptr + ((b * T + t) * H + hh)[:, None] * V + v[None, :], mask=(t < T)[:, None], other=0.0
        )
        acc += tl.dot(kk, vv)
        tl.store(  # BUG: oob argument=h_ptr
            h_ptr + ((b * NT + i + 1) * H + hh) * K * V + k[:, None] * V + v[None, :], acc.to(tl.float16)
        )


@case(
    (2, 4), q_ptr=rand(4, 10, 16), v_ptr=rand(4, 10, 24), o_ptr=zeros(4, 10, 24), T=10, K=16, V=24, BV=16,
    REV=True,
)  # fmt: skip
@triton.jit
def fused_recurrent_reverse_start(
    q_ptr, v_ptr, o_ptr, T, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr, REV: tl.constexpr
):
    iv = tl.program_id(0)
    b = tl.program_id(1)
    v = iv * BV + tl.arange(0, BV)
    mv = v < V
    pv = v_ptr + b * T * V + (T * V if REV else 0) + v
    po = o_ptr + b * T * V + ((T - 1) * V if REV else 0) + v
    for _ in range(T):
        x = tl.load(pv, mask=mv, other=0)  # BUG: oob argument=v_ptr
        tl.store(po, x, mask=mv)
        pv += -V if REV else V
        po += -V if REV else V


@case((3,), a_ptr=rand(40, 16), o_ptr=zeros(40, 16), T=40, BT=16)
@triton.jit
def solve_tril16(a_ptr, o_ptr, T, BT: tl.constexpr):
    it = tl.program_id(0)
    t = it * BT + tl.arange(0, BT)
    c = tl.arange(0, BT)
    A = tl.load(a_ptr + t[:, None] * BT + c[None, :], mask=(t < T)[:, None], other=0.0)
    A = -tl.where(c[:, None] > c[None, :], A, 0.0)
    for i in range(2, min(BT, T - it * BT)):
        row = -tl.load(a_ptr + (it * BT + i) * BT + c)
        row = tl.where(c < i, row, 0.0)
        row += tl.sum(row[:, None] * A, 0)
        A = tl.where((c == i)[:, None], row[None, :], A)
    tl.store(o_ptr + t[:, None] * BT + c[None, :], A, mask=(t < T)[:, None])


@case((3,), a_ptr=rand(40, 16), o_ptr=zeros(40, 16), T=40, BT=16)
@triton.jit
def solve_tril16_no_min(a_ptr, o_ptr, T, BT: tl.constexpr):
    it = tl.program_id(0)
    t = it * BT + tl.arange(0, BT)
    c = tl.arange(0, BT)
    A = tl.load(a_ptr + t[:, None] * BT + c[None, :], mask=(t < T)[:, None], other=0.0)
    for i in range(2, BT):
        row = -tl.load(a_ptr + (it * BT + i) * BT + c)  # BUG: oob argument=a_ptr
        row = tl.where(c < i, row, 0.0)
        A = tl.where((c == i)[:, None], row[None, :], A)
    tl.store(o_ptr + t[:, None] * BT + c[None, :], A, mask=(t < T)[:, None])


@case(
    (3, 2), st_ptr=rand(5, 8, 4), idx_ptr=ints([4, -1, 2]), x_ptr=rand(3, 8), o_ptr=zeros(3, 8), D=8, BD=4,
    N=4, PAD=-1,
)  # fmt: skip
@triton.jit
def state_update(
    st_ptr, idx_ptr, x_ptr, o_ptr, D: tl.constexpr, BD: tl.constexpr, N: tl.constexpr, PAD: tl.constexpr
):
    b = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    n = tl.arange(0, N)
    s = tl.load(idx_ptr + b).to(tl.int64)
    sp = st_ptr + s * D * N + d[:, None] * N + n[None, :]
    m = (d < D)[:, None]
    m &= s != PAD
    h = tl.load(sp, mask=m, other=0.0)
    x = tl.load(x_ptr + b * D + d)
    h = h * 0.9 + x[:, None]
    tl.store(sp, h, mask=m)
    tl.store(o_ptr + b * D + d, tl.sum(h, 1))


@case((3, 2), st_ptr=rand(5, 8, 4), idx_ptr=ints([4, -1, 4]), x_ptr=rand(3, 8), D=8, BD=4, N=4, PAD=-1)
@triton.jit
def state_update_dup(
    st_ptr, idx_ptr, x_ptr, D: tl.constexpr, BD: tl.constexpr, N: tl.constexpr, PAD: tl.constexpr
):
    b = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    n = tl.arange(0, N)
    s = tl.load(idx_ptr + b).to(tl.int64)
    sp = st_ptr + s * D * N + d[:, None] * N + n[None, :]
    h = tl.load(sp, mask=s >= 0, other=0.0)  # BUG: race argument=st_ptr
    x = tl.load(x_ptr + b * D + d)
    tl.store(sp, h * 0.9 + x[:, None], mask=s >= 0)  # BUG: race argument=st_ptr


@case(
    (3, 1), x_ptr=rand(20, 8), w_ptr=rand(8, 4), o_ptr=zeros(20, 8), cs_ptr=rand(4, 3, 8),
    cu_ptr=ints([0, 7, 8, 20]), ci_ptr=ints([1, 3, 0]), has_ptr=torch.tensor([True, False, True]), D=8, W=4,
    BL=16,
)  # fmt: skip
@triton.jit
def causal_conv_varlen(
    x_ptr, w_ptr, o_ptr, cs_ptr, cu_ptr, ci_ptr, has_ptr, D: tl.constexpr, W: tl.constexpr, BL: tl.constexpr
):
    s = tl.program_id(0)
    st = tl.load(cu_ptr + s)
    en = tl.load(cu_ptr + s + 1)
    L = en - st
    slot = tl.load(ci_ptr + s)
    has = tl.load(has_ptr + s).to(tl.int1)
    d = tl.arange(0, D)
    t = tl.arange(0, BL)
    acc = tl.zeros([BL, D], tl.float32)
    for j in tl.static_range(W):
        tt = t - (W - 1) + j
        w = tl.load(w_ptr + d * W + j)
        cur = tl.load(
            x_ptr + (st + tt)[:, None] * D + d[None, :], mask=((tt >= 0) & (tt < L))[:, None], other=0.0
        )
        old = tl.load(
            cs_ptr + slot * 3 * D + (tt + 3)[:, None] * D + d[None, :],
            mask=((tt < 0) & has)[:, None],
            other=0.0,
        )
        acc += (cur + old) * w[None, :]
    tl.store(o_ptr + (st + t)[:, None] * D + d[None, :], acc, mask=(t < L)[:, None])
    # new state
    k = tl.arange(0, 4)
    src = L - 3 + k
    v = tl.load(x_ptr + (st + src)[:, None] * D + d[None, :], mask=((k < 3) & (src >= 0))[:, None], other=0.0)
    tl.debug_barrier()
    tl.store(cs_ptr + slot * 3 * D + k[:, None] * D + d[None, :], v, mask=(k < 3)[:, None])


@case(
    (2, 2), crow_ptr=ints([0, 1, 3]), col_ptr=ints([1, 0, 3]), val_ptr=half(3, 16, 16), d_ptr=half(48, 32),
    o_ptr=zeros(32, 32), B=16, N=32,
)  # fmt: skip
@triton.jit
def bsr_mm_block_column_outside(crow_ptr, col_ptr, val_ptr, d_ptr, o_ptr, B: tl.constexpr, N: tl.constexpr):
    rb = tl.program_id(0)
    cb = tl.program_id(1)
    s = tl.load(crow_ptr + rb)
    nnz = tl.load(crow_ptr + rb + 1) - s
    i = tl.arange(0, B)
    j = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for q in range(nnz):
        v = tl.load(val_ptr + (s + q) * B * B + i[:, None] * B + j[None, :])
        c = tl.load(col_ptr + s + q)
        d = tl.load(d_ptr + (c * B + i)[:, None] * N + (cb * B + j)[None, :])  # BUG: oob argument=d_ptr
        acc += tl.dot(v, d)
    tl.store(o_ptr + (rb * B + i)[:, None] * N + (cb * B + j)[None, :], acc)


@case(
    (3,), src_ptr=rand(20, 8), seg_ptr=ints([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 6]),
    o_ptr=zeros(6, 8), E=20, B=8, F=8,
)  # fmt: skip
@triton.jit
def segment_atomic_label_outside(src_ptr, seg_ptr, o_ptr, E, B: tl.constexpr, F: tl.constexpr):
    e = tl.program_id(0) * B + tl.arange(0, B)
    f = tl.arange(0, F)
    m = e < E
    g = tl.load(seg_ptr + e, mask=m, other=0)
    x = tl.load(src_ptr + e[:, None] * F + f[None, :], mask=m[:, None], other=0.0)
    tl.atomic_add(o_ptr + g[:, None] * F + f[None, :], x, mask=m[:, None])  # BUG: oob argument=o_ptr
