"""Rows that integers choose, grade and keep: indices, marks with a limit of their own, and flags."""

import torch
import triton
import triton.language as tl


@triton.jit
def graded_rows(
    x_ptr, row_ptr, mark_ptr, limit_ptr, kept_ptr, out_ptr, gain, level, columns, BLOCK: tl.constexpr
):
    place = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    row = tl.load(row_ptr + place)
    x = tl.load(x_ptr + row * columns + i, mask=mask, other=0.0)
    at = place * columns + i
    mark = tl.load(mark_ptr + at, mask=mask, other=0)
    limit = tl.load(limit_ptr + at, mask=mask, other=0)
    kept = tl.load(kept_ptr + at, mask=mask, other=0)
    x = tl.where(mark > limit, x * gain, x * level)
    tl.store(out_ptr + at, tl.where(kept != 0, x, 0.0), mask=mask)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, columns, places = 9, 50, 6
    x = torch.randn(rows, columns).to(device)
    row = torch.tensor([4, 0, 7, 7, 2, 5]).to(device)
    marks = torch.randperm(2 * places * columns).to(torch.int32).to(device)  # of which no two are equal
    kept = torch.randint(0, 2, (places, columns), dtype=torch.uint8).to(device)
    out = torch.zeros(places, columns, device=device)
    size = places * columns
    graded_rows[(places,)](x, row, marks[:size], marks[size:], kept, out, 2.0, 3, columns, BLOCK=64)


main()
