"""Row-wise softmax of a matrix whose rows are not contiguous."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl

MINUS_INFINITY = tl.constexpr(float("-inf"))


@triton.jit
def row_max(x):
    return tl.max(x, axis=0)


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(in_ptr + row * in_stride + offsets, mask=mask, other=MINUS_INFINITY)
    numerator = tl.exp(x - row_max(x))
    result = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * out_stride + offsets, result, mask=mask)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, columns = 64, 100
    x = torch.randn(rows, 128, device=device)[:, :columns]
    out = torch.empty(rows, columns, device=device)
    softmax_kernel[(rows,)](out, x, x.stride(0), out.stride(0), columns, BLOCK=128)
    torch.testing.assert_close(out, torch.softmax(x, dim=1))
    print(f"softmax: {rows} rows of {columns} agree with torch ({device})")


if __name__ == "__main__":
    main()
