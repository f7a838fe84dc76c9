import linecache

import triton
import triton.language as tl

TEXT = """
@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at) - MINUS)
"""
MINUS = tl.constexpr(7)
linecache.cache["<cell 1>"] = (len(TEXT), None, TEXT.splitlines(keepends=True), "<cell 1>")
exec(compile(TEXT, "<cell 1>", "exec"))


def expected(x):
    return x - 7
