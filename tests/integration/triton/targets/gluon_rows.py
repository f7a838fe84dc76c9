"""Two kernels of Gluon: one takes its layout from here, the other a value that no file can hold."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


class Factor:
    """What a constexpr may be: an object of the program's own."""

    def __init__(self, by):
        self.by = by

    def __hash__(self):
        return hash(self.by)

    def __eq__(self, other):
        return isinstance(other, Factor) and other.by == self.by


@gluon.jit
def shifted(x, by):
    return x + by


@gluon.jit
def gluon_rows(x, y, n, B: gl.constexpr, LAYOUT: gl.constexpr):
    at = gl.program_id(0) * B + gl.arange(0, B, layout=LAYOUT)
    gl.store(y + at, shifted(gl.load(x + at, mask=at < n), 1.5), mask=at < n)


@gluon.jit
def gluon_odd(x, y, n, B: gl.constexpr, FACTOR: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    at = gl.program_id(0) * B + gl.arange(0, B, layout=layout)
    by: gl.constexpr = FACTOR.by
    gl.store(y + at, gl.load(x + at, mask=at < n) * by, mask=at < n)


n = 1000
x = torch.arange(n, dtype=torch.float32, device="cuda")
y, z = torch.empty_like(x), torch.empty_like(x)
gluon_rows[(8,)](x, y, n, 128, gl.BlockedLayout([1], [32], [4], [0]), num_warps=4)
gluon_odd[(8,)](x, z, n, 128, Factor(3), num_warps=4)
assert torch.equal(y, x + 1.5) and torch.equal(z, x * 3)
print("rows agree")
