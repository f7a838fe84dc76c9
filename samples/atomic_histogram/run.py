"""A histogram with integer atomics, added to the counts of an earlier batch."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl


@triton.jit
def histogram_kernel(values_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    bins = tl.load(values_ptr + offsets, mask=mask, other=0)
    tl.atomic_add(counts_ptr + bins, 1, mask=mask)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    n, bins, block = 5000, 32, 512
    counts = torch.zeros(bins, dtype=torch.int32, device=device)
    batches = [torch.randint(0, bins, (n,), dtype=torch.int32, device=device) for _ in range(2)]
    for batch in batches:
        histogram_kernel[(triton.cdiv(n, block),)](batch, counts, n, block)
    expected = torch.bincount(torch.cat(batches).long(), minlength=bins)
    assert torch.equal(counts.long(), expected)
    print(f"atomic_histogram: {2 * n} values in {bins} bins agree with torch ({device})")


if __name__ == "__main__":
    main()
