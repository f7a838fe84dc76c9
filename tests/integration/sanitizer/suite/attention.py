"""Attention over contiguous tensors: flash, causal, windowed, grouped heads, split KV, backward."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, rand, zeros


def heads(seq=40, kv=40, batch_heads=2, d=16):
    return {
        "q_ptr": half(batch_heads, seq, d), "k_ptr": half(batch_heads, kv, d),
        "v_ptr": half(batch_heads, kv, d), "out_ptr": half(batch_heads, seq, d), "seq": seq, "kv": kv,
        "scale": 0.25, "BM": 16, "BN": 16, "D": d,
    }  # fmt: skip


@triton.jit
def softmax_step(acc, top, total, scores, v):
    new_top = tl.maximum(top, tl.max(scores, 1))
    p = tl.exp(scores - new_top[:, None])
    alpha = tl.exp(top - new_top)
    acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
    return acc, new_top, total * alpha + tl.sum(p, 1)


@case((3, 2), **heads())
@triton.jit
def flash_forward(
    q_ptr, k_ptr, v_ptr, out_ptr, seq, kv, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + head * seq * D + rm[:, None] * D + rd[None, :], mask=rm[:, None] < seq, other=0)
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, kv, BN):
        rn = start + tl.arange(0, BN)
        at = head * kv * D + rn[:, None] * D + rd[None, :]
        k = tl.load(k_ptr + at, mask=rn[:, None] < kv, other=0)
        v = tl.load(v_ptr + at, mask=rn[:, None] < kv, other=0)
        scores = tl.where(rn[None, :] < kv, tl.dot(q, tl.trans(k)) * scale, -1e30)
        acc, top, total = softmax_step(acc, top, total, scores, v)
    out = acc / total[:, None]
    tl.store(out_ptr + head * seq * D + rm[:, None] * D + rd[None, :], out, mask=rm[:, None] < seq)


@case((3, 2), heavy=True, **heads())
@triton.jit
def flash_forward_v_tail_unmasked(
    q_ptr, k_ptr, v_ptr, out_ptr, seq, kv, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + head * seq * D + rm[:, None] * D + rd[None, :], mask=rm[:, None] < seq, other=0)
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, kv, BN):
        rn = start + tl.arange(0, BN)
        at = head * kv * D + rn[:, None] * D + rd[None, :]
        k = tl.load(k_ptr + at, mask=rn[:, None] < kv, other=0)
        v = tl.load(v_ptr + at)  # BUG: oob argument=v_ptr
        scores = tl.where(rn[None, :] < kv, tl.dot(q, tl.trans(k)) * scale, -1e30)
        acc, top, total = softmax_step(acc, top, total, scores, v)
    out = acc / total[:, None]
    tl.store(out_ptr + head * seq * D + rm[:, None] * D + rd[None, :], out, mask=rm[:, None] < seq)


@case((3, 2), heavy=True, **heads(kv=48))
@triton.jit
def flash_forward_loop_over_queries(
    q_ptr, k_ptr, v_ptr, out_ptr, seq, kv, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + head * seq * D + rm[:, None] * D + rd[None, :], mask=rm[:, None] < seq, other=0)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, kv + BN, BN):
        rn = start + tl.arange(0, BN)
        k = tl.load(k_ptr + head * kv * D + rn[:, None] * D + rd[None, :])  # BUG: oob argument=k_ptr
        v = tl.load(v_ptr + head * kv * D + rn[:, None] * D + rd[None, :])  # BUG: oob argument=v_ptr
        acc += tl.dot((tl.dot(q, tl.trans(k)) * scale).to(v.dtype), v)
    tl.store(out_ptr + head * seq * D + rm[:, None] * D + rd[None, :], acc, mask=rm[:, None] < seq)


@case((3, 2), **heads(seq=48, kv=48))
@triton.jit
def flash_forward_causal_two_phases(
    q_ptr, k_ptr, v_ptr, out_ptr, seq, kv, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    start_m = tl.program_id(0)
    rm = start_m * BM + tl.arange(0, BM)
    head = tl.program_id(1).to(tl.int64)
    rd = tl.arange(0, D)
    base = head * seq * D
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    k_ptrs = k_ptr + base + tl.arange(0, BN)[None, :] * D + rd[:, None]
    v_ptrs = v_ptr + base + tl.arange(0, BN)[:, None] * D + rd[None, :]
    # First what lies wholly below the diagonal, then the diagonal's block.
    for _ in range(0, start_m * BM, BN):
        scores = tl.dot(q, tl.load(k_ptrs)) * scale
        acc, top, total = softmax_step(acc, top, total, scores, tl.load(v_ptrs))
        k_ptrs += BN * D
        v_ptrs += BN * D
    for start in range(start_m * BM, (start_m + 1) * BM, BN):
        rn = start + tl.arange(0, BN)
        scores = tl.dot(q, tl.load(k_ptrs)) * scale
        scores = tl.where(rm[:, None] >= rn[None, :], scores, -1e30)
        acc, top, total = softmax_step(acc, top, total, scores, tl.load(v_ptrs))
        k_ptrs += BN * D
        v_ptrs += BN * D
    tl.store(out_ptr + base + rm[:, None] * D + rd[None, :], acc / total[:, None])


@case((3, 2), heavy=True, **heads(seq=48, kv=48))
@triton.jit
def flash_forward_causal_end_off_by_a_block(
    q_ptr, k_ptr, v_ptr, out_ptr, seq, kv, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    start_m = tl.program_id(0)
    rm = start_m * BM + tl.arange(0, BM)
    base = tl.program_id(1) * seq * D
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, (start_m + 2) * BM, BN):
        rn = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + rn[None, :] * D + rd[:, None])  # BUG: oob argument=k_ptr
        v = tl.load(v_ptr + base + rn[:, None] * D + rd[None, :])  # BUG: oob argument=v_ptr
        scores = tl.where(rm[:, None] >= rn[None, :], tl.dot(q, k) * scale, -1e30)
        acc, top, total = softmax_step(acc, top, total, scores, v)
    tl.store(out_ptr + base + rm[:, None] * D + rd[None, :], acc / total[:, None])


@case((3, 2), **heads(seq=48, kv=48), WINDOW=20)
@triton.jit
def sliding_window(
    q_ptr, k_ptr, v_ptr, out_ptr, seq, kv, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    WINDOW: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BM
    rm = start_m + tl.arange(0, BM)
    base = tl.program_id(1) * seq * D
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    low = tl.maximum(start_m - WINDOW, 0) // BN * BN
    for start in range(low, start_m + BM, BN):
        rn = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + rn[None, :] * D + rd[:, None])
        v = tl.load(v_ptr + base + rn[:, None] * D + rd[None, :])
        near = (rm[:, None] >= rn[None, :]) & (rm[:, None] - rn[None, :] <= WINDOW)
        scores = tl.where(near, tl.dot(q, k) * scale, -1e30)
        acc, top, total = softmax_step(acc, top, total, scores, v)
    tl.store(out_ptr + base + rm[:, None] * D + rd[None, :], acc / total[:, None])


@case((3, 2), heavy=True, **heads(seq=48, kv=48), WINDOW=20)
@triton.jit
def sliding_window_start_not_clamped(
    q_ptr, k_ptr, v_ptr, out_ptr, seq, kv, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    WINDOW: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BM
    rm = start_m + tl.arange(0, BM)
    base = tl.program_id(1) * seq * D
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(start_m - WINDOW, start_m + BM, BN):
        rn = start + tl.arange(0, BN)
        # The first block of queries looks before the first key.
        ok = rn < kv
        # BUG: oob argument=k_ptr
        k = tl.load(k_ptr + base + rn[None, :] * D + rd[:, None], mask=ok[None, :], other=0)
        # BUG: oob argument=v_ptr
        v = tl.load(v_ptr + base + rn[:, None] * D + rd[None, :], mask=ok[:, None], other=0)
        acc += tl.dot((tl.dot(q, k) * scale).to(v.dtype), v)
    tl.store(out_ptr + base + rm[:, None] * D + rd[None, :], acc)


@case(
    (2, 4, 2), q_ptr=half(2, 4, 20, 16), k_ptr=half(2, 2, 24, 16), out_ptr=zeros(2, 4, 20, 24), seq=20,
    kv=24, heads=4, kv_heads=2, BM=16, N=32, D=16,
)  # fmt: skip
@triton.jit
def grouped_query_scores(
    q_ptr, k_ptr, out_ptr, seq, kv, heads, kv_heads, BM: tl.constexpr, N: tl.constexpr, D: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    batch = tl.program_id(2)
    kv_head = head // (heads // kv_heads)
    rd = tl.arange(0, D)
    rn = tl.arange(0, N)
    q_base = (batch * heads + head) * seq
    k_base = (batch * kv_heads + kv_head) * kv
    q = tl.load(q_ptr + (q_base + rm)[:, None] * D + rd[None, :], mask=rm[:, None] < seq, other=0)
    k = tl.load(k_ptr + (k_base + rn)[None, :] * D + rd[:, None], mask=rn[None, :] < kv, other=0)
    ok = (rm[:, None] < seq) & (rn[None, :] < kv)
    tl.store(out_ptr + (q_base + rm)[:, None] * kv + rn[None, :], tl.dot(q, k), mask=ok)


@case(
    (2, 4, 2), heavy=True, q_ptr=half(2, 4, 20, 16), k_ptr=half(2, 2, 24, 16), out_ptr=zeros(2, 4, 20, 24),
    seq=20, kv=24, heads=4, kv_heads=2, BM=16, N=32, D=16,
)  # fmt: skip
@triton.jit
def grouped_query_head_not_divided(
    q_ptr, k_ptr, out_ptr, seq, kv, heads, kv_heads, BM: tl.constexpr, N: tl.constexpr, D: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    batch = tl.program_id(2)
    rd = tl.arange(0, D)
    rn = tl.arange(0, N)
    q_base = (batch * heads + head) * seq
    k_base = (batch * kv_heads + head) * kv
    q = tl.load(q_ptr + (q_base + rm)[:, None] * D + rd[None, :], mask=rm[:, None] < seq, other=0)
    at = k_ptr + (k_base + rn)[None, :] * D + rd[:, None]
    k = tl.load(at, mask=rn[None, :] < kv, other=0)  # BUG: oob argument=k_ptr
    ok = (rm[:, None] < seq) & (rn[None, :] < kv)
    tl.store(out_ptr + (q_base + rm)[:, None] * kv + rn[None, :], tl.dot(q, k), mask=ok)


@case(
    (2, 3), q_ptr=rand(2, 16), k_ptr=rand(2, 40, 16), v_ptr=rand(2, 40, 16), partial_ptr=zeros(2, 3, 16),
    lse_ptr=zeros(2, 3), kv=40, splits=3, CHUNK=16, D=16,
)  # fmt: skip
@triton.jit
def decode_split_kv(
    q_ptr, k_ptr, v_ptr, partial_ptr, lse_ptr, kv, splits, CHUNK: tl.constexpr, D: tl.constexpr
):
    head = tl.program_id(0)
    split = tl.program_id(1)
    rn = split * CHUNK + tl.arange(0, CHUNK)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + rd)
    at = head * kv * D + rn[:, None] * D + rd[None, :]
    k = tl.load(k_ptr + at, mask=rn[:, None] < kv, other=0)
    v = tl.load(v_ptr + at, mask=rn[:, None] < kv, other=0)
    scores = tl.where(rn < kv, tl.sum(k * q[None, :], 1), -1e30)
    top = tl.max(scores, 0)
    p = tl.exp(scores - top)
    to = head * splits + split
    tl.store(partial_ptr + to * D + rd, tl.sum(p[:, None] * v, 0) / tl.sum(p, 0))
    tl.store(lse_ptr + to, top + tl.log(tl.sum(p, 0)))


@case(
    (2, 3), q_ptr=rand(2, 16), k_ptr=rand(2, 40, 16), partial_ptr=zeros(2, 3, 16), lse_ptr=zeros(2, 3),
    kv=40, splits=3, CHUNK=16, D=16,
)  # fmt: skip
@triton.jit
def decode_splits_share_a_slot(
    q_ptr, k_ptr, partial_ptr, lse_ptr, kv, splits, CHUNK: tl.constexpr, D: tl.constexpr
):
    head = tl.program_id(0)
    split = tl.program_id(1)
    rn = split * CHUNK + tl.arange(0, CHUNK)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + rd)
    k = tl.load(k_ptr + head * kv * D + rn[:, None] * D + rd[None, :], mask=rn[:, None] < kv, other=0)
    scores = tl.where(rn < kv, tl.sum(k * q[None, :], 1), -1e30)
    to = head * 2 + split
    tl.store(partial_ptr + to * D + rd, tl.sum(scores[:, None] * k, 0))  # BUG: race argument=partial_ptr
    tl.store(lse_ptr + to, tl.max(scores, 0))  # BUG: race argument=lse_ptr


@case((2,), partial_ptr=rand(2, 3, 16), lse_ptr=rand(2, 3), out_ptr=zeros(2, 16), splits=3, S=4, D=16)
@triton.jit
def decode_combine(partial_ptr, lse_ptr, out_ptr, splits, S: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(0)
    rs = tl.arange(0, S)
    rd = tl.arange(0, D)
    lse = tl.load(lse_ptr + head * splits + rs, mask=rs < splits, other=-float("inf"))
    weight = tl.exp(lse - tl.max(lse, 0))
    at = partial_ptr + (head * splits + rs)[:, None] * D + rd[None, :]
    partial = tl.load(at, mask=(rs < splits)[:, None], other=0)
    tl.store(out_ptr + head * D + rd, tl.sum(partial * weight[:, None], 0) / tl.sum(weight, 0))


@case((2,), partial_ptr=rand(2, 3, 16), lse_ptr=rand(2, 3), out_ptr=zeros(2, 16), splits=3, S=4, D=16)
@triton.jit
def decode_combine_splits_rounded_up(partial_ptr, lse_ptr, out_ptr, splits, S: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(0)
    rs = tl.arange(0, S)
    rd = tl.arange(0, D)
    lse = tl.load(lse_ptr + head * splits + rs)  # BUG: oob argument=lse_ptr
    weight = tl.exp(lse - tl.max(lse, 0))
    at = partial_ptr + (head * splits + rs)[:, None] * D + rd[None, :]
    partial = tl.load(at)  # BUG: oob argument=partial_ptr
    tl.store(out_ptr + head * D + rd, tl.sum(partial * weight[:, None], 0) / tl.sum(weight, 0))


def gradients():
    return {
        "q_ptr": half(48, 16), "k_ptr": half(48, 16), "do_ptr": half(48, 16), "dq_ptr": zeros(48, 16),
        "dk_ptr": zeros(48, 16), "seq": 48, "BM": 16, "BN": 16, "D": 16,
    }  # fmt: skip


@case((3,), **gradients())
@triton.jit
def backward_by_key_blocks_atomic_dq(
    q_ptr, k_ptr, do_ptr, dq_ptr, dk_ptr, seq, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rd = tl.arange(0, D)
    k = tl.load(k_ptr + rn[:, None] * D + rd[None, :])
    dk = tl.zeros((BN, D), tl.float32)
    for start in range(0, seq, BM):
        at = (start + tl.arange(0, BM))[:, None] * D + rd[None, :]
        q = tl.load(q_ptr + at)
        do = tl.load(do_ptr + at)
        ds = tl.dot(q, tl.trans(k)).to(q.dtype)
        dk += tl.dot(tl.trans(ds), do)
        tl.atomic_add(dq_ptr + at, tl.dot(ds, k))
    tl.store(dk_ptr + rn[:, None] * D + rd[None, :], dk)


@case((3,), heavy=True, **gradients())
@triton.jit
def backward_by_key_blocks_plain_dq(
    q_ptr, k_ptr, do_ptr, dq_ptr, dk_ptr, seq, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rd = tl.arange(0, D)
    k = tl.load(k_ptr + rn[:, None] * D + rd[None, :])
    dk = tl.zeros((BN, D), tl.float32)
    for start in range(0, seq, BM):
        at = (start + tl.arange(0, BM))[:, None] * D + rd[None, :]
        q = tl.load(q_ptr + at)
        do = tl.load(do_ptr + at)
        ds = tl.dot(q, tl.trans(k)).to(q.dtype)
        dk += tl.dot(tl.trans(ds), do)
        dq = tl.load(dq_ptr + at)  # BUG: race argument=dq_ptr
        tl.store(dq_ptr + at, dq + tl.dot(ds, k))  # BUG: race argument=dq_ptr
    tl.store(dk_ptr + rn[:, None] * D + rd[None, :], dk)
