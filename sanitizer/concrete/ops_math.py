"""Transcendental and other mathematical functions, and the library functions kernels call by name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from kerncap.sanitizer.concrete.ops_arith import (
    ELEMENTWISE,
    Compute,
    fixed,
    float_maker,
    high_signed,
    high_unsigned,
    signed,
    unsigned,
)
from kerncap.sanitizer.concrete.values import Array, Unsupported, element_of, numpy_type
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation


def _scalar(function: Callable[[float], float]) -> Compute:
    """A function of Python's math module over an array; what it refuses gives NaN."""

    def one(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.nan

    whole = np.frompyfunc(one, 1, 1)
    return lambda x: np.asarray(whole(x.astype(np.float64))).astype(x.dtype)


def _fused(x: Array, y: Array, z: Array) -> Array:
    if x.dtype == np.float64:
        return x * y + z
    wide = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
    return wide.astype(x.dtype)


def _reciprocal_root(x: Array) -> Array:
    found: Array = np.true_divide(x.dtype.type(1), np.sqrt(x))
    return found


def _half_away(x: Array) -> Array:
    return np.where(np.abs(x) < 2.0**52, np.trunc(x + np.copysign(x.dtype.type(0.5), x)), x)


def _half_away_exact(x: Array) -> Array:
    # In double precision, so that 0.49999997 + 0.5 does not round up to 1.
    return _half_away(x.astype(np.float64)).astype(x.dtype)


def _power_of_ten(x: Array) -> Array:
    found: Array = np.power(x.dtype.type(10), x)
    return found


def _cube_root_reciprocal(x: Array) -> Array:
    found: Array = np.true_divide(x.dtype.type(1), np.cbrt(x))
    return found


def _normal_distribution(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _saturate(x: Array) -> Array:
    return np.where(np.isnan(x), x.dtype.type(0), np.clip(x, 0, 1))


_erf, _erfc = _scalar(math.erf), _scalar(math.erfc)

MATH: dict[str, Compute] = {
    "absf": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": _reciprocal_root,
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "erfc": _erfc,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _half_away_exact,
    "roundeven": np.rint,
    "copysign": np.copysign,
    "powf": np.power,
    "fma": _fused,
}
for _name, _compute in MATH.items():
    ELEMENTWISE[f"math.{_name}"] = float_maker(_compute)
ELEMENTWISE["tt.precise_sqrt"] = float_maker(np.sqrt)
for _name, _compute in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
    ELEMENTWISE[f"math.{_name}"] = fixed(_compute)


# --- integers ----------------------------------------------------------------------------------------


def _count(bits: Array) -> Array:
    """Set bits of unsigned integers, as uint64 (numpy has a function for it only from 2.0 on)."""
    wide = bits.astype(np.uint64)
    wide = wide - ((wide >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    wide = (wide & pairs) + ((wide >> np.uint64(2)) & pairs)
    wide = (wide + (wide >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    found: Array = (wide * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return found


def _population(x: Array) -> Array:
    return _count(unsigned(x)).astype(x.dtype)


def _leading_zeros(x: Array) -> Array:
    filled = unsigned(x).copy()
    step = 1
    while step < 8 * x.itemsize:
        filled |= filled >> filled.dtype.type(step)
        step *= 2
    return (8 * x.itemsize - _count(filled).astype(np.int64)).astype(x.dtype)


def _trailing_zeros(x: Array) -> Array:
    bits = unsigned(x)
    one = bits.dtype.type(1)
    return _count((bits & (~bits + one)) - one).astype(x.dtype)


def _find_first(x: Array) -> Array:
    return np.where(x == 0, 0, _trailing_zeros(x).astype(np.int64) + 1).astype(np.int32)


def _reversed_bits(x: Array) -> Array:
    swapped = np.ascontiguousarray(unsigned(x)).byteswap()
    parts = swapped.view(np.uint8)
    turned = np.zeros_like(parts)
    for bit in range(8):
        turned |= ((parts >> np.uint8(bit)) & np.uint8(1)) << np.uint8(7 - bit)
    return signed(turned.view(swapped.dtype))


ELEMENTWISE["math.absi"] = fixed(np.abs)
ELEMENTWISE["math.ctpop"] = fixed(_population)
ELEMENTWISE["math.ctlz"] = fixed(_leading_zeros)
ELEMENTWISE["math.cttz"] = fixed(_trailing_zeros)


# --- functions of libdevice (__nv_…) and ocml (__ocml_…) ---------------------------------------------

LIBRARY: dict[str, Compute] = {
    **{name: MATH[name] for name in MATH if name not in ("absf", "powf", "roundeven")},
    "abs": np.abs,
    "llabs": np.abs,
    "fabs": np.abs,
    "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(x.dtype)),
    "pown": lambda x, n: np.power(x, n.astype(x.dtype)),
    "exp10": _power_of_ten,
    "fast_exp": np.exp,
    "fast_exp10": _power_of_ten,
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_log10": np.log10,
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_pow": np.power,
    "fast_fdivide": np.true_divide,
    "sinpi": lambda x: np.sin(np.pi * x),
    "cospi": lambda x: np.cos(np.pi * x),
    "rint": np.rint,
    "nearbyint": np.rint,
    "llrint": lambda x: np.rint(x).astype(np.int64),
    "llround": lambda x: _half_away_exact(x).astype(np.int64),
    "fmod": np.fmod,
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "fmin": np.fmin,
    "fmax": np.fmax,
    "min": np.minimum,
    "max": np.maximum,
    "fdim": lambda x, y: np.where(x > y, x - y, x.dtype.type(0)),
    "hypot": np.hypot,
    "rhypot": lambda x, y: np.true_divide(x.dtype.type(1), np.hypot(x, y)),
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z),
    "norm4d": lambda x, y, z, w: np.sqrt(x * x + y * y + z * z + w * w),
    "rcbrt": _cube_root_reciprocal,
    "lgamma": _scalar(math.lgamma),
    "tgamma": _scalar(math.gamma),
    "erfcx": _scalar(lambda x: math.exp(x * x) * math.erfc(x)),
    "normcdf": _scalar(_normal_distribution),
    "saturate": _saturate,
    "nextafter": np.nextafter,
    "ldexp": np.ldexp,
    "scalbn": np.ldexp,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
    "popc": lambda x: _population(x).astype(np.int32),
    "popcll": lambda x: _population(x).astype(np.int32),
    "clz": lambda x: _leading_zeros(x).astype(np.int32),
    "clzll": lambda x: _leading_zeros(x).astype(np.int32),
    "ffs": _find_first,
    "ffsll": _find_first,
    "brev": _reversed_bits,
    "brevll": _reversed_bits,
    "mulhi": high_signed,
    "umulhi": high_unsigned,
    "mul64hi": high_signed,
    "umul64hi": high_unsigned,
    "float_as_int": lambda x: x.view(np.int32),
    "float_as_uint": lambda x: x.view(np.int32),
    "int_as_float": lambda x: np.ascontiguousarray(x).view(np.float32),
    "uint_as_float": lambda x: np.ascontiguousarray(x).view(np.float32),
    "double_as_longlong": lambda x: x.view(np.int64),
    "longlong_as_double": lambda x: np.ascontiguousarray(x).view(np.float64),
    **{f"{kind}div_rn": np.true_divide for kind in "fd"},
    **{f"{kind}add_rn": np.add for kind in "fd"},
    **{f"{kind}sub_rn": np.subtract for kind in "fd"},
    **{f"{kind}mul_rn": np.multiply for kind in "fd"},
    **{f"{kind}sqrt_rn": np.sqrt for kind in "fd"},
    **{f"{kind}rcp_rn": lambda x: np.true_divide(x.dtype.type(1), x) for kind in "fd"},
    "frsqrt_rn": _reciprocal_root,
}


def library_function(symbol: str) -> Compute | None:
    """The function behind ``__nv_expf`` or ``__ocml_exp_f32``; None if it is not known here."""
    ocml = re.fullmatch(r"__ocml_(\w+?)_f(16|32|64)", symbol)
    name = ocml.group(1) if ocml else symbol.removeprefix("__nv_")
    for candidate in (name, name.removesuffix("f"), name.removesuffix("d")):
        found = LIBRARY.get(candidate)
        if found is not None:
            return found
    return None


def _external(operation: Operation) -> Compute:
    symbol = str(operation.attributes.get("symbol", ""))
    compute = library_function(symbol)
    if compute is None:
        raise Unsupported(f"the external function {symbol}")
    kind = element_of(operation.results[0].type)
    native = numpy_type(kind)
    if isinstance(kind, FloatType):
        return float_maker(lambda *xs: compute(*xs).astype(native))(operation)
    if isinstance(kind, IntType):
        return lambda *xs: compute(*xs).astype(native)
    raise Unsupported(f"{symbol} of {kind}")


ELEMENTWISE["tt.extern_elementwise"] = _external
