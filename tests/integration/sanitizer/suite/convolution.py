"""Convolutions: one- and two-dimensional, depthwise, causal, strided, im2col, pooling."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import rand, zeros


@case((2, 3), x_ptr=rand(2, 40), w_ptr=rand(5), out_ptr=zeros(2, 40), n=40, TAPS=5, BLOCK=16)
@triton.jit
def conv1d_same(x_ptr, w_ptr, out_ptr, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(TAPS):
        at = offs + tap - TAPS // 2
        x = tl.load(x_ptr + row * n + at, mask=(at >= 0) & (at < n), other=0.0)
        acc += x * tl.load(w_ptr + tap)
    tl.store(out_ptr + row * n + offs, acc, mask=offs < n)


@case((2, 3), x_ptr=rand(2, 40), w_ptr=rand(5), out_ptr=zeros(2, 40), n=40, TAPS=5, BLOCK=16)
@triton.jit
def conv1d_right_padding_unmasked(x_ptr, w_ptr, out_ptr, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for tap in range(TAPS):
        at = offs + tap - TAPS // 2
        x = tl.load(x_ptr + row * n + at, mask=(at >= 0) & (offs < n), other=0.0)  # BUG: oob argument=x_ptr
        acc += x * tl.load(w_ptr + tap)
    tl.store(out_ptr + row * n + offs, acc, mask=offs < n)


@case((2, 3), x_ptr=rand(2, 40), w_ptr=rand(5), out_ptr=zeros(2, 40), n=40, TAPS=5, BLOCK=16)
@triton.jit
def conv1d_taps_inclusive(x_ptr, w_ptr, out_ptr, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for tap in range(TAPS + 1):
        at = offs + tap - TAPS // 2
        x = tl.load(x_ptr + row * n + at, mask=(at >= 0) & (at < n), other=0.0)
        acc += x * tl.load(w_ptr + tap)  # BUG: oob argument=w_ptr
    tl.store(out_ptr + row * n + offs, acc, mask=offs < n)


@case(
    (3, 2), x_ptr=rand(2, 12, 20), state_ptr=rand(2, 12, 3), w_ptr=rand(12, 4), out_ptr=zeros(2, 12, 20),
    channels=12, n=20, TAPS=4, BC=4, BN=32,
)  # fmt: skip
@triton.jit
def causal_conv1d_with_state(
    x_ptr, state_ptr, w_ptr, out_ptr, channels, n, TAPS: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr
):
    rc = tl.program_id(0) * BC + tl.arange(0, BC)
    rn = tl.arange(0, BN)
    row = tl.program_id(1) * channels + rc
    acc = tl.zeros((BC, BN), tl.float32)
    for tap in tl.static_range(TAPS):
        at = rn + tap - (TAPS - 1)
        new = tl.load(x_ptr + row[:, None] * n + at[None, :], mask=((at >= 0) & (at < n))[None, :], other=0)
        old_at = row[:, None] * (TAPS - 1) + (at + TAPS - 1)[None, :]
        old = tl.load(state_ptr + old_at, mask=(at < 0)[None, :], other=0)
        w = tl.load(w_ptr + rc * TAPS + tap)
        acc += (new + old) * w[:, None]
    tl.store(out_ptr + row[:, None] * n + rn[None, :], acc, mask=(rn < n)[None, :])


@case(
    (3, 2), heavy=True, x_ptr=rand(2, 12, 20), state_ptr=rand(2, 12, 3), w_ptr=rand(12, 4),
    out_ptr=zeros(2, 12, 20), channels=12, n=20, TAPS=4, BC=4, BN=32,
)  # fmt: skip
@triton.jit
def causal_conv1d_state_as_wide_as_the_taps(
    x_ptr, state_ptr, w_ptr, out_ptr, channels, n, TAPS: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr
):
    rc = tl.program_id(0) * BC + tl.arange(0, BC)
    rn = tl.arange(0, BN)
    row = tl.program_id(1) * channels + rc
    acc = tl.zeros((BC, BN), tl.float32)
    for tap in range(TAPS):
        at = rn + tap - (TAPS - 1)
        new = tl.load(x_ptr + row[:, None] * n + at[None, :], mask=((at >= 0) & (at < n))[None, :], other=0)
        old_at = row[:, None] * TAPS + (at + TAPS - 1)[None, :]
        old = tl.load(state_ptr + old_at, mask=(at < 0)[None, :], other=0)  # BUG: oob argument=state_ptr
        w = tl.load(w_ptr + rc * TAPS + tap)
        acc += (new + old) * w[:, None]
    tl.store(out_ptr + row[:, None] * n + rn[None, :], acc, mask=(rn < n)[None, :])


def image(h=7, w=5, channels=2, filters=3):
    return {
        "x_ptr": rand(1, channels, h, w),
        "w_ptr": rand(filters, channels, 3, 3),
        "out_ptr": zeros(1, filters, h, w),
        "channels": channels,
        "h": h,
        "w": w,
        "filters": filters,
        "BLOCK": 32,
    }


@case((1, 3, 2), heavy=True, **image())
@triton.jit
def conv2d_same(x_ptr, w_ptr, out_ptr, channels, h, w, filters, BLOCK: tl.constexpr):
    image = tl.program_id(0)
    filt = tl.program_id(1)
    pixel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    y = pixel // w
    x = pixel % w
    acc = tl.zeros((BLOCK,), tl.float32)
    for c in range(channels):
        for i in tl.static_range(3):
            for j in tl.static_range(3):
                yy = y + i - 1
                xx = x + j - 1
                ok = (yy >= 0) & (yy < h) & (xx >= 0) & (xx < w)
                v = tl.load(x_ptr + ((image * channels + c) * h + yy) * w + xx, mask=ok, other=0.0)
                acc += v * tl.load(w_ptr + ((filt * channels + c) * 3 + i) * 3 + j)
    tl.store(out_ptr + (image * filters + filt) * h * w + pixel, acc, mask=pixel < h * w)


@case((1, 3, 2), heavy=True, **image())
@triton.jit
def conv2d_bottom_row_unchecked(x_ptr, w_ptr, out_ptr, channels, h, w, filters, BLOCK: tl.constexpr):
    image = tl.program_id(0)
    filt = tl.program_id(1)
    pixel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    y = pixel // w
    x = pixel % w
    acc = tl.zeros((BLOCK,), tl.float32)
    for c in range(channels):
        for tap in range(9):
            yy = y + tap // 3 - 1
            xx = x + tap % 3 - 1
            ok = (yy >= 0) & (xx >= 0) & (xx < w) & (pixel < h * w)
            at = x_ptr + ((image * channels + c) * h + yy) * w + xx
            v = tl.load(at, mask=ok, other=0.0)  # BUG: oob argument=x_ptr
            acc += v * tl.load(w_ptr + (filt * channels + c) * 9 + tap)
    tl.store(out_ptr + (image * filters + filt) * h * w + pixel, acc, mask=pixel < h * w)


@case((1, 3, 2), **image())
@triton.jit
def conv2d_filter_strides_swapped(x_ptr, w_ptr, out_ptr, channels, h, w, filters, BLOCK: tl.constexpr):
    image = tl.program_id(0)
    filt = tl.program_id(1)
    pixel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    ok = pixel < h * w
    acc = tl.zeros((BLOCK,), tl.float32)
    for c in range(channels):
        v = tl.load(x_ptr + (image * channels + c) * h * w + pixel, mask=ok, other=0.0)
        for tap in range(9):
            acc += v * tl.load(w_ptr + (c * filters + filt) * 9 + tap)
        acc += tl.load(w_ptr + (filt * filters + c) * 9)  # BUG: oob argument=w_ptr
    tl.store(out_ptr + (image * filters + filt) * h * w + pixel, acc, mask=ok)


@case(
    (6, 2), heavy=True, x_ptr=rand(6, 8, 8), w_ptr=rand(6, 9), out_ptr=zeros(6, 4, 4), h=8, w=8, oh=4, ow=4,
    BLOCK=8,
)  # fmt: skip
@triton.jit
def depthwise_stride_two(x_ptr, w_ptr, out_ptr, h, w, oh, ow, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    y = pixel // ow * 2
    x = pixel % ow * 2
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(3):
        for j in range(3):
            ok = (y + i < h) & (x + j < w) & (pixel < oh * ow)
            v = tl.load(x_ptr + c * h * w + (y + i) * w + x + j, mask=ok, other=0.0)
            acc += v * tl.load(w_ptr + c * 9 + i * 3 + j)
    tl.store(out_ptr + c * oh * ow + pixel, acc, mask=pixel < oh * ow)


@case((6, 4), x_ptr=rand(6, 8, 8), out_ptr=zeros(6, 4, 4), h=8, w=8, oh=4, ow=4, BLOCK=8)
@triton.jit
def depthwise_grid_of_the_input(x_ptr, out_ptr, h, w, oh, ow, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    y = pixel // ow * 2
    x = pixel % ow * 2
    at = x_ptr + c * h * w + y * w + x
    v = tl.load(at, mask=(y < h) & (x < w), other=0.0)
    # BUG: oob argument=out_ptr; race argument=out_ptr
    tl.store(out_ptr + c * oh * ow + pixel, v + c + 1)


@case((3,), x_ptr=rand(2, 6, 6), out_ptr=zeros(16, 18), channels=2, h=6, w=6, oh=4, ow=4, BM=8, BK=32)
@triton.jit
def im2col(x_ptr, out_ptr, channels, h, w, oh, ow, BM: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rk = tl.arange(0, BK)
    y = (rm // ow)[:, None] + (rk % 9 // 3)[None, :]
    x = (rm % ow)[:, None] + (rk % 3)[None, :]
    c = (rk // 9)[None, :]
    ok = (rm < oh * ow)[:, None] & (rk < channels * 9)[None, :]
    v = tl.load(x_ptr + c * h * w + y * w + x, mask=ok, other=0.0)
    tl.store(out_ptr + rm[:, None] * channels * 9 + rk[None, :], v, mask=ok)


@case((2,), x_ptr=rand(2, 6, 6), out_ptr=zeros(16, 18), channels=2, h=6, w=6, oh=4, ow=4, BM=8, BK=32)
@triton.jit
def im2col_columns_not_masked(x_ptr, out_ptr, channels, h, w, oh, ow, BM: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rk = tl.arange(0, BK)
    y = (rm // ow)[:, None] + (rk % 9 // 3)[None, :]
    x = (rm % ow)[:, None] + (rk % 3)[None, :]
    c = (rk // 9)[None, :]
    ok = (rm < oh * ow)[:, None] & (rk < channels * 9)[None, :]
    # BUG: oob argument=x_ptr
    v = tl.load(x_ptr + c * h * w + y * w + x, mask=(rm < oh * ow)[:, None], other=0.0)
    tl.store(out_ptr + rm[:, None] * channels * 9 + rk[None, :], v, mask=ok)


@case((3, 2), x_ptr=rand(3, 7, 7), out_ptr=zeros(3, 3, 3), h=7, w=7, oh=3, ow=3, BLOCK=8)
@triton.jit
def max_pool_2x2_floor(x_ptr, out_ptr, h, w, oh, ow, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = pixel < oh * ow
    at = x_ptr + c * h * w + (pixel // ow * 2) * w + pixel % ow * 2
    top = tl.maximum(tl.load(at, mask=ok), tl.load(at + 1, mask=ok))
    bottom = tl.maximum(tl.load(at + w, mask=ok), tl.load(at + w + 1, mask=ok))
    tl.store(out_ptr + c * oh * ow + pixel, tl.maximum(top, bottom), mask=ok)


@case((3, 2), x_ptr=rand(3, 7, 7), out_ptr=zeros(3, 4, 4), h=7, w=7, oh=4, ow=4, BLOCK=8)
@triton.jit
def max_pool_2x2_ceil_unmasked(x_ptr, out_ptr, h, w, oh, ow, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = pixel < oh * ow
    at = x_ptr + c * h * w + (pixel // ow * 2) * w + pixel % ow * 2
    top = tl.maximum(tl.load(at, mask=ok), tl.load(at + 1, mask=ok))  # BUG: oob argument=x_ptr
    bottom = tl.load(at + w, mask=ok)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + c * oh * ow + pixel, tl.maximum(top, bottom), mask=ok)


@case((5,), x_ptr=rand(18), out_ptr=zeros(36), n=18, BLOCK=8)
@triton.jit
def upsample_nearest(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs // 2, mask=offs < 2 * n), mask=offs < 2 * n)


@case((5,), dy_ptr=rand(36), dx_ptr=zeros(18), n=18, BLOCK=8)
@triton.jit
def upsample_gradient_scattered_plainly(dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) - 1
    ok = (offs >= 0) & (offs < 2 * n)
    dy = tl.load(dy_ptr + offs, mask=ok, other=0.0)
    before = tl.load(dx_ptr + offs // 2, mask=ok, other=0.0)  # BUG: race argument=dx_ptr
    tl.store(dx_ptr + offs // 2, before + dy, mask=ok)  # BUG: race argument=dx_ptr
