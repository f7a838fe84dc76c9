"""Cross entropy."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def cross_entropy(x, target, loss, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf")).to(tl.float32)
    largest = tl.max(value, 0)
    total = largest + tl.log(tl.sum(tl.exp(value - largest), 0))
    tl.store(loss + row, total - tl.load(x + row * n + tl.load(target + row)))


@triton.jit
def cross_entropy_online(x, target, loss, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    largest = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(value))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(value - new))
        largest = new
    mine = tl.load(x + row * n + tl.load(target + row)).to(tl.float32)
    tl.store(loss + row, -(mine - largest - tl.log(total)))


@triton.jit
def cross_entropy_next_target(x, target, loss, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf")).to(tl.float32)
    largest = tl.max(value, 0)
    total = largest + tl.log(tl.sum(tl.exp(value - largest), 0))
    tl.store(loss + row, total - tl.load(x + row * n + (tl.load(target + row) + 1) % n))


@triton.jit
def divergence(x, y, loss, n, BLOCK: tl.constexpr):
    """Jensen's and Shannon's, of two distributions given by their logarithms."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p, q = tl.load(x + at, at < n), tl.load(y + at, at < n)
    mean = tl.log(0.5 * tl.exp(p) + 0.5 * tl.exp(q))
    tl.store(loss + at, 0.5 * (tl.exp(p) * (p - mean) + tl.exp(q) * (q - mean)), at < n)


@triton.jit
def divergence_by_entropies(x, y, loss, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p, q = tl.load(x + at, at < n), tl.load(y + at, at < n)
    first, other = tl.exp(p) * 0.5, tl.exp(q) * 0.5
    mean = first + other
    tl.store(loss + at, p * first + q * other - mean * tl.log(mean), at < n)


@triton.jit
def divergence_of_logarithms(x, y, loss, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p, q = tl.load(x + at, at < n), tl.load(y + at, at < n)
    mean = 0.5 * p + 0.5 * q
    tl.store(loss + at, 0.5 * (tl.exp(p) * (p - mean) + tl.exp(q) * (q - mean)), at < n)
