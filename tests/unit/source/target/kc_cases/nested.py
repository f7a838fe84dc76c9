import triton
import triton.language as tl

ONE = tl.constexpr(1.0)


@triton.jit
def innermost(x):
    return x + ONE


@triton.jit
def middle(x):
    return innermost(x) * 2.0


@triton.jit(noinline=True)
def limit(n):
    return n + 0


@triton.jit(do_not_specialize=["n"], repr=lambda specialization: "shown")
def kernel(x, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, middle(innermost(tl.load(x + at))), mask=at < limit(n))


def launch(kernel, x, y, module):
    kernel[(1,)](x, y, 16, 16)


signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "B": "constexpr"}


def expected(x):
    return (x + 2) * 2
