"""Int8, packed int4 and fp8 weights with scales per tensor, row, group and block."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import below, half, izeros, rand, zeros


@case((3,), x_ptr=rand(3, 40), q_ptr=zeros(3, 40, dtype=torch.int8), scale_ptr=zeros(3), n=40, BLOCK=64)
@triton.jit
def quantise_rows_to_int8(x_ptr, q_ptr, scale_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
    scale = tl.max(tl.abs(x), 0) / 127.0
    tl.store(scale_ptr + row, scale)
    tl.store(q_ptr + row * n + cols, (x / scale).to(tl.int8), mask=mask)


@case((3,), x_ptr=rand(3, 40), q_ptr=zeros(3, 40, dtype=torch.int8), scale_ptr=zeros(1), n=40, BLOCK=64)
@triton.jit
def quantise_rows_scale_per_tensor(x_ptr, q_ptr, scale_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
    scale = tl.max(tl.abs(x), 0) / 127.0
    tl.store(scale_ptr + row, scale)  # BUG: oob argument=scale_ptr
    tl.store(q_ptr + row * n + cols, (x / scale).to(tl.int8), mask=mask)


@case(
    (2, 2), x_ptr=half(20, 64), q_ptr=below(250, 64, 24, dtype=torch.uint8), scale_ptr=half(2, 24),
    out_ptr=zeros(20, 24), m=20, n=24, k=64, BM=16, BN=16, BK=16, GROUP=32,
)  # fmt: skip
@triton.jit
def matmul_int8_group_scales(
    x_ptr, q_ptr, scale_ptr, out_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        rk = start + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * k + rk[None, :], mask=rm[:, None] < m, other=0)
        q = tl.load(q_ptr + rk[:, None] * n + rn[None, :], mask=rn[None, :] < n, other=0)
        s = tl.load(scale_ptr + (start // GROUP) * n + rn, mask=rn < n, other=0)
        acc += tl.dot(x, (q.to(tl.float16) - 128) * s[None, :])
    tl.store(out_ptr + rm[:, None] * n + rn[None, :], acc, mask=(rm[:, None] < m) & (rn[None, :] < n))


@case(
    (2, 2), x_ptr=half(20, 64), q_ptr=below(250, 64, 24, dtype=torch.uint8), scale_ptr=half(2, 24),
    out_ptr=zeros(20, 24), m=20, n=24, k=64, BM=16, BN=16, BK=16, GROUP=32,
)  # fmt: skip
@triton.jit
def matmul_int8_group_index_by_block(
    x_ptr, q_ptr, scale_ptr, out_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        rk = start + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * k + rk[None, :], mask=rm[:, None] < m, other=0)
        q = tl.load(q_ptr + rk[:, None] * n + rn[None, :], mask=rn[None, :] < n, other=0)
        s = tl.load(scale_ptr + (start // BK) * n + rn, mask=rn < n, other=0)  # BUG: oob argument=scale_ptr
        acc += tl.dot(x, (q.to(tl.float16) - 128) * s[None, :])
    tl.store(out_ptr + rm[:, None] * n + rn[None, :], acc, mask=(rm[:, None] < m) & (rn[None, :] < n))


@case((4,), q_ptr=below(255, 50, dtype=torch.uint8), out_ptr=zeros(100), n=100, BLOCK=32)
@triton.jit
def unpack_int4(q_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    packed = tl.load(q_ptr + offs // 2, mask=mask, other=0)
    nibble = (packed >> ((offs % 2) * 4).to(tl.uint8)) & 0xF
    tl.store(out_ptr + offs, nibble.to(tl.float32) - 8.0, mask=mask)


@case((4,), q_ptr=below(255, 50, dtype=torch.uint8), out_ptr=zeros(100), n=100, BLOCK=32)
@triton.jit
def unpack_int4_index_not_halved(q_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    packed = tl.load(q_ptr + offs, mask=mask, other=0)  # BUG: oob argument=q_ptr
    nibble = (packed >> ((offs % 2) * 4).to(tl.uint8)) & 0xF
    tl.store(out_ptr + offs, nibble.to(tl.float32) - 8.0, mask=mask)


@case((4,), q_ptr=below(255, 60, dtype=torch.uint8), out_ptr=zeros(120), n=120, BLOCK=16)
@triton.jit
def unpack_int4_interleaved(q_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    packed = tl.load(q_ptr + offs, mask=offs < n // 2, other=0)
    both = tl.interleave(packed & 0xF, packed >> 4)
    to = pid * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    tl.store(out_ptr + to, both.to(tl.float32), mask=to < n)


@case((4,), q_ptr=below(255, 60, dtype=torch.uint8), out_ptr=zeros(120), n=120, BLOCK=16)
@triton.jit
def unpack_int4_tiles_overlap(q_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    packed = tl.load(q_ptr + offs, mask=offs < n // 2, other=0)
    both = tl.interleave(packed & 0xF, packed >> 4)
    to = pid * BLOCK + tl.arange(0, 2 * BLOCK)
    tl.store(out_ptr + to, both.to(tl.float32), mask=to < n)  # BUG: race argument=out_ptr


@case((3,), heavy=True, q_ptr=below(1 << 30, 16, 12), out_ptr=zeros(128, 12), n=12, ROWS=8, BLOCK=4)
@triton.jit
def unpack_int4_from_int32_words(q_ptr, out_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for word in range(16):
        q = tl.load(q_ptr + word * n + cols)
        nibble = tl.arange(0, ROWS)
        values = (q[None, :] >> (nibble * 4)[:, None]) & 0xF
        rows = word * ROWS + nibble
        tl.store(out_ptr + rows[:, None] * n + cols[None, :], values.to(tl.float32))


@case((3,), heavy=True, q_ptr=below(1 << 30, 16, 12), out_ptr=zeros(64, 12), n=12, ROWS=8, BLOCK=4)
@triton.jit
def unpack_int4_output_for_int8(q_ptr, out_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for word in range(16):
        q = tl.load(q_ptr + word * n + cols)
        nibble = tl.arange(0, ROWS)
        values = (q[None, :] >> (nibble * 4)[:, None]) & 0xF
        rows = word * ROWS + nibble
        # BUG: oob argument=out_ptr
        tl.store(out_ptr + rows[:, None] * n + cols[None, :], values.to(tl.float32))


@case(
    (2, 3), x_ptr=rand(20, 48), out_ptr=zeros(20, 48).to(torch.float8_e4m3fn), scale_ptr=zeros(2, 3), m=20,
    n=48, B=16,
)  # fmt: skip
@triton.jit
def quantise_blocks_to_fp8(x_ptr, out_ptr, scale_ptr, m, n, B: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = pid_m * B + tl.arange(0, B)
    cols = pid_n * B + tl.arange(0, B)
    at = rows[:, None] * n + cols[None, :]
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    scale = tl.max(tl.max(tl.abs(x), 1), 0) / 448.0
    tl.store(out_ptr + at, (x / scale).to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(scale_ptr + pid_m * tl.num_programs(1) + pid_n, scale)


@case(
    (2, 3), x_ptr=rand(20, 48), out_ptr=zeros(20, 48).to(torch.float8_e4m3fn), scale_ptr=zeros(2, 3), m=20,
    n=48, B=16,
)  # fmt: skip
@triton.jit
def quantise_blocks_scale_shared(x_ptr, out_ptr, scale_ptr, m, n, B: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = pid_m * B + tl.arange(0, B)
    cols = pid_n * B + tl.arange(0, B)
    at = rows[:, None] * n + cols[None, :]
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    scale = tl.max(tl.max(tl.abs(x), 1), 0) / 448.0
    tl.store(out_ptr + at, (x / scale).to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(scale_ptr + pid_m * 2 + pid_n, scale)  # BUG: race argument=scale_ptr


@case(
    (3,), q_ptr=below(255, 3, 40, dtype=torch.uint8), zero_ptr=izeros(3, 5), out_ptr=zeros(3, 40), n=40,
    BLOCK=64,
)  # fmt: skip
@triton.jit
def dequantise_zero_points_by_group(q_ptr, zero_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    q = tl.load(q_ptr + row * n + cols, mask=mask, other=0).to(tl.int32)
    zero = tl.load(zero_ptr + row * (n // 8) + cols // 8, mask=mask, other=0)
    tl.store(out_ptr + row * n + cols, (q - zero).to(tl.float32), mask=mask)


@case(
    (3,), q_ptr=below(255, 3, 40, dtype=torch.uint8), zero_ptr=izeros(3, 5), out_ptr=zeros(3, 40), n=40,
    BLOCK=64,
)  # fmt: skip
@triton.jit
def dequantise_group_of_masked_lanes(q_ptr, zero_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    q = tl.load(q_ptr + row * n + cols, mask=mask, other=0).to(tl.int32)
    zero = tl.load(zero_ptr + row * (n // 8) + cols // 8)  # BUG: oob argument=zero_ptr
    tl.store(out_ptr + row * n + cols, (q - zero).to(tl.float32), mask=mask)
