"""Bytes of a view as numbers, for any dtype: the data of a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.concrete.formats import decode

Array = npt.NDArray[Any]

_NUMPY = {
    "float16": "<f2", "half": "<f2", "float32": "<f4", "float": "<f4", "float64": "<f8", "double": "<f8",
    "int8": "<i1", "int16": "<i2", "short": "<i2", "int32": "<i4", "int": "<i4",
    "int64": "<i8", "long": "<i8",
    "uint8": "<u1", "uint16": "<u2", "uint32": "<u4", "uint64": "<u8",
    "complex64": "<c8", "complex128": "<c16",
}  # fmt: skip
_SMALL = {
    "bfloat16": ("bf16", "<u2"), "float8_e4m3fn": ("f8E4M3FN", "<u1"), "float8_e5m2": ("f8E5M2", "<u1"),
    "float8_e4m3fnuz": ("f8E4M3FNUZ", "<u1"), "float8_e5m2fnuz": ("f8E5M2FNUZ", "<u1"),
}  # fmt: skip
_BITS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def is_known(dtype: str) -> bool:
    """Whether values are shown as that dtype's; others are shown as unsigned integers."""
    return dtype == "bool" or dtype in _NUMPY or dtype in _SMALL


def how_shown(dtype: str, itemsize: int) -> str | None:
    """What a reader has to know about the values; None if they are the dtype's own."""
    if dtype.startswith("complex") and dtype in _NUMPY:
        return "absolute values of complex numbers"
    if is_known(dtype) and _width(dtype) == itemsize:
        return None
    if itemsize in _BITS:
        return f"{dtype} is shown as unsigned integers of {8 * itemsize} bits"
    return f"{dtype} of {itemsize} bytes is shown by its first byte"


def values(raw: Array, dtype: str, itemsize: int) -> npt.NDArray[np.float64]:
    """``raw``: bytes, the last axis ``itemsize`` long. Gives numbers of the shape without that axis."""
    flat = np.ascontiguousarray(raw, dtype=np.uint8)
    shape = flat.shape[:-1]
    if dtype == "bool" and itemsize == 1:
        return np.asarray(flat[..., 0] != 0, dtype=np.float64)
    if is_known(dtype) and _width(dtype) == itemsize:
        found = _decoded(flat, dtype)
    elif itemsize in _BITS:
        found = flat.view(_BITS[itemsize])
    else:
        found = flat[..., 0]
    with np.errstate(over="ignore", invalid="ignore"):  # a signalling NaN is one all the same
        if np.iscomplexobj(found):
            found = np.abs(found)
        numbers: npt.NDArray[np.float64] = found.astype(np.float64).reshape(shape)
    return numbers


def _decoded(flat: Array, dtype: str) -> Array:
    if dtype in _SMALL:
        name, bits = _SMALL[dtype]
        return decode(flat.view(bits), name)
    return flat.view(_NUMPY[dtype])


def _width(dtype: str) -> int:
    return 1 if dtype == "bool" else np.dtype(_SMALL[dtype][1] if dtype in _SMALL else _NUMPY[dtype]).itemsize
