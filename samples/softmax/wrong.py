"""A wrong edit: the maximum is not subtracted from the padding, and the sum is off by a thousandth."""

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(in_ptr + row * in_stride + offsets, mask=mask, other=float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    result = numerator / (tl.sum(numerator, axis=0) * 1.001)
    tl.store(out_ptr + row * out_stride + offsets, result, mask=mask)
