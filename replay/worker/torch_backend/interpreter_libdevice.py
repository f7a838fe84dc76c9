"""libdevice for the interpreter: element-wise functions on its tensors, by numpy and torch.

Results agree with the device's to rounding, not to the bit.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

Array = Any


def _by_torch(function: Callable[..., Any]) -> Callable[..., Array]:
    def apply(*arrays: Array) -> Array:
        return function(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays)).numpy()

    return apply


_special = torch.special

# name -> function of arrays of one floating type
FLOATING: dict[str, Callable[..., Array]] = {
    "abs": np.abs, "fabs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "rint": np.rint, "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x),
    "sqrt": np.sqrt, "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x), "cbrt": np.cbrt,
    "rcbrt": lambda x: x.dtype.type(1) / np.cbrt(x),
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(x.dtype.type(10), x), "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "logb": lambda x: np.floor(np.log2(np.abs(x))),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinpi": lambda x: np.sin(x * x.dtype.type(np.pi)), "cospi": lambda x: np.cos(x * x.dtype.type(np.pi)),
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power, "hypot": np.hypot, "fmod": np.fmod,
    "remainder": lambda x, y: x - np.rint(x / y) * y, "copysign": np.copysign, "nextafter": np.nextafter,
    "fdim": lambda x, y: np.maximum(x - y, x.dtype.type(0)), "fma": lambda x, y, z: x * y + z,
    "min": np.fmin, "max": np.fmax, "saturatef": lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0, 1),
    "erf": _by_torch(_special.erf), "erfc": _by_torch(_special.erfc), "erfinv": _by_torch(_special.erfinv),
    "erfcinv": _by_torch(lambda x: _special.erfinv(1 - x)), "erfcx": _by_torch(_special.erfcx),
    "normcdf": _by_torch(_special.ndtr), "normcdfinv": _by_torch(_special.ndtri),
    "lgamma": _by_torch(torch.lgamma),
    "tgamma": _by_torch(lambda x: torch.exp(torch.lgamma(x)) * _gamma_sign(x)),
    "j0": _by_torch(_special.bessel_j0), "j1": _by_torch(_special.bessel_j1),
    "y0": _by_torch(_special.bessel_y0), "y1": _by_torch(_special.bessel_y1),
    "cyl_bessel_i0": _by_torch(_special.i0), "cyl_bessel_i1": _by_torch(_special.i1),
    "fast_sinf": np.sin, "fast_cosf": np.cos, "fast_tanf": np.tan, "fast_expf": np.exp, "fast_log2f": np.log2,
    "fast_logf": np.log, "fast_log10f": np.log10, "fast_exp10f": lambda x: np.power(x.dtype.type(10), x),
    "fast_powf": np.power, "fast_dividef": np.divide, "fast_tanhf": np.tanh,
    "add_rn": np.add, "sub_rn": np.subtract, "mul_rn": np.multiply, "div_rn": np.divide, "sqrt_rn": np.sqrt,
    "rsqrt_rn": lambda x: x.dtype.type(1) / np.sqrt(x), "rcp_rn": lambda x: x.dtype.type(1) / x,
    "fma_rn": lambda x, y, z: x * y + z,
}  # fmt: skip

# name -> (function, Triton type of the result)
PREDICATES: dict[str, tuple[Callable[..., Array], Any]] = {
    "isnan": (np.isnan, tl.int32), "isinf": (np.isinf, tl.int32), "isinff": (np.isinf, tl.int32),
    "isinfd": (np.isinf, tl.int32), "isfinited": (np.isfinite, tl.int32), "finitef": (np.isfinite, tl.int32),
    "signbit": (np.signbit, tl.int32), "llrint": (np.rint, tl.int64),
    "llround": (FLOATING["round"], tl.int64),
    "ilogb": (FLOATING["logb"], tl.int32),
}  # fmt: skip


def _popcount(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x)[..., None].view(np.uint8), axis=-1)
    return bits.sum(axis=-1)


def _leading_zeros(x: Array) -> Array:
    width = x.dtype.itemsize * 8
    unsigned = x.view(np.dtype(f"u{x.dtype.itemsize}")).astype(object)
    return np.vectorize(lambda v: width - int(v).bit_length(), otypes=[np.int32])(unsigned)


def _first_set(x: Array) -> Array:
    return np.vectorize(lambda v: (int(v) & -int(v)).bit_length(), otypes=[np.int32])(x.astype(object))


INTEGER: dict[str, Callable[..., Array]] = {"popc": _popcount, "clz": _leading_zeros, "ffs": _first_set}

_NUMPY_TYPES = {tl.int32: np.int32, tl.int64: np.int64}


def _gamma_sign(x: Any) -> Any:
    negative = x < 0
    odd = torch.remainder(torch.floor(x), 2) != 0
    return torch.where(negative & odd, -torch.ones_like(x), torch.ones_like(x))


def _operands(name: str, args: tuple[Any, ...]) -> list[Any]:
    semantic = interpreter.interpreter_semantic
    tensors: list[Any] = [semantic.to_tensor(arg) for arg in args]
    floats = [t for t in tensors if t.dtype.is_floating()]
    for t in floats:
        if t.dtype not in (tl.float32, tl.float64):
            raise TypeError(
                f"libdevice.{name} takes fp32 or fp64, not {t.dtype}: the compiler refuses it too"
            )
    return tensors


def _make(name: str) -> Callable[..., Any]:
    def function(*args: Any, _semantic: Any = None) -> Any:
        tensors = _operands(name, args)
        arrays = list(np.broadcast_arrays(*(t.handle.data for t in tensors)))
        floats = [t.dtype for t in tensors if t.dtype.is_floating()]
        blocks = [t for t in tensors if t.type.is_block()]
        if floats:
            dtype = tl.float64 if tl.float64 in floats else tl.float32
            width = np.float64 if dtype == tl.float64 else np.float32
            with np.errstate(all="ignore"):
                if name in PREDICATES:
                    operation, dtype = PREDICATES[name]
                    data = np.asarray(operation(*arrays)).astype(_NUMPY_TYPES[dtype])
                elif name in FLOATING:
                    data = np.asarray(FLOATING[name](*(a.astype(width) for a in arrays))).astype(width)
                else:
                    raise TypeError(f"libdevice.{name} is not available for {dtype} in the interpreter")
        elif name in INTEGER:
            dtype, data = tl.int32, np.asarray(INTEGER[name](*arrays)).astype(np.int32)
        elif name in ("abs", "min", "max"):
            dtype = tensors[0].dtype
            operation = {"abs": np.abs, "min": np.minimum, "max": np.maximum}[name]
            data = np.asarray(operation(*arrays))
        elif name in FLOATING:  # integers are taken as floats, as the compiler's implicit conversion does
            return function(*(t.to(tl.float32) for t in tensors))
        else:
            raise TypeError(f"libdevice.{name} is not available in the interpreter")
        kind = tl.block_type(dtype, list(data.shape)) if blocks else dtype
        return tl.tensor(interpreter.TensorHandle(data, dtype), kind)

    function.__name__ = name
    return function


def install() -> None:
    """Replace libdevice's functions in every module of Triton that offers them."""
    names = {*FLOATING, *PREDICATES, *INTEGER}
    functions = {name: _make(name) for name in names}
    for path in ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice",
                 "triton.language.extra.hip.libdevice"):  # fmt: skip
        try:
            module = importlib.import_module(path)
        except ImportError:
            continue
        for name, function in functions.items():
            if hasattr(module, name):
                setattr(module, name, function)
