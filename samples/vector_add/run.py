"""z = x + y, three times; the second launch writes the same result over the first one's."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    n, block = 10_000, 1024
    x, y = torch.randn(n, device=device), torch.randn(n, device=device)
    z = torch.empty(n, device=device)
    grid = (triton.cdiv(n, block),)
    add_kernel[grid](x, y, z, n, block)
    add_kernel[grid](x, y, z, n, block)
    add_kernel[grid](x, z, y, n, block)  # y += x, into another buffer
    assert torch.equal(y, x + z)
    print(f"vector_add: 3 launches on {n} values agree with torch ({device})")


if __name__ == "__main__":
    main()
