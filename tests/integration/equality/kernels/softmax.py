"""Softmax and its logarithm."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + at, power / tl.sum(power, 0), mask=at < n)


@triton.jit
def softmax_online(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    largest = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        new = tl.maximum(largest, tl.max(value, 0))
        total = total * tl.exp2((largest - new) * 1.4426950408889634)
        total += tl.sum(tl.exp2((value - new) * 1.4426950408889634), 0)
        largest = new
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        tl.store(y + row * n + at, tl.exp(value - largest) * (1.0 / total), mask=at < n)


@triton.jit
def softmax_guarded(x, y, n, BLOCK: tl.constexpr):
    """Of each lane its own maximum and sum, which are put together at the end."""
    row = tl.program_id(0)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        new = tl.maximum(value, largest)
        sums = total * tl.exp(largest - new) + tl.exp(value - new)
        total = tl.where(new == -float("inf"), total, sums)
        largest = new
    top = tl.max(largest, 0)
    total = tl.sum(tl.where(largest > -float("inf"), total * tl.exp(largest - top), 0.0), 0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        tl.store(y + row * n + at, tl.exp(value - top) / total, mask=at < n)


@triton.jit
def softmax_guarded_by_a_number(x, y, n, BLOCK: tl.constexpr):
    """The same, of lanes above -1e30 alone."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    power = tl.where(value > -1e30, tl.exp(value - tl.max(value, 0)), 0.0)
    tl.store(y + row * n + at, power / tl.sum(power, 0), mask=at < n)


@triton.jit
def softmax_without_maximum(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    power = tl.exp(tl.load(x + row * n + at, mask=at < n, other=-float("inf")))
    tl.store(y + row * n + at, power / tl.sum(power, 0), mask=at < n)


@triton.jit
def softmax_with_maximum_over_zeros(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    power = tl.where(at < n, tl.exp(value - tl.max(value, 0)), 0.0)
    tl.store(y + row * n + at, power / tl.sum(power, 0), mask=at < n)


@triton.jit
def softmax_with_bias(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + at, power / tl.sum(power, 0) + 1e-6, mask=at < n)


@triton.jit
def softmax_padded_with_zeros(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + at, power / tl.sum(power, 0), mask=at < n)


@triton.jit
def log_softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    moved = value - tl.max(value, 0)
    tl.store(y + row * n + at, moved - tl.log(tl.sum(tl.exp(moved), 0)), mask=at < n)


@triton.jit
def log_softmax_in_powers_of_two(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.load(x + row * n + at, mask=at < n, other=-float("inf")))
    largest = tl.max(most, 0) * 1.4426950408889634
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        total += tl.exp2(value * 1.4426950408889634 - largest)
    base = (largest + tl.log2(tl.sum(total, 0))) * 0.6931471805599453
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + row * n + at, tl.load(x + row * n + at, mask=at < n) - base, mask=at < n)


@triton.jit
def log_softmax_of_quotients(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + at, tl.log(power / tl.sum(power, 0)), mask=at < n)
