import triton
import triton.language as tl


def make(factor):
    K = tl.constexpr(factor)

    @triton.jit
    def helper(x):
        return x * K

    return helper


twice, thrice = make(2.0), make(3.0)


def make_kernel(first, second, block):
    @triton.jit
    def kernel(x, y, B: tl.constexpr = block):
        at = tl.arange(0, B)
        tl.store(y + at, first(tl.load(x + at)) + second(tl.load(x + at)))

    return kernel


kernel = make_kernel(twice, thrice, 16)
runs = "replay"  # the interpreter loses closures: only the module can run there


def expected(x):
    return 5 * x
