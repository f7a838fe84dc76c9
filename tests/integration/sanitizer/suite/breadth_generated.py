"""Kernels as torch.compile writes them, and matmuls by descriptors and by scaled formats."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, longs, rand, zeros


@case(
    (2,), a_ptr=half(48, 32), b_ptr=half(32, 32), c_ptr=torch.zeros(48, 32, dtype=torch.float16), M=48,
    N=32, K=32, BM=16, BN=32, BK=16, NSM=2,
)  # fmt: skip
@triton.jit
def persistent_desc_bug(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, NSM: tl.constexpr
):
    ad = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    cd = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    pid = tl.program_id(0)
    npm = tl.cdiv(M, BM)
    npn = tl.cdiv(N, BN)
    kt = tl.cdiv(K, BK)
    for t in tl.range(pid, npm * npn, NSM - 1):
        pm = t // npn
        pn = t % npn
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for ki in range(kt):
            a = ad.load([pm * BM, ki * BK])
            b = bd.load([ki * BK, pn * BN])
            acc = tl.dot(a, b, acc)
        cd.store([pm * BM, pn * BN], (acc * (pid + 1)).to(tl.float16))  # BUG: race argument=c_ptr


@case(
    (2, 2), oracle=False, a_ptr=torch.zeros(32, 64, dtype=torch.uint8),
    sa_ptr=torch.zeros(32, 4, dtype=torch.uint8), b_ptr=torch.zeros(64, 32, dtype=torch.uint8),
    sb_ptr=torch.zeros(32, 4, dtype=torch.uint8), c_ptr=zeros(32, 32), K=128, BM=16, BN=16, BK=128,
)  # fmt: skip
@triton.jit
def mxfp4_mm(a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    om = pm * BM + tl.arange(0, BM)
    on = pn * BN + tl.arange(0, BN)
    okp = tl.arange(0, BK // 2)
    oks = tl.arange(0, BK // 32)
    a = tl.load(a_ptr + om[:, None] * (K // 2) + okp[None, :])
    b = tl.load(b_ptr + okp[:, None] * 32 + on[None, :])
    sa = tl.load(sa_ptr + om[:, None] * (K // 32) + oks[None, :])
    sb = tl.load(sb_ptr + on[:, None] * (K // 32) + oks[None, :])
    acc = tl.dot_scaled(a, sa, "e2m1", b, sb, "e2m1")
    tl.store(c_ptr + om[:, None] * 32 + on[None, :], acc)


@case(
    (2, 2), oracle=False, a_ptr=torch.zeros(32, 64, dtype=torch.uint8),
    sa_ptr=torch.zeros(32, 4, dtype=torch.uint8), b_ptr=torch.zeros(64, 32, dtype=torch.uint8),
    sb_ptr=torch.zeros(32, 4, dtype=torch.uint8), c_ptr=zeros(32, 32), K=128, BM=16, BN=16, BK=128,
)  # fmt: skip
@triton.jit
def mxfp4_mm_scale_group(
    a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    om = pm * BM + tl.arange(0, BM)
    on = pn * BN + tl.arange(0, BN)
    okp = tl.arange(0, BK // 2)
    oks = tl.arange(0, BK // 32)
    a = tl.load(a_ptr + om[:, None] * (K // 2) + okp[None, :])
    b = tl.load(b_ptr + okp[:, None] * 32 + on[None, :])
    sa = tl.load(sa_ptr + om[:, None] * (K // 16) + oks[None, :])  # BUG: oob argument=sa_ptr
    sb = tl.load(sb_ptr + on[:, None] * (K // 32) + oks[None, :])
    acc = tl.dot_scaled(a, sa, "e2m1", b, sb, "e2m1")
    tl.store(c_ptr + om[:, None] * 32 + on[None, :], acc)


@case((2, 1, 1), in_ptr0=rand(10, 40), out_ptr0=zeros(10), xnumel=10, r0_numel=40, XBLOCK=8, R0_BLOCK=16)
@triton.jit
def triton_red_fused_sum_0(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    x0 = xindex
    _tmp2 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 40 * x0), r0_mask & xmask, eviction_policy="evict_first", other=0.0)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp3 = _tmp2 + tmp1
        _tmp2 = tl.where(r0_mask & xmask, tmp3, _tmp2)
    tmp2 = tl.sum(_tmp2, 1)[:, None]
    tl.store(out_ptr0 + (x0), tmp2, xmask)


@case(
    (2,), in_ptr0=longs([3, -1, 0, 10, -10, 2, 5, 5, 1, 0, 7, 8]), in_ptr1=rand(10, 8),
    out_ptr0=zeros(12, 8), xnumel=96, XBLOCK=64,
)  # fmt: skip
@triton.jit
def triton_poi_index_bug(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // 8
    x0 = xindex % 8
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy="evict_last")
    tmp1 = tl.full([XBLOCK], 10, tl.int32)
    tmp4 = tl.where(tmp0 < 0, tmp0 + tmp1, tmp0)
    tmp6 = tl.load(in_ptr1 + (x0 + 8 * tmp4), xmask)  # BUG: oob argument=in_ptr1
    tl.store(out_ptr0 + (x2), tmp6, xmask)


@case(
    (2,), in_ptr0=longs([3, -1, 0, 9, -11, 2, 5, 5, 1, 0, 7, 8]), in_ptr1=rand(10, 8),
    out_ptr0=zeros(12, 8), xnumel=96, XBLOCK=64,
)  # fmt: skip
@triton.jit
def triton_poi_index_nowrap_bug(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // 8
    x0 = xindex % 8
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy="evict_last")
    tmp6 = tl.load(in_ptr1 + (x0 + 8 * tmp0), xmask)  # BUG: oob argument=in_ptr1
    tl.store(out_ptr0 + (x2), tmp6, xmask)


@case((3,), in_ptr0=rand(4, 5), in_ptr1=rand(4, 7), out_ptr0=zeros(4, 12), xnumel=48, XBLOCK=16)
@triton.jit
def triton_poi_cat_bug(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex % 12
    x1 = xindex // 12
    x2 = xindex
    tmp4 = x0 < 5
    tmp5 = tl.load(in_ptr0 + (5 * x1 + (x0)), tmp4 & xmask, eviction_policy="evict_last", other=0.0)
    tmp9 = tl.load(  # BUG: oob argument=in_ptr1
        in_ptr1 + (7 * x1 + ((-5) + x0)), xmask, eviction_policy="evict_last", other=0.0
    )
    tmp10 = tl.where(tmp4, tmp5, tmp9)
    tl.store(out_ptr0 + (x2), tmp10, xmask)


@triton.jit
def welford_reduce(value, mean, m2, weight, first):
    if first:
        new_w = tl.full(weight.shape, 1, weight.dtype)
        new_mean = value
        new_m2 = tl.zeros_like(m2)
    else:
        delta = value - mean
        new_w = weight + 1
        new_mean = mean + delta / new_w
        new_m2 = m2 + delta * (value - new_mean)
    return new_mean, new_m2, new_w


@triton.jit
def welford_combine(a, b, c, d, e, f):
    delta = d - a
    w = c + f
    r = tl.where(w == 0.0, 0.0, f / w)
    return a + delta * r, b + e + delta * delta * c * r, w


@case((2,), in_ptr0=rand(6, 40), out0=zeros(6), out1=zeros(6), xnumel=6, r0_numel=40, XBLOCK=4, R0_BLOCK=16)
@triton.jit
def triton_red_welford(in_ptr0, out0, out1, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    mean = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    m2 = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    wt = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r = r0_offset + r0_base
        rm = r < r0_numel
        t = tl.load(in_ptr0 + (r + 40 * xindex), rm & xmask, other=0.0)
        nm, n2, nw = welford_reduce(t, mean, m2, wt, r0_offset == 0)
        mean = tl.where(rm & xmask, nm, mean)
        m2 = tl.where(rm & xmask, n2, m2)
        wt = tl.where(rm & xmask, nw, wt)
    a, b, c = tl.reduce((mean, m2, wt), 1, welford_combine)
    tl.store(out0 + xindex, a[:, None], xmask)
    tl.store(out1 + xindex, b[:, None], xmask)


@case((5,), in_ptr0=rand(50), in_ptr1=rand(70), out_ptr0=zeros(50), out_ptr1=zeros(70), XBLOCK=32)
@triton.jit
def triton_for_fused(in_ptr0, in_ptr1, out_ptr0, out_ptr1, XBLOCK: tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(50, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(70, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < 50
        t = tl.load(in_ptr0 + xindex, xmask)
        tl.store(out_ptr0 + xindex, t * 2, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < 70
        t = tl.load(in_ptr1 + xindex, xmask)
        tl.store(out_ptr1 + xindex, t * 3, xmask)
    else:
        pass


@case((5,), in_ptr0=rand(50), in_ptr1=rand(70), out_ptr0=zeros(50), out_ptr1=zeros(70), XBLOCK=32)
@triton.jit
def triton_for_bug(in_ptr0, in_ptr1, out_ptr0, out_ptr1, XBLOCK: tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(50, XBLOCK)
    if pid < num_xblocks_0:
        xindex = pid * XBLOCK + tl.arange(0, XBLOCK)[:]
        xmask = xindex < 70
        t = tl.load(in_ptr0 + xindex, xmask)  # BUG: oob argument=in_ptr0
        tl.store(out_ptr0 + xindex, t * 2, xmask)  # BUG: oob argument=out_ptr0
    else:
        xindex = (pid - num_xblocks_0) * XBLOCK + tl.arange(0, XBLOCK)[:]
        xmask = xindex < 70
        t = tl.load(in_ptr1 + xindex, xmask)
        tl.store(out_ptr1 + xindex, t * 3, xmask)
