"""A kernel without a mask on its store: it writes past its buffer, into the neighbour in the same allocation.

Nothing crashes; the program only notices that the labels behind the scores have changed.
"""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, scores_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=2.0)
    tl.store(scores_ptr + offsets, x * x)  # the mask is missing


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n, block = 1000, 256
    arena = torch.ones(1024, device=device)  # an allocator of one's own, as many programs have
    scores, labels = arena[:n], arena[n:]
    x = torch.arange(n, dtype=torch.float32, device=device)
    square_kernel[(triton.cdiv(n, block),)](x, scores, n, block)
    assert torch.equal(scores, x * x)
    overwritten = int((labels != 1.0).sum())
    assert overwritten == 24
    damage = f"{overwritten} labels behind them were overwritten"
    print(f"out_of_bounds: {n} scores agree with torch, {damage} ({device})")


if __name__ == "__main__":
    main()
