import triton
import triton.language as tl

from kc_cases.lib import scale as twice


@triton.autotune(configs=[triton.Config({"B": 16}, num_warps=1), triton.Config({"B": 32})], key=["n"])
# between the decorators
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def kernel(
    x,
    y,  # the output
    n,
    B: tl.constexpr,
    EVEN: tl.constexpr,
):
    """Says what it does."""
    at = tl.arange(0, B)
    if EVEN:
        tl.store(y + at, twice(tl.load(x + at, mask=at < n)), mask=at < n)


def launch(kernel, x, y, module):
    kernel[(1,)](x, y, 16, 16, True)


signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "B": "constexpr", "EVEN": "constexpr"}
constexprs = {"EVEN": True}
runs = "replay"


def expected(x):
    return 2 * x
