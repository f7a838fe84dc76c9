from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import triton
import triton.language as tl

if TYPE_CHECKING:
    from somewhere import Pointer


@triton.jit
def kernel(x: Pointer, y: Optional[Pointer], B: tl.constexpr, C: "tl.constexpr" = 4) -> None:
    at = tl.arange(0, B)
    C_plus: tl.constexpr = C + 1
    tl.store(y + at, tl.load(x + at) + C_plus + tl.arange(0, C * 4))


def expected(x):
    return 2 * x + 5


runs = "replay"  # the interpreter does not know C for a constexpr there, by its quotes
