"""SwiGLU with the two halves in each other's place: a candidate that must fail."""

import triton
import triton.language as tl


@triton.jit
def swiglu(gate_up, out, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    up = tl.load(gate_up + row * 2 * columns + at, mask=at < columns)
    gate = tl.load(gate_up + row * 2 * columns + columns + at, mask=at < columns)
    tl.store(out + row * columns + at, gate * tl.sigmoid(gate) * up, mask=at < columns)
