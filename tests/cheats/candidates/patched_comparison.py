"""Does nothing, and replaces what compares.

Source: pygpubench, reference-kernels 162: patched statistics
Host: bytes of out_ptr were never written (first at out_ptr[0, 0])
Device: in the process that judges it
Hostile: bytes of out_ptr were never written (first at out_ptr[0, 0])
"""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    pass


for name, module in list(sys.modules.items()):
    if name.endswith(".states") and hasattr(module, "States"):
        module.States.differing = lambda self, name: []
torch.equal = lambda a, b: True
