"""Causal attention of one head."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, out, lse, n, scale, D: tl.constexpr, Q: tl.constexpr, KEYS: tl.constexpr):
    """All keys of a block of queries at once, causal."""
    rows = tl.program_id(0) * Q + tl.arange(0, Q)
    keys, deep = tl.arange(0, KEYS), tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + deep, mask=rows[:, None] < n, other=0.0)
    key = tl.load(k + keys[None, :] * D + deep[:, None], mask=keys[None, :] < n, other=0.0)
    value = tl.load(v + keys[:, None] * D + deep, mask=keys[:, None] < n, other=0.0)
    score = tl.dot(query, key) * scale
    score = tl.where((keys[None, :] <= rows[:, None]) & (keys[None, :] < n), score, -float("inf"))
    largest = tl.max(score, 1)
    power = tl.exp(score - largest[:, None])
    total = tl.sum(power, 1)
    done = tl.dot(power / total[:, None], value)
    tl.store(out + rows[:, None] * D + deep, done, mask=rows[:, None] < n)
    tl.store(lse + rows, largest + tl.log(total), mask=rows < n)


@triton.jit
def attention_flash(q, k, v, out, lse, n, scale, D: tl.constexpr, Q: tl.constexpr, KEYS: tl.constexpr):
    """Blocks of keys, rescaled as they come, in powers of two."""
    rows = tl.program_id(0) * Q + tl.arange(0, Q)
    deep = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + deep, mask=rows[:, None] < n, other=0.0)
    largest = tl.full([Q], -float("inf"), tl.float32)
    total = tl.zeros([Q], tl.float32)
    done = tl.zeros([Q, D], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * Q, KEYS):
        keys = start + tl.arange(0, KEYS)
        key = tl.load(k + keys[None, :] * D + deep[:, None], mask=keys[None, :] < n, other=0.0)
        score = tl.dot(query, key) * (scale * 1.4426950408889634)
        score = tl.where((keys[None, :] <= rows[:, None]) & (keys[None, :] < n), score, -float("inf"))
        new = tl.maximum(largest, tl.max(score, 1))
        power = tl.exp2(score - new[:, None])
        rescale = tl.exp2(largest - new)
        total = total * rescale + tl.sum(power, 1)
        value = tl.load(v + keys[:, None] * D + deep, mask=keys[:, None] < n, other=0.0)
        done = tl.dot(power, value, done * rescale[:, None])
        largest = new
    done = done / total[:, None]
    tl.store(out + rows[:, None] * D + deep, done, mask=rows[:, None] < n)
    tl.store(lse + rows, (largest + tl.log2(total)) * 0.6931471805599453, mask=rows < n)


@triton.jit
def attention_not_rescaled(q, k, v, out, lse, n, scale, D: tl.constexpr, Q: tl.constexpr, KEYS: tl.constexpr):
    rows = tl.program_id(0) * Q + tl.arange(0, Q)
    deep = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + deep, mask=rows[:, None] < n, other=0.0)
    largest = tl.full([Q], -float("inf"), tl.float32)
    total = tl.zeros([Q], tl.float32)
    done = tl.zeros([Q, D], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * Q, KEYS):
        keys = start + tl.arange(0, KEYS)
        key = tl.load(k + keys[None, :] * D + deep[:, None], mask=keys[None, :] < n, other=0.0)
        score = tl.dot(query, key) * scale
        score = tl.where((keys[None, :] <= rows[:, None]) & (keys[None, :] < n), score, -float("inf"))
        new = tl.maximum(largest, tl.max(score, 1))
        power = tl.exp(score - new[:, None])
        total = total * tl.exp(largest - new) + tl.sum(power, 1)
        value = tl.load(v + keys[:, None] * D + deep, mask=keys[:, None] < n, other=0.0)
        done = tl.dot(power, value, done)
        largest = new
    tl.store(out + rows[:, None] * D + deep, done / total[:, None], mask=rows[:, None] < n)
    tl.store(lse + rows, largest + tl.log(total), mask=rows < n)


@triton.jit
def attention_later_keys(q, k, v, out, lse, n, scale, D: tl.constexpr, Q: tl.constexpr, KEYS: tl.constexpr):
    rows = tl.program_id(0) * Q + tl.arange(0, Q)
    keys, deep = tl.arange(0, KEYS), tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + deep, mask=rows[:, None] < n, other=0.0)
    key = tl.load(k + keys[None, :] * D + deep[:, None], mask=keys[None, :] < n, other=0.0)
    value = tl.load(v + keys[:, None] * D + deep, mask=keys[:, None] < n, other=0.0)
    score = tl.dot(query, key) * scale
    score = tl.where((keys[None, :] <= rows[:, None] + 1) & (keys[None, :] < n), score, -float("inf"))
    largest = tl.max(score, 1)
    power = tl.exp(score - largest[:, None])
    total = tl.sum(power, 1)
    done = tl.dot(power / total[:, None], value)
    tl.store(out + rows[:, None] * D + deep, done, mask=rows[:, None] < n)
    tl.store(lse + rows, largest + tl.log(total), mask=rows < n)
