"""Resampling, padding, warping, patches, colour: addresses made of floats, clamps and reflections."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import rand, zeros


@case((4,), x_ptr=rand(20), out_ptr=zeros(60), n=20, m=60, BLOCK=16)
@triton.jit
def linear_interpolation(x_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = (offs.to(tl.float32) + 0.5) * n / m - 0.5
    at = tl.minimum(tl.maximum(at, 0.0), n - 1.0)
    left = at.to(tl.int32)
    right = tl.minimum(left + 1, n - 1)
    w = at - left
    x = tl.load(x_ptr + left, mask=offs < m) * (1 - w) + tl.load(x_ptr + right, mask=offs < m) * w
    tl.store(out_ptr + offs, x, mask=offs < m)


@case((4,), x_ptr=rand(20), out_ptr=zeros(60), n=20, m=60, BLOCK=16)
@triton.jit
def linear_interpolation_right_not_clamped(x_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = offs * n // m
    mask = offs < m
    x = tl.load(x_ptr + left, mask=mask, other=0.0)
    x += tl.load(x_ptr + left + 1, mask=mask, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, x, mask=mask)


@case((2, 3), x_ptr=rand(2, 20), out_ptr=zeros(2, 30), n=20, pad=5, BLOCK=16)
@triton.jit
def reflect_padding(x_ptr, out_ptr, n, pad, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.abs(offs - pad)
    at = n - 1 - tl.abs(n - 1 - at)
    ok = offs < n + 2 * pad
    tl.store(out_ptr + row * (n + 2 * pad) + offs, tl.load(x_ptr + row * n + at, mask=ok), mask=ok)


@case((1, 3), x_ptr=rand(1, 20), out_ptr=zeros(1, 30), n=20, pad=5, BLOCK=16)
@triton.jit
def reflect_padding_on_the_left_only(x_ptr, out_ptr, n, pad, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.abs(offs - pad)
    ok = offs < n + 2 * pad
    x = tl.load(x_ptr + row * n + at, mask=ok)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + row * (n + 2 * pad) + offs, x, mask=ok)


@case((3,), x_ptr=rand(8, 10), flow_ptr=rand(8, 10, 2) * 3, out_ptr=zeros(8, 10), h=8, w=10, BLOCK=32)
@triton.jit
def warp_by_flow_clamped(x_ptr, flow_ptr, out_ptr, h, w, BLOCK: tl.constexpr):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = pixel < h * w
    dy = tl.load(flow_ptr + pixel * 2, mask=ok, other=0.0)
    dx = tl.load(flow_ptr + pixel * 2 + 1, mask=ok, other=0.0)
    y = tl.clamp((pixel // w).to(tl.float32) + dy, 0.0, h - 1.0).to(tl.int32)
    x = tl.clamp((pixel % w).to(tl.float32) + dx, 0.0, w - 1.0).to(tl.int32)
    tl.store(out_ptr + pixel, tl.load(x_ptr + y * w + x, mask=ok), mask=ok)


@case((3,), x_ptr=rand(8, 10), flow_ptr=rand(8, 10, 2) * 9, out_ptr=zeros(8, 10), h=8, w=10, BLOCK=32)
@triton.jit
def warp_by_flow_rows_not_clamped(x_ptr, flow_ptr, out_ptr, h, w, BLOCK: tl.constexpr):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = pixel < h * w
    dy = tl.load(flow_ptr + pixel * 2, mask=ok, other=0.0)
    y = ((pixel // w).to(tl.float32) + dy).to(tl.int32)
    x = pixel % w
    v = tl.load(x_ptr + y * w + x, mask=ok, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pixel, v, mask=ok)


@case((2, 2), x_ptr=rand(3, 8, 8), out_ptr=zeros(4, 48), P=4, C=3)
@triton.jit
def patches(x_ptr, out_ptr, P: tl.constexpr, C: tl.constexpr):
    py = tl.program_id(0)
    px = tl.program_id(1)
    c = tl.arange(0, 4)[:, None, None]
    i = tl.arange(0, P)[None, :, None]
    j = tl.arange(0, P)[None, None, :]
    x = tl.load(x_ptr + c * 64 + (py * P + i) * 8 + px * P + j, mask=c < C)
    tl.store(out_ptr + (py * 2 + px) * C * P * P + c * P * P + i * P + j, x, mask=c < C)


@case((2, 2), x_ptr=rand(3, 8, 8), out_ptr=zeros(4, 48), P=4, C=3)
@triton.jit
def patches_channel_padding_stored(x_ptr, out_ptr, P: tl.constexpr, C: tl.constexpr):
    py = tl.program_id(0)
    px = tl.program_id(1)
    c = tl.arange(0, 4)[:, None, None]
    i = tl.arange(0, P)[None, :, None]
    j = tl.arange(0, P)[None, None, :]
    x = tl.load(x_ptr + c * 64 + (py * P + i) * 8 + px * P + j, mask=c < C, other=py + 7.0)
    # The fourth channel is the next patch's first.
    # BUG: oob argument=out_ptr; race argument=out_ptr
    tl.store(out_ptr + (py * 2 + px) * C * P * P + c * P * P + i * P + j, x)


@case((3,), x_ptr=torch.arange(96, dtype=torch.uint8), out_ptr=zeros(32), n=32, BLOCK=16)
@triton.jit
def grey_from_interleaved_colours(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = offs < n
    r = tl.load(x_ptr + 3 * offs, mask=ok, other=0).to(tl.float32)
    g = tl.load(x_ptr + 3 * offs + 1, mask=ok, other=0).to(tl.float32)
    b = tl.load(x_ptr + 3 * offs + 2, mask=ok, other=0).to(tl.float32)
    tl.store(out_ptr + offs, 0.3 * r + 0.6 * g + 0.1 * b, mask=ok)


@case((3,), x_ptr=torch.arange(96, dtype=torch.uint8), out_ptr=zeros(32), n=32, BLOCK=16)
@triton.jit
def grey_from_four_channels_assumed(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = offs < n
    r = tl.load(x_ptr + 4 * offs, mask=ok, other=0).to(tl.float32)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, r, mask=ok)


@case((2, 2), x_ptr=rand(12, 12), out_ptr=zeros(12, 12), n=12, B=8)
@triton.jit
def blur_3x3_reads_the_halo(x_ptr, out_ptr, n, B: tl.constexpr):
    y = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            yy = tl.minimum(tl.maximum(y + i - 1, 0), n - 1)
            xx = tl.minimum(tl.maximum(x + j - 1, 0), n - 1)
            acc += tl.load(x_ptr + yy[:, None] * n + xx[None, :])
    ok = (y < n)[:, None] & (x < n)[None, :]
    tl.store(out_ptr + y[:, None] * n + x[None, :], acc / 9, mask=ok)


@case((2, 2), x_ptr=rand(12, 12), n=12, B=8)
@triton.jit
def blur_in_place(x_ptr, n, B: tl.constexpr):
    y = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.program_id(1) * B + tl.arange(0, B)
    ok = (y < n)[:, None] & (x < n)[None, :]
    below = tl.minimum(y + 1, n - 1)
    at = x_ptr + y[:, None] * n + x[None, :]
    v = tl.load(x_ptr + below[:, None] * n + x[None, :], mask=ok, other=0.0)  # BUG: race argument=x_ptr
    tl.store(at, v * 0.5, mask=ok)  # BUG: race argument=x_ptr


@case((4,), x_ptr=rand(64), out_ptr=zeros(64), BLOCK=16)
@triton.jit
def split_and_join(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real, imag = tl.split(tl.reshape(tl.load(x_ptr + offs), (BLOCK // 2, 2)))
    turned = tl.reshape(tl.join(-imag, real), (BLOCK,))
    tl.store(out_ptr + offs, turned)


@case((4,), x_ptr=rand(64), out_ptr=zeros(64), BLOCK=16)
@triton.jit
def flipped_blocks(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    x = tl.flip(tl.load(x_ptr + pid * BLOCK + lane))
    tl.store(out_ptr + (3 - pid) * BLOCK + lane, x)


@case((4,), x_ptr=rand(64), out_ptr=zeros(64), BLOCK=16)
@triton.jit
def flipped_blocks_counted_from_four(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    x = tl.flip(tl.load(x_ptr + pid * BLOCK + lane))
    tl.store(out_ptr + (tl.num_programs(0) - pid) * BLOCK + lane, x)  # BUG: oob argument=out_ptr
