"""Kernels that route tokens to experts."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, izeros, rand


def moe(sorted_ids=None, experts=None, post=None, **k):
    # 6 tokens, topk 2, 3 experts, BM 4 → padded 16..
    tk = 12
    s = sorted_ids or [0, 3, 6, 12, 1, 4, 9, 12, 2, 5, 7, 8, 10, 11, 12, 12, 12, 12, 12, 12]
    e = experts or [0, 1, 2, 2, -1]
    return dict(
        a_ptr=half(6, 32), b_ptr=half(3, 24, 32), c_ptr=torch.zeros(12, 24, dtype=torch.float16),
        w_ptr=rand(12), sorted_ptr=ints(s), expert_ptr=ints(e), post_ptr=ints([post or 16]), N=24, K=32,
        EM=20, num_valid=tk, sam=32, sak=1, sbe=768, sbk=1, sbn=32, scm=24, scn=1, BM=4, BN=16, BK=16, GM=1,
        top_k=2, **k,
    )  # fmt: skip


@case((10,), **moe())
@triton.jit
def fused_moe(
    a_ptr, b_ptr, c_ptr, w_ptr, sorted_ptr, expert_ptr, post_ptr, N, K, EM, num_valid, sam, sak, sbe, sbk,
    sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GM: tl.constexpr,
    top_k: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    npm = tl.cdiv(EM, BM)
    npn = tl.cdiv(N, BN)
    g = GM * npn
    gid = pid // g
    first = gid * GM
    gs = min(npm - first, GM)
    pm = first + ((pid % g) % gs)
    pn = (pid % g) // gs
    post = tl.load(post_ptr)
    if pm * BM >= post:
        return
    oti = pm * BM + tl.arange(0, BM).to(tl.int64)
    ot = tl.load(sorted_ptr + oti)
    tm = ot < num_valid
    e = tl.load(expert_ptr + pm).to(tl.int64)
    if e == -1:
        return
    obn = (pn * BN + tl.arange(0, BN).to(tl.int64)) % N
    ok = tl.arange(0, BK)
    ap = a_ptr + (ot[:, None] // top_k * sam + ok[None, :] * sak)
    bp = b_ptr + e * sbe + (ok[:, None] * sbk + obn[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(ap, mask=tm[:, None] & (ok[None, :] < K - k * BK), other=0.0)
        b = tl.load(bp, mask=ok[:, None] < K - k * BK, other=0.0)
        acc += tl.sum(a[:, :, None].to(tl.float32) * b[None, :, :].to(tl.float32), axis=1)
        ap += BK * sak
        bp += BK * sbk
    w = tl.load(w_ptr + ot, mask=tm, other=0)
    acc = acc * w[:, None]
    ocn = pn * BN + tl.arange(0, BN)
    cp = c_ptr + scm * ot[:, None] + scn * ocn[None, :]
    tl.store(cp, acc.to(tl.float16), mask=tm[:, None] & (ocn[None, :] < N))


@case((10,), **moe(experts=[0, 1, 3, 2, -1]))
@triton.jit
def fused_moe_bad_expert(
    a_ptr, b_ptr, c_ptr, w_ptr, sorted_ptr, expert_ptr, post_ptr, N, K, EM, num_valid, sam, sak, sbe, sbk,
    sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GM: tl.constexpr,
    top_k: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    npn = tl.cdiv(N, BN)
    pm = pid // npn
    pn = pid % npn
    post = tl.load(post_ptr)
    if pm * BM >= post:
        return
    ot = tl.load(sorted_ptr + pm * BM + tl.arange(0, BM))
    tm = ot < num_valid
    e = tl.load(expert_ptr + pm)
    obn = (pn * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    ap = a_ptr + (ot[:, None] // top_k * sam + ok[None, :] * sak)
    bp = b_ptr + e * sbe + (ok[:, None] * sbk + obn[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        a = tl.load(ap, mask=tm[:, None], other=0.0)
        b = tl.load(bp)  # BUG: oob argument=b_ptr
        acc += tl.sum(a[:, :, None].to(tl.float32) * b[None, :, :].to(tl.float32), axis=1)
        ap += BK * sak
        bp += BK * sbk
    ocn = pn * BN + tl.arange(0, BN)
    cp = c_ptr + scm * ot[:, None] + scn * ocn[None, :]
    tl.store(cp, acc.to(tl.float16), mask=tm[:, None] & (ocn[None, :] < N))


@case((10,), **moe())
@triton.jit
def fused_moe_no_token_mask(
    a_ptr, b_ptr, c_ptr, w_ptr, sorted_ptr, expert_ptr, post_ptr, N, K, EM, num_valid, sam, sak, sbe, sbk,
    sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GM: tl.constexpr,
    top_k: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    npn = tl.cdiv(N, BN)
    pm = pid // npn
    pn = pid % npn
    if pm * BM >= tl.load(post_ptr):
        return
    ot = tl.load(sorted_ptr + pm * BM + tl.arange(0, BM))
    tm = ot < num_valid
    w = tl.load(w_ptr + ot)  # BUG: oob argument=w_ptr
    ocn = pn * BN + tl.arange(0, BN)
    cp = c_ptr + scm * ot[:, None] + scn * ocn[None, :]
    tl.store(cp, (w[:, None] + ocn[None, :]).to(tl.float16), mask=tm[:, None] & (ocn[None, :] < N))


@case((4,), ids_ptr=ints([0, 2, 1, 1, 2, 0, 2, 2, 1, 0]), tc_ptr=izeros(5, 3), E=3, numel=10, per=3)
@triton.jit
def moe_align_stage1(ids_ptr, tc_ptr, E: tl.constexpr, numel: tl.constexpr, per: tl.constexpr):
    pid = tl.program_id(0)
    start = pid * per
    off_c = (pid + 1) * E
    for i in range(per):
        if start + i < numel:
            idx = tl.load(ids_ptr + start + i)
            c = tl.load(tc_ptr + off_c + idx)
            tl.store(tc_ptr + off_c + idx, c + 1)


@case((4,), ids_ptr=ints([0, 2, 1, 1, 2, 0, 2, 2, 1, 0]), tc_ptr=izeros(4, 3), E=3, numel=10, per=3)
@triton.jit
def moe_align_stage1_bug(ids_ptr, tc_ptr, E: tl.constexpr, numel: tl.constexpr, per: tl.constexpr):
    pid = tl.program_id(0)
    start = pid * per
    off_c = (pid + 1) * E
    for i in range(per):
        if start + i < numel:
            idx = tl.load(ids_ptr + start + i)
            c = tl.load(tc_ptr + off_c + idx)  # BUG: oob argument=tc_ptr
            tl.store(tc_ptr + off_c + idx, c + 1)  # BUG: oob argument=tc_ptr


@case((3,), tc_ptr=ints([[0, 0, 0], [1, 1, 1], [1, 1, 1], [0, 1, 2], [1, 0, 0]]), E=3, NP=4)
@triton.jit
def moe_align_stage2(tc_ptr, E: tl.constexpr, NP: tl.constexpr):
    pid = tl.program_id(0)
    last = 0
    for i in range(1, NP + 1):
        c = tl.load(tc_ptr + i * E + pid)
        last = last + c
        tl.store(tc_ptr + i * E + pid, last)


@case(
    (3,), sorted_ptr=izeros(24), eid_ptr=izeros(6),
    tc_ptr=ints([[0, 0, 0], [1, 1, 1], [2, 2, 2], [2, 3, 4], [3, 3, 4]]), cum_ptr=ints([0, 4, 8, 12]),
    ids_ptr=ints([0, 2, 1, 1, 2, 0, 2, 2, 1, 0]), E=3, BS=4, numel=10, per=3,
)  # fmt: skip
@triton.jit
def moe_align_stage4(
    sorted_ptr, eid_ptr, tc_ptr, cum_ptr, ids_ptr, E: tl.constexpr, BS: tl.constexpr, numel: tl.constexpr,
    per: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    s = tl.load(cum_ptr + pid)
    e = tl.load(cum_ptr + pid + 1)
    for i in range(s, e, BS):
        tl.store(eid_ptr + i // BS, pid)
    st = pid * per
    off = pid * E
    for i in range(st, tl.minimum(st + per, numel)):
        x = tl.load(ids_ptr + i)
        c = tl.load(tc_ptr + off + x)
        rank = c + tl.load(cum_ptr + x)
        tl.store(sorted_ptr + rank, i)
        tl.store(tc_ptr + off + x, c + 1)
