"""Right: the row in two halves, summed one after the other."""

import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, BLOCK, BLOCK // 2):
        i = start + tl.arange(0, BLOCK // 2)
        x = tl.load(x_ptr + row * x_stride + i, mask=i < columns, other=0.0)
        total += tl.sum(x * x, axis=0)
    scale = tl.sqrt(columns / total)
    for start in range(0, BLOCK, BLOCK // 2):
        i = start + tl.arange(0, BLOCK // 2)
        x = tl.load(x_ptr + row * x_stride + i, mask=i < columns, other=0.0)
        w = tl.load(w_ptr + i, mask=i < columns, other=0.0)
        tl.store(out_ptr + row * out_stride + i, x * scale * w, mask=i < columns)
