"""Writes the cubins beside this file again: `python make.py`, with cuda-tile[tileiras], on any machine.

The recorded files are of cuda-tile 1.7.0 and tileiras 13.5.37, for sm_90.
"""

from __future__ import annotations

import linecache
import types
from pathlib import Path

import cuda.tile as ct
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    ConstantConstraint,
    KernelSignature,
    ListConstraint,
    ScalarConstraint,
    TupleConstraint,
    export_kernel,
)  # fmt: skip

HERE = Path(__file__).parent
V1, V2 = CallingConvention.cutile_python_v1(), CallingConvention.cutile_python_v2()


def array(dtype: ct.DType, ndim: int) -> ArrayConstraint:
    """What a contiguous tensor is compiled for."""
    return ArrayConstraint(
        dtype, ndim, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[],
        may_alias_internally=False, stride_constant=[*[None] * (ndim - 1), 1], base_addr_divisible_by=16,
    )  # fmt: skip


def main() -> None:
    # Under a name that is on no machine.
    name, text = "/app/kernels.py", (HERE / "kernels.py").read_text()
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    kernels = types.ModuleType("kernels")
    exec(compile(text, name, "exec"), vars(kernels))
    row = array(ct.float32, 1)
    for kernel, parameters, convention in (
        (kernels.scaled_add, [ScalarConstraint(ct.float32), row, row, row, ConstantConstraint(256)], V1),
        (
            kernels.Rows.flagged,
            [
                TupleConstraint([ScalarConstraint(ct.float32), array(ct.float32, 2)]),
                ListConstraint(array(ct.float16, 2), alias_groups=[], elements_may_alias=True),
                ScalarConstraint(ct.bool_),
            ],
            V2,
        ),
        (kernels.shifted, [row], V1),
    ):
        path = HERE / f"{kernel._pyfunc.__name__}.cubin"
        signature = KernelSignature(parameters, convention)
        export_kernel(kernel, [signature], path, gpu_code="sm_90", output_format="cubin")


if __name__ == "__main__":
    main()
