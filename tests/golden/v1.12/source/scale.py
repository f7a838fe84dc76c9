import triton


@triton.jit
def scale(x_ptr, n, FACTOR):
    pass
