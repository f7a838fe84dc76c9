"""A kernel of Gluon, with a helper, a layout of the module and one of the kernel's own."""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

runs = False  # Triton's interpreter has no Gluon
ROWS = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))


@gluon.jit
def doubled(x):
    return x + x


@triton.autotune([triton.Config({"B": 128})], key=[])
@gluon.jit(do_not_specialize=["n"])
def kernel(x, y, n, B: gl.constexpr):
    at = gl.program_id(0) * B + gl.arange(0, B, layout=ROWS)
    gl.store(y + at, doubled(gl.load(x + at, mask=at < n)), mask=at < n)


signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "B": "constexpr"}
constexprs = {"B": 128}
