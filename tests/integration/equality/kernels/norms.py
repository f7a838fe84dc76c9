"""Layer norm and RMS norm."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def layer_norm(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, 0) / n
    off = tl.where(inside, value - mean, 0.0)
    scale = tl.rsqrt(tl.sum(off * off, 0) / n + eps)
    weight = tl.load(w + at, mask=inside, other=0.0)
    tl.store(y + row * n + at, off * scale * weight + tl.load(b + at, mask=inside, other=0.0), mask=inside)


@triton.jit
def _joined(mean, squares, count, other_mean, other_squares, other_count):
    total = count + other_count
    share = tl.where(total == 0.0, 0.0, other_count / total)
    off = other_mean - mean
    return mean + off * share, squares + other_squares + off * off * count * share, total


@triton.jit
def layer_norm_welford(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mean = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        inside = start + lanes < n
        value = tl.load(x + row * n + start + lanes, mask=inside, other=0.0).to(tl.float32)
        count += tl.where(inside, 1.0, 0.0)
        off = tl.where(inside, value - mean, 0.0)
        mean += off / tl.where(count == 0.0, 1.0, count)
        squares += off * tl.where(inside, value - mean, 0.0)
    middle, squares_of_all, total = tl.reduce((mean, squares, count), 0, _joined)
    scale = 1.0 / tl.sqrt(squares_of_all / total + eps)
    for start in range(0, n, BLOCK):
        at = start + lanes
        value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        done = (value - middle) * scale * tl.load(w + at, mask=at < n) + tl.load(b + at, mask=at < n)
        tl.store(y + row * n + at, done, mask=at < n)


@triton.jit
def layer_norm_epsilon_outside(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
    off = tl.where(inside, value - tl.sum(value, 0) / n, 0.0)
    scale = 1.0 / (tl.sqrt(tl.sum(off * off, 0) / n) + eps)
    weight = tl.load(w + at, mask=inside, other=0.0)
    tl.store(y + row * n + at, off * scale * weight + tl.load(b + at, mask=inside, other=0.0), mask=inside)


@triton.jit
def layer_norm_unmasked_squares(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
    off = value - tl.sum(value, 0) / n
    scale = tl.rsqrt(tl.sum(off * off, 0) / n + eps)
    weight = tl.load(w + at, mask=inside, other=0.0)
    tl.store(y + row * n + at, off * scale * weight + tl.load(b + at, mask=inside, other=0.0), mask=inside)


@triton.jit
def layer_norm_one_less(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
    off = tl.where(inside, value - tl.sum(value, 0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(off * off, 0) / (n - 1) + eps)
    weight = tl.load(w + at, mask=inside, other=0.0)
    tl.store(y + row * n + at, off * scale * weight + tl.load(b + at, mask=inside, other=0.0), mask=inside)


@triton.jit
def rms_norm(x, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / n + eps)
    tl.store(y + row * n + at, value * scale * tl.load(w + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def rms_norm_in_passes(x, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        squares = tl.fma(value, value, squares)
    root = tl.sqrt((tl.sum(squares, 0) + eps * n) * (1.0 / n))
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y + row * n + at, tl.load(w + at, mask=at < n) * (value / root), mask=at < n)


@triton.jit
def rms_norm_weight_plus_one(x, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / n + eps)
    tl.store(y + row * n + at, value * scale * (1.0 + tl.load(w + at, mask=at < n, other=0.0)), mask=at < n)


@triton.jit
def rms_norm_without_last(x, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    counted = tl.where(at < n - 1, value, 0.0)
    scale = tl.rsqrt(tl.sum(counted * counted, 0) / n + eps)
    tl.store(y + row * n + at, value * scale * tl.load(w + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def rms_norm_with_epsilon(x, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / n + 1e-6)
    tl.store(y + row * n + at, value * scale * tl.load(w + at, mask=at < n), mask=at < n)


@triton.jit
def rms_norm_with_another_epsilon(x, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / n + 1.1e-6)
    tl.store(y + row * n + at, value * scale * tl.load(w + at, mask=at < n), mask=at < n)


@triton.jit
def rms_norm_in_place(x, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(x + row * n + at, value * tl.rsqrt(tl.sum(value * value, 0) / n + eps), mask=at < n)


@triton.jit
def rms_norm_in_place_by_division(x, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(x + row * n + at, value / tl.sqrt(tl.sum(value * value, 0) / n + eps), mask=at < n)
