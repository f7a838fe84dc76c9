"""Triton kernels through Triton's own HIP driver: ``kernels.py softmax matmul layer_norm scaled_matmul``.

There is no PyTorch for ROCm where this runs: tensors are PyTorch's own over memory of HIP's. Prints one line
for each kernel whose result is right. Needs TRITON_LIBHIP_PATH.
"""

from __future__ import annotations

import ctypes
import os
import sys

import torch
import triton
import triton.language as tl
from triton.backends.amd.driver import HIPDriver
from triton.runtime import driver

HIP = ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])
TO_DEVICE, TO_HOST = 1, 2


@triton.jit
def row_max(v):
    return tl.max(v, axis=0)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, stride, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * stride
    i = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + at + i, mask=i < columns, other=-float("inf"))
    top = tl.exp(v - row_max(v))
    tl.store(y_ptr + at + i, top / tl.sum(top, axis=0), mask=i < columns)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (start + k)[None, :], mask=rows[:, None] < M, other=0.0)
        right = tl.load(b + (start + k)[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=0.0)
        total = tl.dot(left, right, total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=inside)


@triton.jit
def scaled_matmul_kernel(a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, k, runs = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32)
    left = tl.load(a + rows[:, None] * K + k[None, :])
    pairs = tl.load(b + tl.arange(0, K // 2)[:, None] * N + columns[None, :])
    left_scale = tl.load(a_scale + rows[:, None] * (K // 32) + runs[None, :])
    right_scale = tl.load(b_scale + columns[:, None] * (K // 32) + runs[None, :])
    total = tl.dot_scaled(left, left_scale, "e4m3", pairs, right_scale, "e2m1")
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, columns, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns
    i = tl.arange(0, BLOCK)
    inside = i < columns
    x = tl.load(x_ptr + at + i, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    w = tl.load(w_ptr + i, mask=inside)
    b = tl.load(b_ptr + i, mask=inside)
    tl.store(y_ptr + at + i, centred * scale * w + b, mask=inside)


def checked(status: int) -> None:
    if status:
        raise SystemExit(f"HIP answers {status}")


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes in memory of HIP's, as a tensor whose elements the host must not touch."""
    tensor = tensor.contiguous()
    size = tensor.numel() * tensor.element_size()
    address = ctypes.c_void_p()
    checked(HIP.hipMalloc(ctypes.byref(address), ctypes.c_size_t(size)))
    checked(HIP.hipMemcpy(address, ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(size), TO_DEVICE))
    memory = (ctypes.c_char * size).from_address(address.value or 0)
    return torch.frombuffer(memory, dtype=tensor.dtype).view(tensor.shape)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    found = torch.empty(tensor.shape, dtype=tensor.dtype)
    size = ctypes.c_size_t(found.numel() * found.element_size())
    address = ctypes.c_void_p(tensor.data_ptr())
    checked(HIP.hipMemcpy(ctypes.c_void_p(found.data_ptr()), address, size, TO_HOST))
    return found


def softmax() -> None:
    x = torch.randn(5, 200)
    y = on_device(torch.zeros(5, 200))
    softmax_kernel[(5,)](on_device(x), y, 200, 200, BLOCK=256)
    torch.testing.assert_close(on_host(y), torch.softmax(x, 1))


def matmul() -> None:
    m, n, k = 48, 40, 64
    a, b = torch.randn(m, k, dtype=torch.float16), torch.randn(k, n, dtype=torch.float16)
    c = on_device(torch.zeros(m, n))
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    matmul_kernel[grid](on_device(a), on_device(b), c, m, n, k, BM=32, BN=32, BK=32)
    torch.testing.assert_close(on_host(c), a.float() @ b.float(), rtol=1e-3, atol=1e-2)


def scaled_matmul() -> None:
    """8 bits by 4 bits, with a scale for each 32 along k; sums are exact."""
    m, n, k = 32, 32, 256
    a = torch.randint(-4, 5, (m, k)).to(torch.float8_e4m3fn)
    codes = torch.randint(0, 16, (k, n), dtype=torch.uint8)
    b = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])[codes.long()]
    scales = torch.randint(125, 130, (2, 32, k // 32), dtype=torch.uint8)
    powers = torch.exp2(scales.float() - 127).repeat_interleave(32, dim=2)
    c = on_device(torch.zeros(m, n))
    pairs = codes[0::2] | codes[1::2] << 4
    sources = on_device(a.view(torch.uint8)).view(torch.float8_e4m3fn), on_device(scales[0]), on_device(pairs)
    scaled_matmul_kernel[(1,)](*sources, on_device(scales[1]), c, m, n, k)
    torch.testing.assert_close(on_host(c), (a.float() * powers[0]) @ (b * powers[1].T))


def layer_norm() -> None:
    x, w, b = torch.randn(4, 300, dtype=torch.bfloat16), torch.randn(300), torch.randn(300)
    y = on_device(torch.zeros(4, 300))
    layer_norm_kernel[(4,)](on_device(x), on_device(w), on_device(b), y, 300, 1e-5, BLOCK=512)
    expected = torch.nn.functional.layer_norm(x.float(), (300,), w, b, 1e-5)
    torch.testing.assert_close(on_host(y), expected, rtol=1e-3, atol=1e-3)


def main() -> None:
    torch.manual_seed(0)
    hip = HIPDriver()
    hip.get_current_device = lambda: 0
    hip.set_current_device = lambda _device: None
    hip.get_current_stream = lambda _device: 0
    driver.set_active(hip)
    kernels = {one.__name__: one for one in (softmax, matmul, layer_norm, scaled_matmul)}
    for name in sys.argv[1:]:
        kernels[name]()
        print(f"{name}: right on {hip.get_current_target().arch}", flush=True)


if __name__ == "__main__":
    main()
