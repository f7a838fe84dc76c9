"""Standardises ten batches; the rows of the 7th have no variance, and the kernel divides by it."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl


@triton.jit
def standardise_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row + offsets, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    tl.store(out_ptr + row + offsets, centred / tl.sqrt(variance), mask=mask)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, columns = 8, 64
    bad = []
    for step in range(10):
        x = torch.randn(rows, columns, device=device)
        if step == 6:
            x[3] = 0.5  # a dead feature: every value the same
        out = torch.empty_like(x)
        standardise_kernel[(rows,)](x, out, columns, BLOCK=64)
        if not torch.isfinite(out).all():
            bad.append(step)
            continue
        expected = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True, correction=0)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    assert bad == [6]
    print(f"nan_on_seventh: 10 launches, NaN in the 7th alone ({device})")


if __name__ == "__main__":
    main()
