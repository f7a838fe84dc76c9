"""Recurrences over time: state-space scans, linear attention by chunks, gated recurrences, delta rules."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, rand, zeros


@triton.jit
def compose(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@case((3,), a_ptr=rand(3, 16), b_ptr=rand(3, 16), out_ptr=zeros(3, 16), n=13, BLOCK=16)
@triton.jit
def first_order_scan(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    t = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row * BLOCK + t, mask=t < n, other=1.0)
    b = tl.load(b_ptr + row * BLOCK + t, mask=t < n, other=0.0)
    _, h = tl.associative_scan((a, b), 0, compose)
    tl.store(out_ptr + row * BLOCK + t, h, mask=t < n)


@case(
    (2, 3), x_ptr=rand(2, 20, 24), a_ptr=rand(24), h_ptr=zeros(2, 24), out_ptr=zeros(2, 20, 24), steps=20,
    d=24, BD=8,
)  # fmt: skip
@triton.jit
def selective_scan_by_steps(x_ptr, a_ptr, h_ptr, out_ptr, steps, d, BD: tl.constexpr):
    batch = tl.program_id(0)
    rd = tl.program_id(1) * BD + tl.arange(0, BD)
    a = tl.load(a_ptr + rd)
    h = tl.load(h_ptr + batch * d + rd)
    x_ptrs = x_ptr + batch * steps * d + rd
    out_ptrs = out_ptr + batch * steps * d + rd
    for _ in range(steps):
        h = h * a + tl.load(x_ptrs)
        tl.store(out_ptrs, h)
        x_ptrs += d
        out_ptrs += d
    tl.store(h_ptr + batch * d + rd, h)


@case((2, 3), x_ptr=rand(2, 20, 24), a_ptr=rand(24), out_ptr=zeros(2, 20, 24), steps=20, d=24, BD=8)
@triton.jit
def selective_scan_stores_after_the_bump(x_ptr, a_ptr, out_ptr, steps, d, BD: tl.constexpr):
    batch = tl.program_id(0)
    rd = tl.program_id(1) * BD + tl.arange(0, BD)
    a = tl.load(a_ptr + rd)
    h = tl.zeros((BD,), tl.float32)
    x_ptrs = x_ptr + batch * steps * d + rd
    out_ptrs = out_ptr + batch * steps * d + rd
    for _ in range(steps):
        h = h * a + tl.load(x_ptrs)
        x_ptrs += d
        out_ptrs += d
        # BUG: oob argument=out_ptr
        tl.store(out_ptrs, h)


@case((2, 3), x_ptr=rand(2, 20, 24), h_ptr=zeros(2, 24), steps=20, d=24, BD=16)
@triton.jit
def final_state_blocks_overlap(x_ptr, h_ptr, steps, d, BD: tl.constexpr):
    batch = tl.program_id(0)
    rd = tl.program_id(1) * (BD // 2) + tl.arange(0, BD)
    ok = rd < d
    h = tl.zeros((BD,), tl.float32) + tl.program_id(1)
    for t in range(steps):
        h = h * 0.5 + tl.load(x_ptr + (batch * steps + t) * d + rd, mask=ok, other=0.0)
    tl.store(h_ptr + batch * d + rd, h, mask=ok)  # BUG: race argument=h_ptr


@case(
    (2,), q_ptr=half(2, 40, 16), k_ptr=half(2, 40, 16), v_ptr=half(2, 40, 16), out_ptr=zeros(2, 40, 16),
    n=40, C=16, D=16,
)  # fmt: skip
@triton.jit
def linear_attention_by_chunks(q_ptr, k_ptr, v_ptr, out_ptr, n, C: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(0) * n * D
    rc = tl.arange(0, C)
    rd = tl.arange(0, D)
    state = tl.zeros((D, D), tl.float32)
    for start in range(0, n, C):
        rows = start + rc
        at = base + rows[:, None] * D + rd[None, :]
        ok = rows[:, None] < n
        q = tl.load(q_ptr + at, mask=ok, other=0)
        k = tl.load(k_ptr + at, mask=ok, other=0)
        v = tl.load(v_ptr + at, mask=ok, other=0)
        inner = tl.where(rc[:, None] >= rc[None, :], tl.dot(q, tl.trans(k)), 0.0)
        out = tl.dot(inner.to(v.dtype), v) + tl.dot(q, state.to(q.dtype))
        state += tl.dot(tl.trans(k), v)
        tl.store(out_ptr + at, out, mask=ok)


@case((2, 3), k_ptr=half(2, 48, 16), v_ptr=half(2, 48, 16), state_ptr=zeros(2, 2, 16, 16), n=48, C=16, D=16)
@triton.jit
def chunk_states_one_too_few(k_ptr, v_ptr, state_ptr, n, C: tl.constexpr, D: tl.constexpr):
    batch = tl.program_id(0)
    chunk = tl.program_id(1)
    rd = tl.arange(0, D)
    at = batch * n * D + (chunk * C + tl.arange(0, C))[:, None] * D + rd[None, :]
    s = tl.dot(tl.trans(tl.load(k_ptr + at)), tl.load(v_ptr + at))
    to = state_ptr + (batch * 2 + chunk) * D * D + rd[:, None] * D + rd[None, :]
    tl.store(to, s + chunk)  # BUG: oob argument=state_ptr; race argument=state_ptr


@case((2, 3), k_ptr=half(2, 48, 16), state_ptr=zeros(2, 3, 16), C=16, D=16, n=48)
@triton.jit
def chunk_states_read_by_the_next_chunk(k_ptr, state_ptr, n, C: tl.constexpr, D: tl.constexpr):
    batch = tl.program_id(0)
    chunk = tl.program_id(1)
    rd = tl.arange(0, D)
    at = batch * n * D + (chunk * C + tl.arange(0, C))[:, None] * D + rd[None, :]
    s = tl.sum(tl.load(k_ptr + at).to(tl.float32), 0)
    to = state_ptr + (batch * 3 + chunk) * D + rd
    if chunk > 0:
        s += tl.load(to - D)  # BUG: race argument=state_ptr
    tl.store(to, s)  # BUG: race argument=state_ptr


@case((2,), x_ptr=rand(2, 30), gate_ptr=rand(2, 30), out_ptr=zeros(2, 30), n=30, BLOCK=8)
@triton.jit
def gated_recurrence_backwards(x_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    t = tl.arange(0, BLOCK)
    carry = 0.0
    for i in range(tl.cdiv(n, BLOCK)):
        offs = n - 1 - i * BLOCK - t
        x = tl.load(x_ptr + row * n + offs, mask=offs >= 0, other=0.0)
        g = tl.load(gate_ptr + row * n + offs, mask=offs >= 0, other=0.0)
        total = tl.cumsum(x * g, 0) + carry
        tl.store(out_ptr + row * n + offs, total, mask=offs >= 0)
        carry += tl.sum(x * g, 0)


@case((2,), x_ptr=rand(2, 30), out_ptr=zeros(2, 30), n=30, BLOCK=8)
@triton.jit
def gated_recurrence_backwards_tail_unmasked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    t = tl.arange(0, BLOCK)
    for i in range(tl.cdiv(n, BLOCK)):
        offs = n - 1 - i * BLOCK - t
        x = tl.load(x_ptr + row * n + offs)  # BUG: oob argument=x_ptr
        tl.store(out_ptr + row * n + offs, x, mask=offs >= 0)
