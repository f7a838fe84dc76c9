"""Tensor descriptors, made on the device and given by the host, and what their contract asks for."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, rand, zeros


def host(tensor, block, shape=None, strides=None):
    return TensorDescriptor(
        tensor, list(shape or tensor.shape), list(strides or tensor.stride()), list(block)
    )


@case((2, 2), x_ptr=rand(20, 32), out_ptr=zeros(20, 32), m=20, n=32, BM=16, BN=16)
@triton.jit
def device_descriptor_copy(x_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [BM, BN])
    out = tl.make_tensor_descriptor(out_ptr, [m, n], [n, 1], [BM, BN])
    row = tl.program_id(0) * BM
    col = tl.program_id(1) * BN
    out.store([row, col], x.load([row, col]) * 2)


@case((2, 2), x_ptr=rand(20, 32), out_ptr=zeros(20, 32), m=20, n=32, BM=16, BN=16)
@triton.jit
def device_descriptor_rows_rounded_up(x_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.cdiv(m, BM) * BM
    x = tl.make_tensor_descriptor(x_ptr, [rows, n], [n, 1], [BM, BN])
    out = tl.make_tensor_descriptor(out_ptr, [m, n], [n, 1], [BM, BN])
    row = tl.program_id(0) * BM
    col = tl.program_id(1) * BN
    value = x.load([row, col])  # BUG: oob argument=x_ptr
    out.store([row, col], value)


@case((2, 2), x_ptr=rand(20, 32), out_ptr=zeros(20, 32), m=20, n=32, BM=16, BN=16)
@triton.jit
def device_descriptor_tiles_overlap(x_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [BM, BN])
    out = tl.make_tensor_descriptor(out_ptr, [m, n], [n, 1], [BM, BN])
    pid = tl.program_id(0)
    value = x.load([pid * BM, tl.program_id(1) * BN]) + pid * 100
    out.store([pid * (BM // 2), tl.program_id(1) * BN], value)  # BUG: race argument=out_ptr


@case((2,), x_ptr=half(32, 20), out_ptr=zeros(32), m=32, n=20, BM=16, BN=16)
@triton.jit
def device_descriptor_misaligned_row_stride(x_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    # Rows of 20 half-precision numbers are 40 bytes apart, no multiple of 16.
    # BUG: descriptor argument=x_ptr
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [BM, BN])
    row = tl.program_id(0) * BM
    total = tl.sum(x.load([row, 0]).to(tl.float32), 1)
    tl.store(out_ptr + row + tl.arange(0, BM), total)


@case((2,), x_ptr=half(33, 16), out_ptr=zeros(32), m=32, n=16, BM=16, BN=16)
@triton.jit
def device_descriptor_misaligned_base(x_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    # BUG: descriptor argument=x_ptr
    x = tl.make_tensor_descriptor(x_ptr + 1, [m, n], [n, 1], [BM, BN])
    row = tl.program_id(0) * BM
    total = tl.sum(x.load([row, 0]).to(tl.float32), 1)
    tl.store(out_ptr + row + tl.arange(0, BM), total)


@case((2,), x_desc=host(rand(20, 32), (16, 32)), out_desc=host(zeros(20, 32), (16, 32)), BM=16)
@triton.jit
def host_descriptor_copy(x_desc, out_desc, BM: tl.constexpr):
    row = tl.program_id(0) * BM
    out_desc.store([row, 0], x_desc.load([row, 0]))


@case(
    (2,), x_desc=host(rand(20, 32), (16, 32), shape=(32, 32)), out_desc=host(zeros(20, 32), (16, 32)), BM=16
)
@triton.jit
def host_descriptor_larger_than_its_tensor(x_desc, out_desc, BM: tl.constexpr):
    row = tl.program_id(0) * BM
    value = x_desc.load([row, 0])  # BUG: oob argument=x_desc
    out_desc.store([row, 0], value)


@case((3,), x_desc=host(rand(20, 32), (16, 32)), out_desc=host(zeros(20, 32), (16, 32)), BM=16)
@triton.jit
def host_descriptor_wholly_outside_blocks_are_empty(x_desc, out_desc, BM: tl.constexpr):
    row = (tl.program_id(0) - 1) * 2 * BM
    out_desc.store([row, 0], x_desc.load([row, 0]))


@case(
    (2, 2), a_desc=host(half(32, 48), (16, 16)), b_desc=host(half(32, 48), (16, 16)), c_ptr=zeros(32, 32),
    k=48, n=32, B=16,
)  # fmt: skip
@triton.jit
def matmul_by_host_descriptors(a_desc, b_desc, c_ptr, k, n, B: tl.constexpr):
    rm = tl.program_id(0) * B
    rn = tl.program_id(1) * B
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, k, B):
        acc += tl.dot(a_desc.load([rm, start]), b_desc.load([rn, start]).T)
    at = (rm + tl.arange(0, B))[:, None] * n + (rn + tl.arange(0, B))[None, :]
    tl.store(c_ptr + at, acc)


@case((3, 2), a_desc=host(half(40, 48), (16, 16)), c_ptr=zeros(40, 32), k=48, n=32, B=16)
@triton.jit
def matmul_by_descriptors_plain_epilogue_unmasked(a_desc, c_ptr, k, n, B: tl.constexpr):
    rm = tl.program_id(0) * B
    rn = tl.program_id(1) * B
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, k, B):
        a = a_desc.load([rm, start])
        acc += tl.dot(a, a.T)
    at = (rm + tl.arange(0, B))[:, None] * n + (rn + tl.arange(0, B))[None, :]
    tl.store(c_ptr + at, acc)  # BUG: oob argument=c_ptr


@case((3,), x_desc=host(rand(3, 20, 16), (1, 16, 16)), out_ptr=zeros(3, 16, 16), B=16)
@triton.jit
def three_dimensional_descriptor(x_desc, out_ptr, B: tl.constexpr):
    pid = tl.program_id(0)
    x = x_desc.load([pid, 4, 0]).reshape(B, B)
    at = pid * B * B + tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + at, x)


@case((2,), index_ptr=ints([0, 9, 3, 3, 1, 2, 8, 7]), x_ptr=rand(10, 32), out_ptr=zeros(8, 32), BM=4, BN=32)
@triton.jit
def descriptor_store_of_gathered_rows(index_ptr, x_ptr, out_ptr, BM: tl.constexpr, BN: tl.constexpr):
    out = tl.make_tensor_descriptor(out_ptr, [8, BN], [BN, 1], [BM, BN])
    row = tl.program_id(0) * BM
    index = tl.load(index_ptr + row + tl.arange(0, BM))
    out.store([row, 0], tl.load(x_ptr + index[:, None] * BN + tl.arange(0, BN)[None, :]))
