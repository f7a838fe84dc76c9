"""Rows of a table by index, as an embedding does: the addresses come from memory."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl


@triton.jit
def gather_kernel(table_ptr, index_ptr, out_ptr, width, BLOCK: tl.constexpr):
    position = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < width
    row = tl.load(index_ptr + position)
    values = tl.load(table_ptr + row * width + offsets, mask=mask)
    tl.store(out_ptr + position * width + offsets, values, mask=mask)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, width, picks = 1000, 48, 100
    table = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    index = torch.randint(0, rows, (picks,), device=device)
    out = torch.empty(picks, width, device=device, dtype=torch.bfloat16)
    gather_kernel[(picks,)](table, index, out, width, BLOCK=64)
    assert torch.equal(out, table[index])
    print(f"gather: {picks} of {rows} rows agree with torch ({device})")


if __name__ == "__main__":
    main()
