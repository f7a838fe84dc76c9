"""One launch with many kinds of arguments: dtypes, aliasing, strides, a table of pointers, values."""

import collections

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, PROGRAMS = 32, 3
Pair = collections.namedtuple("Pair", ["first", "second"])


@triton.jit
def plus_one(x):
    return x + 1.0


@triton.jit
def mixed_kernel(
    out,
    narrow,
    eight,
    skipped,
    single,
    table,
    nothing,
    empty,
    low,
    flags,
    rows,
    pair,
    limit,
    name: tl.constexpr,
    function: tl.constexpr,
    kind: tl.constexpr,
    N: tl.constexpr,
):
    i = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.load(narrow + i).to(tl.float32) + tl.load(eight + i).to(tl.float32)
    total += tl.load(skipped + i * 3) + tl.load(single)
    row = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    total += tl.load(row + tl.arange(0, N)) + tl.load(flags + i).to(tl.float32)
    total += tl.load(pair[0] + i) * pair[1]
    if nothing is None:
        total += 1
    total = tl.minimum(function(total), limit)
    tl.store(out + i, total.to(kind))
    tl.store(low + i, (total * 2).to(tl.bfloat16))


def main():
    torch.manual_seed(0)
    count = PROGRAMS * N
    skipped = torch.randn(count * 3 + 5, device=DEVICE)
    rows = torch.randn(PROGRAMS, N, device=DEVICE)
    table = torch.tensor([row.data_ptr() for row in rows], dtype=torch.int64, device=DEVICE)
    both = torch.zeros(2, count, device=DEVICE)
    low = torch.empty(count, dtype=torch.bfloat16, device=DEVICE)
    mixed_kernel[(PROGRAMS,)](
        both[1],
        torch.randn(count, device=DEVICE).to(torch.bfloat16),
        torch.randn(count, device=DEVICE).to(torch.float8_e5m2),
        skipped[5:],
        torch.tensor(3.5, device=DEVICE).expand(7),
        table,
        None,
        torch.empty(0, device=DEVICE),
        low,
        torch.rand(count, device=DEVICE) > 0.5,
        rows,
        Pair(both[0], 7),
        float("inf"),
        'text """ \'',
        plus_one,
        tl.float32,
        N,
    )
    print(f"mixed: {both[1].sum().item():.3f}")


if __name__ == "__main__":
    main()
