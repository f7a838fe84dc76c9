"""left_out_lanes.py: what the lanes hold that a load leaves out, by type, form and width, on the device here.

A load leaves lanes out by a mask without ``other``, or as a block pointer by its boundary without a padding
option. Memory there holds a pattern of ones, so that a lane which is loaded all the same shows. With
TRITON_INTERPRET=1 it runs on Triton's interpreter. Status 1 if a lane holds anything but zeros.
"""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from typing import Any

import torch
import triton
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
TYPES = ("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "int8", "int32", "int64", "bool")
WIDTHS = (32, 128, 1024, 4096)


@triton.jit
def masked(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, mask=lanes < n))


@triton.jit
def odd_lanes(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, mask=(lanes % 2 == 0) & (lanes < n)))


@triton.jit
def block_pointer(x, out, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    tl.store(out + tl.arange(0, BLOCK), tl.load(block, boundary_check=(0,)))


@triton.jit
def in_a_pipeline(x, out, n, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """Rows through shared memory by asynchronous copies, times the unit matrix: they stay as they are."""
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    unit = (rows == columns).to(x.dtype.element_ty)
    for step in tl.range(0, STEPS, num_stages=3):
        place = (step * BLOCK + rows) * BLOCK + columns
        tile = tl.load(x + place, mask=(rows < n) & (columns < n))
        made = tl.dot(tile, unit).to(out.dtype.element_ty)
        tl.store(out + place, made)


def ones(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Memory of set bits; a truth value is a byte of 1."""
    size = torch.empty((), dtype=dtype).element_size()
    fill = 1 if dtype is torch.bool else 0xFF
    return torch.full((count * size,), fill, dtype=torch.uint8, device=DEVICE).view(dtype)


def rows_of(kernel: Any, types: tuple[str, ...], widths: tuple[int, ...]) -> list[tuple[str, str, int, str]]:
    found = []
    for name, width in itertools.product(types, widths):
        try:
            said = held(kernel, getattr(torch, name), width)
        except Exception as error:
            said = f"not run: {type(error).__name__}"
        found.append((kernel.fn.__name__, name, width, said))
    return found


def held(kernel: Any, dtype: torch.dtype, width: int) -> str:
    """What the lanes hold that were left out; for several places of the boundary."""
    tile = kernel is in_a_pipeline
    steps = 4
    count = steps * width * width if tile else width
    other = 0
    for n in (1, width // 2 - 1, width - 1):
        x, out = ones(count, dtype), ones(count, dtype)
        more = {"STEPS": steps} if tile else {}
        kernel[(1,)](x, out, n, BLOCK=width, **more)
        lanes = torch.arange(count, device=DEVICE)
        left_out = lanes >= n
        if tile:
            left_out = (lanes // width % width >= n) | (lanes % width >= n)
        elif kernel is odd_lanes:
            left_out |= lanes % 2 == 1
        if tile:  # a row with a NaN in it is one of NaN: those say nothing
            left_out &= lanes // width % width >= n
        size = out.element_size()
        held_bytes = out.view(torch.uint8).view(count, size)[left_out]
        other += int((held_bytes != 0).any(dim=1).sum())
    return "0" if not other else f"{other} lanes hold something else"


def main() -> int:
    warnings.filterwarnings("ignore")
    device = "the interpreter" if INTERPRETED else torch.cuda.get_device_name()
    print(f"Triton {triton.__version__} on {device}\n")
    print("| form | type | lanes | left-out lanes hold |\n|---|---|---|---|")
    found = rows_of(masked, TYPES, WIDTHS) + rows_of(odd_lanes, TYPES, WIDTHS)
    if hasattr(tl, "make_block_ptr"):
        found += rows_of(block_pointer, TYPES, WIDTHS)
    found += rows_of(in_a_pipeline, ("float16", "bfloat16", "float32"), (32, 64))
    for row in found:
        print("| " + " | ".join(map(str, row)) + " |")
    return int(any("something else" in said for *_, said in found))


if __name__ == "__main__":
    sys.exit(main())
