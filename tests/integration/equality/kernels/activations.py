"""One element in, one element out."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def swiglu(a, b, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(a + at, mask=at < n).to(tl.float32)
    tl.store(y + at, gate * tl.sigmoid(gate) * tl.load(b + at, mask=at < n), mask=at < n)


@triton.jit
def swiglu_by_hand(a, b, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(a + at, mask=at < n).to(tl.float32)
    up = tl.load(b + at, mask=at < n)
    tl.store(y + at, up * (gate / (1.0 + tl.exp2(gate * -1.4426950408889634))), mask=at < n)


@triton.jit
def swiglu_that_overflows(a, b, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(a + at, mask=at < n).to(tl.float32)
    power = tl.exp(gate)
    tl.store(y + at, tl.load(b + at, mask=at < n) * gate * (power / (1.0 + power)), mask=at < n)


@triton.jit
def swiglu_of_the_other(a, b, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(a + at, mask=at < n).to(tl.float32)
    up = tl.load(b + at, mask=at < n)
    tl.store(y + at, gate * tl.sigmoid(up.to(tl.float32)) * up, mask=at < n)


@triton.jit
def gelu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(y + at, value * 0.5 * (1.0 + tl.erf(value * 0.7071067811865476)), mask=at < n)


@triton.jit
def gelu_by_division(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(y + at, 0.5 * value + 0.5 * value * tl.erf(value / 1.4142135623730951), mask=at < n)


@triton.jit
def gelu_of_a_constant(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(y + at, value * 0.5 * (1.0 + tl.erf(value * 0.707)), mask=at < n)


@triton.jit
def relu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at, mask=at < n), 0.0), mask=at < n)


@triton.jit
def relu_by_choice(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(value < 0, 0.0, value), mask=at < n)


@triton.jit
def relu_leaky(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(value < 0, 1e-4 * value, value), mask=at < n)


@triton.jit
def tanh_by_exp(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, 1.0 - 2.0 / (tl.exp(2.0 * value) + 1.0), mask=at < n)


@triton.jit
def tanh_by_sigmoid(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, 2.0 * tl.sigmoid(2.0 * value) - 1.0, mask=at < n)


@triton.jit
def cube(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * value * value, mask=at < n)


@triton.jit
def cube_by_power(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, libdevice.pow(tl.load(x + at, mask=at < n), 3), mask=at < n)


@triton.jit
def square_by_power(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, libdevice.pow(tl.load(x + at, mask=at < n), 2), mask=at < n)


@triton.jit
def cube_by_two_powers(x, y, n, BLOCK: tl.constexpr):
    """The last number is only squared."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    power = tl.where(at < n - 1, 3, 2)
    tl.store(y + at, libdevice.pow(tl.load(x + at, mask=at < n), power), mask=at < n)
