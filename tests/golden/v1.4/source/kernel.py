import triton
import triton.language as tl


@triton.jit
def peek(x_ptr):
    tl.device_print("x", tl.load(x_ptr))
