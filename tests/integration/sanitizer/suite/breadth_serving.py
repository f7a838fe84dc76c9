"""Kernels of inference servers: paged caches, adapters, speculative tokens, packed weights."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, izeros, longs, rand, zeros


@case(
    (3, 2, 2), q_ptr=rand(3, 2, 16), k_ptr=rand(7, 4, 16),
    bt_ptr=ints([[0, 3, 6], [2, 1, -1], [5, -1, -1]]), len_ptr=ints([11, 8, 2]),
    tmp_ptr=torch.empty(3, 2, 2, 16), l_ptr=torch.empty(3, 2, 2), maxb=3, fresh="tmp_ptr l_ptr", PART=8,
    D=16, PAGE=4,
)  # fmt: skip
@triton.jit
def paged_v2_partition(
    q_ptr, k_ptr, bt_ptr, len_ptr, tmp_ptr, l_ptr, maxb, PART: tl.constexpr, D: tl.constexpr,
    PAGE: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0)
    h = tl.program_id(1)
    part = tl.program_id(2)
    n = tl.load(len_ptr + s)
    if part * PART >= n:
        return
    d = tl.arange(0, D)
    p = tl.arange(0, PAGE)
    q = tl.load(q_ptr + (s * 2 + h) * D + d)
    b0 = part * (PART // PAGE)
    b1 = min(b0 + PART // PAGE, tl.cdiv(n, PAGE))
    acc = tl.zeros([D], tl.float32)
    total = 0.0
    for b in range(b0, b1):
        blk = tl.load(bt_ptr + s * maxb + b)
        kk = tl.load(
            k_ptr + (blk * PAGE + p[:, None]) * D + d[None, :], mask=(b * PAGE + p < n)[:, None], other=0.0
        )
        total += tl.sum(tl.sum(kk * q[None, :], 1), 0)
        acc += tl.sum(kk, 0)
    tl.store(tmp_ptr + ((s * 2 + h) * 2 + part) * D + d, acc)
    tl.store(l_ptr + (s * 2 + h) * 2 + part, total)


@case(
    (3, 2), tmp_ptr=torch.empty(3, 2, 2, 16), l_ptr=rand(3, 2, 2), len_ptr=ints([11, 8, 2]),
    o_ptr=zeros(3, 2, 16), PART=8, D=16, NP=2,
)  # fmt: skip
@triton.jit
def paged_v2_reduce(tmp_ptr, l_ptr, len_ptr, o_ptr, PART: tl.constexpr, D: tl.constexpr, NP: tl.constexpr):
    s = tl.program_id(0)
    h = tl.program_id(1)
    n = tl.load(len_ptr + s)
    parts = tl.cdiv(n, PART)
    i = tl.arange(0, NP)
    d = tl.arange(0, D)
    ml = tl.load(l_ptr + (s * 2 + h) * 2 + i, mask=i < parts, other=-float("inf"))
    w = tl.exp(ml - tl.max(ml, 0))
    w = w / tl.sum(w, 0)
    t = tl.load(
        tmp_ptr + ((s * 2 + h) * 2 + i[:, None]) * D + d[None, :], mask=(i < parts)[:, None], other=0.0
    )
    tl.store(o_ptr + (s * 2 + h) * D + d, tl.sum(t * w[:, None], 0))


@case(
    (3, 2), tmp_ptr=torch.empty(3, 2, 2, 16), fresh="tmp_ptr", l_ptr=rand(3, 2, 2),
    len_ptr=ints([11, 8, 2]), o_ptr=zeros(3, 2, 16), PART=8, D=16, NP=2,
)  # fmt: skip
@triton.jit
def paged_v2_reduce_unwritten(
    tmp_ptr, l_ptr, len_ptr, o_ptr, PART: tl.constexpr, D: tl.constexpr, NP: tl.constexpr
):
    s = tl.program_id(0)
    h = tl.program_id(1)
    i = tl.arange(0, NP)
    d = tl.arange(0, D)
    n = tl.load(len_ptr + s)
    t = tl.load(tmp_ptr + ((s * 2 + h) * 2 + i[:, None]) * D + d[None, :])  # BUG: uninit argument=tmp_ptr
    t = tl.where((i < tl.cdiv(n, PART))[:, None], t, 0.0)
    tl.store(o_ptr + (s * 2 + h) * D + d, tl.sum(t, 0))


@case(
    (5,), key_ptr=rand(5, 24), cache_ptr=zeros(3, 4, 24), slot_ptr=longs([0, 7, -1, 11, 4]), N=24, B=32,
    PAGE=4,
)  # fmt: skip
@triton.jit
def reshape_and_cache(key_ptr, cache_ptr, slot_ptr, N, B: tl.constexpr, PAGE: tl.constexpr):
    t = tl.program_id(0)
    slot = tl.load(slot_ptr + t)
    if slot < 0:
        return
    c = tl.arange(0, B)
    k = tl.load(key_ptr + t * N + c, mask=c < N)
    tl.store(cache_ptr + (slot // PAGE) * PAGE * N + (slot % PAGE) * N + c, k, mask=c < N)


@case((5,), key_ptr=rand(5, 24), cache_ptr=zeros(3, 4, 24), slot_ptr=longs([0, 7, -1, 11, 4]), N=24, B=32)
@triton.jit
def reshape_and_cache_no_skip(key_ptr, cache_ptr, slot_ptr, N, B: tl.constexpr):
    t = tl.program_id(0)
    slot = tl.load(slot_ptr + t)
    c = tl.arange(0, B)
    k = tl.load(key_ptr + t * N + c, mask=c < N)
    tl.store(cache_ptr + slot * N + c, k, mask=c < N)  # BUG: oob argument=cache_ptr


@case((5,), key_ptr=rand(5, 24), cache_ptr=zeros(3, 4, 24), slot_ptr=longs([0, 7, 3, 7, 4]), N=24, B=32)
@triton.jit
def reshape_and_cache_same_slot(key_ptr, cache_ptr, slot_ptr, N, B: tl.constexpr):
    t = tl.program_id(0)
    slot = tl.load(slot_ptr + t)
    c = tl.arange(0, B)
    k = tl.load(key_ptr + t * N + c, mask=c < N)
    tl.store(cache_ptr + slot * N + c, k, mask=c < N)  # BUG: race argument=cache_ptr


@case((5,), pos_ptr=longs([0, 1, 2, 8, 3]), q_ptr=rand(5, 3, 16), cs_ptr=rand(8, 16), H=3, HD=16)
@triton.jit
def rotary_padded_heads_race(pos_ptr, q_ptr, cs_ptr, H, HD: tl.constexpr):
    t = tl.program_id(0)
    pos = tl.load(pos_ptr + t)
    h = tl.arange(0, 4)[:, None]
    i = tl.arange(0, HD // 2)[None, :]
    cos = tl.load(cs_ptr + pos * HD + i)  # BUG: oob argument=cs_ptr
    a = tl.load(q_ptr + t * H * HD + h * HD + i)  # BUG: oob argument=q_ptr; race argument=q_ptr
    tl.store(q_ptr + t * H * HD + h * HD + i, a * cos)  # BUG: oob argument=q_ptr; race argument=q_ptr


@case(
    (3,), x_ptr=rand(9, 16), a_ptr=rand(2, 8, 16), o_ptr=zeros(9, 8), start_ptr=ints([0, 4, 5]),
    len_ptr=ints([4, 1, 4]), idx_ptr=ints([1, -1, 0]), K=16, R=8, BM=8,
)  # fmt: skip
@triton.jit
def sgmv_no_row_mask(
    x_ptr, a_ptr, o_ptr, start_ptr, len_ptr, idx_ptr, K: tl.constexpr, R: tl.constexpr, BM: tl.constexpr
):
    b = tl.program_id(0)
    M = tl.load(len_ptr + b)
    li = tl.load(idx_ptr + b)
    st = tl.load(start_ptr + b)
    om = tl.arange(0, BM)
    ok = tl.arange(0, K)
    r = tl.arange(0, R)
    x = tl.load(x_ptr + (st + om)[:, None] * K + ok[None, :], mask=(om < M)[:, None], other=0.0)
    a = tl.load(a_ptr + li * R * K + r[:, None] * K + ok[None, :])  # BUG: oob argument=a_ptr
    acc = tl.sum(x[:, None, :] * a[None, :, :], 2)
    tl.store(  # BUG: race argument=o_ptr
        o_ptr + (st + om)[:, None] * R + r[None, :], acc, mask=(st + om < 9)[:, None]
    )


@case(
    (3,), out_ptr=izeros(3, 4), cu_ptr=ints([2, 2, 5]), draft_ptr=ints([4, 1, 0, 2, 3]), dp_ptr=rand(5, 8),
    tp_ptr=rand(5, 8), bonus_ptr=ints([7, 6, 5]), rec_ptr=ints([1, 1, 2, 2, 3]), u_ptr=rand(5), max_spec=3,
    V=8,
)  # fmt: skip
@triton.jit(do_not_specialize=["max_spec"])
def rejection_random(out_ptr, cu_ptr, draft_ptr, dp_ptr, tp_ptr, bonus_ptr, rec_ptr, u_ptr, max_spec, V):
    r = tl.program_id(0)
    s = 0 if r == 0 else tl.load(cu_ptr + r - 1)
    e = tl.load(cu_ptr + r)
    nd = e - s
    rejected = False
    for pos in range(nd):
        if not rejected:
            d = tl.load(draft_ptr + s + pos)
            dp = tl.load(dp_ptr + (s + pos) * V + d)
            tp = tl.load(tp_ptr + (s + pos) * V + d)
            u = tl.load(u_ptr + s + pos)
            if dp > 0 and tp / dp >= u:
                t = d
            else:
                rejected = True
                t = tl.load(rec_ptr + s + pos)
            tl.store(out_ptr + r * (max_spec + 1) + pos, t)
    if not rejected:
        b = tl.load(bonus_ptr + r)
        tl.store(out_ptr + r * (max_spec + 1) + nd, b)


@case(
    (3,), out_ptr=izeros(3, 3), cu_ptr=ints([2, 2, 5]), draft_ptr=ints([4, 1, 0, 2, 3]),
    bonus_ptr=ints([7, 6, 5]), max_spec=2,
)  # fmt: skip
@triton.jit
def rejection_greedy_short_rows(out_ptr, cu_ptr, draft_ptr, bonus_ptr, max_spec):
    r = tl.program_id(0)
    s = 0 if r == 0 else tl.load(cu_ptr + r - 1)
    e = tl.load(cu_ptr + r)
    for pos in range(e - s):
        tl.store(out_ptr + r * (max_spec + 1) + pos, tl.load(draft_ptr + s + pos))
    tl.store(out_ptr + r * (max_spec + 1) + e - s, tl.load(bonus_ptr + r))  # BUG: oob argument=out_ptr


@case((3,), out_ptr=izeros(5), cu_ptr=ints([2, 2, 5]), in_ptr=ints([7, 8, 9]), MAXT=4)
@triton.jit
def expand_by_cu(out_ptr, cu_ptr, in_ptr, MAXT: tl.constexpr):
    r = tl.program_id(0)
    if r == 0:
        s = 0
    else:
        s = tl.load(cu_ptr + r - 1)
    e = tl.load(cu_ptr + r)
    n = e - s
    v = tl.load(in_ptr + r)
    o = tl.arange(0, MAXT)
    tl.store(out_ptr + s + o, v, mask=o < n)


@case((3,), out_ptr=izeros(5), cu_ptr=ints([2, 2, 5]), in_ptr=ints([7, 8, 9]), MAXT=4)
@triton.jit
def expand_by_cu_first_program_reads_before(out_ptr, cu_ptr, in_ptr, MAXT: tl.constexpr):
    r = tl.program_id(0)
    s = tl.load(cu_ptr + r - 1)  # BUG: oob argument=cu_ptr
    s = tl.where(r == 0, 0, s)
    e = tl.load(cu_ptr + r)
    v = tl.load(in_ptr + r)
    o = tl.arange(0, MAXT)
    tl.store(out_ptr + s + o, v, mask=o < e - s)


@case(
    (1, 2), qw_ptr=torch.full((8, 4), 0x76543210, dtype=torch.int32), s_ptr=half(2, 32),
    z_ptr=torch.full((2, 4), 0x11111111, dtype=torch.int32), group=4,
    r_ptr=torch.zeros(8, 32, dtype=torch.float16), num_cols=4, num_rows=8, BX=2, BY=8,
)  # fmt: skip
@triton.jit
def awq_dequant(qw_ptr, s_ptr, z_ptr, group, r_ptr, num_cols, num_rows, BX: tl.constexpr, BY: tl.constexpr):
    px = tl.program_id(1)
    py = tl.program_id(0)
    oy = py * BY + tl.arange(0, BY)
    ox = px * BX + tl.arange(0, BX)
    offs = num_cols * oy[:, None] + ox[None, :]
    masks = (oy < num_rows)[:, None] & (ox < num_cols)[None, :]
    rx = px * BX * 8 + tl.arange(0, BX * 8)
    ro = 8 * num_cols * oy[:, None] + rx[None, :]
    rm = (oy < num_rows)[:, None] & (rx < num_cols * 8)[None, :]
    q = tl.load(qw_ptr + offs, masks, 0.0)
    q = tl.interleave(q, q)
    q = tl.interleave(q, q)
    q = tl.interleave(q, q)
    rev = ((tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]).reshape(8)
    sh = rev * 4
    sh = tl.broadcast_to(sh[None, :], (BY * BX, 8))
    sh = tl.reshape(sh, (BY, BX * 8))
    q = (q >> sh) & 0xF
    zy = py * BY // group + tl.arange(0, 1)
    zx = px * BX + tl.arange(0, BX)
    zo = num_cols * zy[:, None] + zx[None, :]
    zm = (zy < num_rows // group)[:, None] & (zx < num_cols)[None, :]
    z = tl.load(z_ptr + zo, zm, 0.0)
    z = tl.interleave(z, z)
    z = tl.interleave(z, z)
    z = tl.interleave(z, z)
    z = tl.broadcast_to(z, (BY, BX * 8))
    z = (z >> sh) & 0xF
    sx = px * BX * 8 + tl.arange(0, BX * 8)
    so = num_cols * 8 * zy[:, None] + sx[None, :]
    sm = (zy < num_rows // group)[:, None] & (sx < num_cols * 8)[None, :]
    s = tl.load(s_ptr + so, sm, 0.0)
    s = tl.broadcast_to(s, (BY, BX * 8))
    q = (q - z) * s
    tl.store(r_ptr + ro, q.to(tl.float16), rm)


@case(
    (2, 2), w_ptr=torch.full((4, 24), 0x76543210, dtype=torch.int32), s_ptr=half(2, 24),
    g_ptr=ints([0] * 16 + [1] * 15 + [2]), o_ptr=half(32, 24), K=32, N=24, BK=16, BN=16,
)  # fmt: skip
@triton.jit
def gptq_bad_gidx(w_ptr, s_ptr, g_ptr, o_ptr, K, N, BK: tl.constexpr, BN: tl.constexpr):
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    m = (k < K)[:, None] & (n < N)[None, :]
    g = tl.load(g_ptr + k, mask=k < K, other=0)
    w = tl.load(w_ptr + k[:, None] // 4 * N + n[None, :], mask=m, other=0)  # BUG: oob argument=w_ptr
    s = tl.load(s_ptr + g[:, None] * N + n[None, :], mask=m, other=0.0)  # BUG: oob argument=s_ptr
    tl.store(o_ptr + k[:, None] * N + n[None, :], (w * s).to(tl.float16), mask=m)


@case(
    (3,), a_ptr=torch.tensor([240, 17] * 24, dtype=torch.int16).to(torch.uint8).view(torch.int8),
    code_ptr=rand(16), o_ptr=zeros(96), n=48, SPLIT=16,
)  # fmt: skip
@triton.jit
def bnb_dequant4_signed_shift(a_ptr, code_ptr, o_ptr, n, SPLIT: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * SPLIT + tl.arange(0, SPLIT)
    m = offs < n
    a = tl.load(a_ptr + offs, m, other=0)
    hi = tl.load(code_ptr + (a >> 4))  # BUG: oob argument=code_ptr
    tl.store(o_ptr + offs * 2, hi, m)
