import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math


class triton_heuristics:
    """Stands in for torch's, which wants a device: keeps the function in `fn` as a CachingAutotuner does."""

    def __init__(self, fn):
        self.fn = fn

    @staticmethod
    def pointwise(size_hints, filename, triton_meta, inductor_meta, min_elem_per_thread):
        return triton_heuristics


@triton_heuristics.pointwise(
    size_hints={"x": 16},
    filename=__file__,
    triton_meta={"signature": {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32"}, "constants": {}},
    inductor_meta={"kernel_name": "triton_poi_fused_relu_0", "mutated_arg_names": []},
    min_elem_per_thread=0,
)
@triton.jit
def triton_poi_fused_relu_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + (xindex), xmask)
    tmp1 = tl.full([1], 0, tl.int32)
    tmp2 = triton_helpers.maximum(tmp1, tmp0)
    tmp3 = tl_math.abs(tmp2)
    if XBLOCK > 1024:
        tmp3 = libdevice.rsqrt(tmp3)
    tl.store(out_ptr0 + (xindex), tmp3, xmask)


kernel = triton_poi_fused_relu_0
signature = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}
constexprs = {"XBLOCK": 16}
runs = "replay"


def launch(kernel, x, y, module):
    kernel[(1,)](x, y, 16, 16)


def expected(x):
    return x.relu()
