"""Writes the PTX beside this file again: `python make.py`, with numba-cuda[cu13], on any machine.

The recorded files are of numba-cuda 0.30.4. What names the folder in them is taken away.
"""

from __future__ import annotations

import sys
import types as python_types
from pathlib import Path

from numba import cuda, types
from numba.cuda import dispatcher

HERE = Path(__file__).parent


def main() -> None:
    # Device functions are compiled for the current device; there need be none.
    device = python_types.SimpleNamespace(compute_capability=(9, 0))
    dispatcher.get_current_device = lambda: device
    sys.path.insert(0, str(HERE))
    import kernels

    row = types.float32[::1]
    pair = types.Tuple((types.float64, types.float64[::1]))
    for kernel, signature in (
        (kernels.axpy, (types.float32, row, row)),
        (kernels.Rows.roots, (types.float64[:, :], pair, types.int32, types.boolean)),
        (kernels.shifted, (types.complex64[:],)),
    ):
        ptx, _ = cuda.compile(kernel.py_func, signature, device=False, abi="numba", cc=(9, 0), lineinfo=True)
        text = ptx.rstrip("\0").replace(f"{HERE}/", "")
        (HERE / f"{kernel.py_func.__name__}.ptx").write_text(text)


if __name__ == "__main__":
    main()
