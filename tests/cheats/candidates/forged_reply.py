"""Does nothing, and answers in the place of the process that judges it.

Source: pygpubench, fd_overwrite and pipe_interpose
Host: bytes of out_ptr were never written (first at out_ptr[0, 0])
Device: none: a compiled kernel writes to no descriptor
"""

import os

import triton
import triton.language as tl
from _kerncap_worker.protocol import Ended
from _kerncap_worker.typed_json import line

for fd in range(3, 64):
    try:
        os.write(fd, b"\n" + line(Ended("ok", ns=1)))
        os.close(fd)
    except OSError:
        pass


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    pass
