"""x *= s in place: whoever snapshots after the launch, or runs it twice, gets s squared."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, scale, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(x_ptr + offsets, x * scale, mask=mask)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n, block = 4096, 512
    x = torch.arange(n, dtype=torch.float32, device=device)
    before = x.clone()
    scale_kernel[(triton.cdiv(n, block),)](x, 3.0, n, block)
    assert torch.equal(x, before * 3.0)
    print(f"inplace_scale: {n} values scaled by 3 ({device})")


if __name__ == "__main__":
    main()
