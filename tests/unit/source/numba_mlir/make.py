"""Writes the PTX beside this file again: `python make.py`, with numba-cuda-mlir[cu13], on any machine.

The recorded file is of numba-cuda-mlir 0.6.0. What names the folder in it is taken away.
"""

from __future__ import annotations

from pathlib import Path

import kernels
from numba_cuda_mlir import cuda, tools, types

HERE = Path(__file__).parent


def main() -> None:
    tools._cached_cc = (9, 0)  # of the current device, of which there is no need
    row = types.float32[::1]
    signature = (types.float32, row, row)
    ptx, _ = cuda.compile(kernels.axpy.py_func, signature, device=False, abi="numba", lineinfo=True)
    (HERE / "axpy.ptx").write_text(ptx.rstrip("\0").replace(f"{HERE}/", ""))


if __name__ == "__main__":
    main()
