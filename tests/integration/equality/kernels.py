"""Kernels in pairs: one function written in two ways, and mistakes that look like it."""

from __future__ import annotations

import triton
import triton.language as tl

# --- softmax ------------------------------------------------------------------------------------------------


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
def softmax_without_maximum(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    power = tl.exp(tl.load(x + row * n + at, mask=at < n, other=-float("inf")))
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


# --- norms --------------------------------------------------------------------------------------------------


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


# --- losses -------------------------------------------------------------------------------------------------


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


# --- activations --------------------------------------------------------------------------------------------


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


# --- rotary embedding ---------------------------------------------------------------------------------------


@triton.jit
def rope(x, cosines, sines, y, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, HALF)
    inside = at < n // 2
    first = tl.load(x + row * n + at, mask=inside)
    second = tl.load(x + row * n + n // 2 + at, mask=inside)
    c = tl.load(cosines + at, mask=inside)
    s = tl.load(sines + at, mask=inside)
    tl.store(y + row * n + at, first * c - second * s, mask=inside)
    tl.store(y + row * n + n // 2 + at, second * c + first * s, mask=inside)


@triton.jit
def rope_rotated(x, cosines, sines, y, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, 2 * HALF)
    inside = at < n
    turned = tl.where(at < n // 2, at + n // 2, at - n // 2)
    sign = tl.where(at < n // 2, -1.0, 1.0)
    value = tl.load(x + row * n + at, mask=inside)
    other = tl.load(x + row * n + turned, mask=inside) * sign
    c = tl.load(cosines + at % (n // 2), mask=inside)
    s = tl.load(sines + at % (n // 2), mask=inside)
    tl.store(y + row * n + at, value * c + other * s, mask=inside)


@triton.jit
def rope_other_sign(x, cosines, sines, y, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, HALF)
    inside = at < n // 2
    first = tl.load(x + row * n + at, mask=inside)
    second = tl.load(x + row * n + n // 2 + at, mask=inside)
    c = tl.load(cosines + at, mask=inside)
    s = tl.load(sines + at, mask=inside)
    tl.store(y + row * n + at, first * c + second * s, mask=inside)
    tl.store(y + row * n + n // 2 + at, second * c - first * s, mask=inside)


# --- products of matrices -----------------------------------------------------------------------------------


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k, K):
        deep = start + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + deep, mask=(rows[:, None] < m) & (deep < k), other=0.0)
        right = tl.load(b + deep[:, None] * n + columns, mask=(deep[:, None] < k) & (columns < n), other=0.0)
        total = tl.dot(left, right, total)
    inside = (rows[:, None] < m) & (columns < n)
    tl.store(c + rows[:, None] * n + columns, total, mask=inside)


@triton.jit
def matmul_by_rows(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """One program a tile, in the other order, by sums of products."""
    tiles = tl.cdiv(n, N)
    rows = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    row, column = rows // tiles, rows % tiles
    across = column * N + tl.arange(0, N)
    down = row * M + tl.arange(0, M)
    total = tl.zeros([M, N], tl.float32)
    for deep in range(k):
        left = tl.load(a + down * k + deep, mask=down < m, other=0.0)
        right = tl.load(b + deep * n + across, mask=across < n, other=0.0)
        total += left[:, None] * right[None, :]
    tl.store(c + down[:, None] * n + across, total, mask=(down[:, None] < m) & (across < n))


@triton.jit
def matmul_split(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Sums of parts in memory, which holds zeros before."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    deep = tl.program_id(2) * K + tl.arange(0, K)
    left = tl.load(a + rows[:, None] * k + deep, mask=(rows[:, None] < m) & (deep < k), other=0.0)
    right = tl.load(b + deep[:, None] * n + columns, mask=(deep[:, None] < k) & (columns < n), other=0.0)
    inside = (rows[:, None] < m) & (columns < n)
    tl.atomic_add(c + rows[:, None] * n + columns, tl.dot(left, right), mask=inside)


@triton.jit
def matmul_added(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inside = (rows[:, None] < m) & (columns < n)
    total = tl.load(c + rows[:, None] * n + columns, mask=inside, other=0.0)
    for start in range(0, k, K):
        deep = start + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + deep, mask=(rows[:, None] < m) & (deep < k), other=0.0)
        right = tl.load(b + deep[:, None] * n + columns, mask=(deep[:, None] < k) & (columns < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns, total, mask=inside)


@triton.jit
def matmul_without_tail(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k // K * K, K):
        deep = start + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + deep, mask=rows[:, None] < m, other=0.0)
        right = tl.load(b + deep[:, None] * n + columns, mask=columns < n, other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns, total, mask=(rows[:, None] < m) & (columns < n))


@triton.jit
def matmul_transposed(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k, K):
        deep = start + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + deep, mask=(rows[:, None] < m) & (deep < k), other=0.0)
        right = tl.load(b + columns * k + deep[:, None], mask=(deep[:, None] < k) & (columns < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns, total, mask=(rows[:, None] < m) & (columns < n))


# --- attention ----------------------------------------------------------------------------------------------


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


# --- scans and sums -----------------------------------------------------------------------------------------


@triton.jit
def running_sum(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row * n + at, tl.cumsum(tl.load(x + row * n + at, mask=at < n, other=0.0), 0), mask=at < n)


@triton.jit
def running_sum_in_steps(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for at in range(n):
        total += tl.load(x + row * n + at)
        tl.store(y + row * n + at, total)


@triton.jit
def running_sum_without_itself(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for at in range(n):
        tl.store(y + row * n + at, total)
        total += tl.load(x + row * n + at)


@triton.jit
def column_sums(x, y, rows, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(y + at, mask=at < n, other=0.0)
    for row in range(rows):
        total += tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + at, total, mask=at < n)


@triton.jit
def column_sums_by_atomics(x, y, rows, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for row in range(rows):
        tl.atomic_add(y + at, tl.load(x + row * n + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def column_sums_without_first(x, y, rows, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(y + at, mask=at < n, other=0.0)
    for row in range(1, rows):
        total += tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + at, total, mask=at < n)


# --- integers that decide -----------------------------------------------------------------------------------


@triton.jit
def dequantised(q, scales, x, y, n, BLOCK: tl.constexpr):
    """Rows of 8-bit weights with one scale each, times a vector."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    weight = tl.load(q + row * n + at, mask=at < n, other=0).to(tl.float32) * tl.load(scales + row)
    tl.store(y + row, tl.sum(weight * tl.load(x + at, mask=at < n, other=0.0), 0))


@triton.jit
def dequantised_at_the_end(q, scales, x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        weight = tl.load(q + row * n + at, mask=at < n, other=0)
        total += weight.to(tl.float32) * tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + row, tl.sum(total, 0) * tl.load(scales + row))


@triton.jit
def dequantised_off_by_a_zero(q, scales, x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    weight = (tl.load(q + row * n + at, mask=at < n, other=0).to(tl.float32) - 1) * tl.load(scales + row)
    tl.store(y + row, tl.sum(weight * tl.load(x + at, mask=at < n, other=0.0), 0))


@triton.jit
def gathered(x, index, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row * n + at, tl.load(x + tl.load(index + row) * n + at, mask=at < n), mask=at < n)


@triton.jit
def gathered_by_masks(x, index, y, n, BLOCK: tl.constexpr):
    """Every row of x, of which the wanted one is kept."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    wanted = tl.load(index + row)
    found = tl.zeros([BLOCK], tl.float32)
    for one in range(tl.num_programs(0)):
        found += tl.where(one == wanted, tl.load(x + one * n + at, mask=at < n, other=0.0), 0.0)
    tl.store(y + row * n + at, found, mask=at < n)


@triton.jit
def gathered_from_the_first(x, index, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    wanted = tl.load(index + row)
    wanted = tl.where(wanted > 3, wanted, 0)
    tl.store(y + row * n + at, tl.load(x + wanted * n + at, mask=at < n), mask=at < n)


@triton.jit
def largest(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.max(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0))


@triton.jit
def largest_in_steps(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.load(x + row * n)
    for at in range(1, n):
        best = tl.maximum(best, tl.load(x + row * n + at))
    tl.store(y + row, best)


@triton.jit
def largest_of_all_but_the_last(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.max(tl.load(x + row * n + at, mask=at < n - 1, other=-float("inf")), 0))


@triton.jit
def largest_place(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.argmax(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0))


@triton.jit
def largest_place_of_all_but_one(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(
        y + row, tl.argmax(tl.load(x + row * n + at, mask=(at < n) & (at != 50), other=-float("inf")), 0)
    )
