"""Fills gaps of Triton's interpreter, in this process only, and makes it faster.

Seen with Triton 3.6 and 3.9: a float argument stays a Python float and so has no ``.to``; the functions of
libdevice are stubs that return None, or ask for a compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from . import interpreter_builtins, interpreter_libdevice, interpreter_memory

_filled = False


def fill() -> None:
    """Put the replacements in place, once; before any source module takes its imports."""
    global _filled
    if not _filled:
        interpreter_builtins.install()
        interpreter_libdevice.install()
        interpreter_memory.install()
        _filled = True


class Float(float):
    """A float argument that also converts itself, as the compiled kernel's scalar does."""

    dtype = tl.float32

    def to(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        return tensor(float(self), tl.float32).to(dtype, *args, **kwargs)


def tensor(value: float, dtype: Any) -> Any:
    """A scalar of the interpreter."""
    if dtype == tl.bfloat16:  # kept as its bits
        single = tensor(value, tl.float32)
        return single.to(tl.bfloat16)
    numpy_type = {tl.float16: np.float16, tl.float32: np.float32, tl.float64: np.float64}[dtype]
    return tl.tensor(interpreter.TensorHandle(np.array([value], dtype=numpy_type), dtype), dtype)


_SIGNATURES = {
    "fp16": tl.float16,
    "bf16": tl.bfloat16,
    "fp32": tl.float32,
    "f32": tl.float32,
    "fp64": tl.float64,
}


def scalar(value: Any, signature: str | None, typed: bool) -> Any:
    """What the kernel is given for a runtime argument: floats gain a type, all else is left alone."""
    if type(value) is not float:
        return value
    if not typed:
        return Float(value)
    return _Typed(value, _SIGNATURES.get(signature or "fp32", tl.float32))


class _Typed:
    """A float on its way to the interpreter, which turns it into a tensor by `_implicit_cvt`."""

    def __new__(cls, value: float, dtype: Any) -> Any:
        return tensor(value, dtype)
