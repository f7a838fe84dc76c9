"""Integer and floating-point arithmetic and comparisons, as numpy functions.

Each entry of ELEMENTWISE makes, for one operation, the function that maps the operands' arrays to the
result's. Integers wrap around; what LLVM leaves undefined gets a value without a fault: a division by
zero gives 0, a shift by the width or more gives 0 (the sign if it is arithmetic).
Source: MLIR's arith dialect.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.values import Array, Bools, Unsupported, element_of, numpy_type
from kerncap.sanitizer.ttir.ir import DIVISIONS, SHIFTS, FloatType, IntType, Operation

Compute = Callable[..., Array]
Make = Callable[[Operation], Compute]

ELEMENTWISE: dict[str, Make] = {}


def unsigned(x: Array) -> Array:
    """The same bits as unsigned integers."""
    if x.dtype == np.bool_:
        return x.astype(np.uint8)
    return x.view(np.dtype(f"u{x.itemsize}"))


def signed(x: Array) -> Array:
    return x.view(np.dtype(f"i{x.itemsize}"))


def fixed(compute: Compute) -> Make:
    """The same function for every operation of a name."""
    return lambda operation: compute


# --- integers ----------------------------------------------------------------------------------------


def _integer(name: str, compute: Compute, boolean: Compute | None = None) -> None:
    """``boolean`` replaces the function for i1, where numpy's own differs from arithmetic modulo 2."""

    def make(operation: Operation) -> Compute:
        kind = element_of(operation.results[0].type)
        if not isinstance(kind, IntType):
            raise Unsupported(f"{operation.name} of {kind}")
        numpy_type(kind)
        return boolean if kind.width == 1 and boolean is not None else compute

    ELEMENTWISE[name] = make


def _divide_trunc(x: Array, y: Array) -> Array:
    quotient = np.floor_divide(x, y)  # 0 where y is 0
    remainder = np.fmod(x, y)
    up = (remainder != 0) & ((x < 0) != (y < 0))
    found: Array = quotient + up.astype(quotient.dtype)
    return found


def _divide_ceil(x: Array, y: Array) -> Array:
    found: Array = np.floor_divide(x, y) + (np.fmod(x, y) != 0).astype(x.dtype)
    return found


def _on_unsigned(compute: Compute) -> Compute:
    def apply(x: Array, y: Array) -> Array:
        return signed(compute(unsigned(x), unsigned(y)))

    return apply


def _bool_divide(x: Array, y: Array) -> Array:
    return x & y  # 1/1; the rest is 0, a division by zero too


def _bool_remainder(x: Array, y: Array) -> Array:
    return np.zeros(np.broadcast_shapes(x.shape, y.shape), dtype=np.bool_)


def _shift_left(x: Array, y: Array) -> Array:
    width = 8 * x.itemsize
    inside = unsigned(y) < width
    return np.where(inside, np.left_shift(x, np.where(inside, y, y.dtype.type(0))), x.dtype.type(0))


def _shift_right_signed(x: Array, y: Array) -> Array:
    width = 8 * x.itemsize
    return np.right_shift(x, np.where(unsigned(y) < width, y, y.dtype.type(width - 1)))


def _shift_right_unsigned(x: Array, y: Array) -> Array:
    width = 8 * x.itemsize
    wide, by = unsigned(x), unsigned(y)
    inside = by < width
    return signed(np.where(inside, np.right_shift(wide, np.where(inside, by, 0)), 0).astype(wide.dtype))


def _bool_shift(x: Array, y: Array) -> Array:
    return x & ~y


def _high_unsigned(x: Array, y: Array) -> Array:
    """The upper half of the product of two unsigned integers."""
    a, b = unsigned(x), unsigned(y)
    if x.itemsize < 8:
        bits = np.uint64(8 * x.itemsize)
        return signed(((a.astype(np.uint64) * b.astype(np.uint64)) >> bits).astype(a.dtype))
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_low, a_high, b_low, b_high = a & low, a >> half, b & low, b >> half
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & low)
    return signed(a_high * b_high + (middle >> half) + (other >> half))


def high_signed(x: Array, y: Array) -> Array:
    """The upper half of the product of two signed integers."""
    if x.itemsize < 8:
        bits = np.int64(8 * x.itemsize)
        found: Array = ((x.astype(np.int64) * y.astype(np.int64)) >> bits).astype(x.dtype)
        return found
    zero = x.dtype.type(0)
    return _high_unsigned(x, y) - np.where(x < 0, y, zero) - np.where(y < 0, x, zero)


high_unsigned = _high_unsigned

_integer("arith.addi", np.add, np.logical_xor)
_integer("arith.subi", np.subtract, np.logical_xor)
_integer("arith.muli", np.multiply, np.logical_and)
_integer("arith.divsi", _divide_trunc, _bool_divide)
_integer("arith.remsi", np.fmod, _bool_remainder)
_integer("arith.divui", _on_unsigned(np.floor_divide), _bool_divide)
_integer("arith.remui", _on_unsigned(np.fmod), _bool_remainder)
_integer("arith.floordivsi", np.floor_divide, _bool_divide)
_integer("arith.ceildivsi", _divide_ceil, _bool_divide)
_integer("arith.ceildivui", _on_unsigned(_divide_ceil), _bool_divide)
_integer("arith.andi", np.bitwise_and)
_integer("arith.ori", np.bitwise_or)
_integer("arith.xori", np.bitwise_xor)
_integer("arith.shli", _shift_left, _bool_shift)
_integer("arith.shrsi", _shift_right_signed, lambda x, y: x | (x & y))
_integer("arith.shrui", _shift_right_unsigned, _bool_shift)
_integer("arith.maxsi", np.maximum, np.logical_and)  # a signed i1 is 0 or -1
_integer("arith.minsi", np.minimum, np.logical_or)
_integer("arith.maxui", _on_unsigned(np.maximum), np.logical_or)
_integer("arith.minui", _on_unsigned(np.minimum), np.logical_and)
_integer("tt.mulhiui", _high_unsigned, _bool_remainder)


# --- where an integer operation has no value ---------------------------------------------------------


def _division_fails(x: Array, y: Array) -> Bools:
    found: Bools = y == 0
    return found


def _signed_division_fails(x: Array, y: Array) -> Bools:
    if x.dtype == np.bool_:
        return _division_fails(x, y)
    found: Bools = (y == 0) | ((y == -1) & (x == np.iinfo(x.dtype).min))
    return found


def _shift_fails(x: Array, y: Array) -> Bools:
    width = 1 if y.dtype == np.bool_ else 8 * x.itemsize
    found: Bools = unsigned(y) >= width
    return found


# By name: operands -> where LLVM and PTX leave the result open.
WITHOUT_VALUE: dict[str, Callable[[Array, Array], Bools]] = {
    **{name: _division_fails if name.endswith("ui") else _signed_division_fails for name in DIVISIONS},
    **dict.fromkeys(SHIFTS, _shift_fails),
}


# --- where an integer operation left its range -------------------------------------------------------


def _add_wraps(result: Array, x: Array, y: Array) -> Bools:
    return ((x ^ result) & (y ^ result)) < 0


def _sub_wraps(result: Array, x: Array, y: Array) -> Bools:
    return ((x ^ y) & (x ^ result)) < 0


def _mul_wraps(result: Array, x: Array, y: Array) -> Bools:
    found: Bools = high_signed(x, y) != (result >> result.dtype.type(8 * result.itemsize - 1))
    return found


def _shift_wraps(result: Array, x: Array, y: Array) -> Bools:
    # One that is too far has no value (`WITHOUT_VALUE`), which is said of it, and no other one to wrap from.
    found: Bools = ~_shift_fails(x, y) & (_shift_right_signed(result, y) != x)
    return found


def _trunc_wraps(result: Array, x: Array) -> Bools:
    found: Bools = result.astype(x.dtype) != x
    return found


# Signed wrap-around: (result, *operands) -> where. Not for i1.
WRAPS: dict[str, Callable[..., Bools]] = {
    "arith.addi": _add_wraps,
    "arith.subi": _sub_wraps,
    "arith.muli": _mul_wraps,
    "arith.shli": _shift_wraps,
    "arith.trunci": _trunc_wraps,
}


def far(x: Array, y: Array) -> Bools | None:
    """Where a product of 64-bit integers leaves their range; None: nowhere."""
    if x.size == 0 or y.size == 0:
        return None
    largest = max(-int(x.min()), int(x.max())) * max(-int(y.min()), int(y.max()))
    return None if largest < 1 << 63 else _mul_wraps(x * y, x, y)


def added_too_far(total: Array, x: Array, y: Array) -> Bools | None:
    """Where a sum of integers left their range; None: nowhere."""
    wrapped = _add_wraps(total, x, y)
    return wrapped if wrapped.any() else None


# --- floats ------------------------------------------------------------------------------------------


def float_maker(compute: Compute) -> Make:
    """The function, rounded to the result's type where numpy has no array type of it."""

    def make(operation: Operation) -> Compute:
        kind = element_of(operation.results[0].type)
        if not isinstance(kind, FloatType):
            raise Unsupported(f"{operation.name} of {kind}")
        numpy_type(kind)
        name = kind.name
        if name in formats.NATIVE:
            return compute
        return lambda *operands: formats.rounded(compute(*operands), name)

    return make


def _clamp(operation: Operation) -> Compute:
    every = operation.attributes.get("propagateNan") in ("all", 0xFFFF)

    def clamp(x: Array, low: Array, high: Array) -> Array:
        if every:
            return np.minimum(np.maximum(x, low), high)
        return np.fmin(np.fmax(x, low), high)

    return float_maker(clamp)(operation)


for _name, _compute in {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.true_divide,
    "tt.precise_divf": np.true_divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
}.items():
    ELEMENTWISE[_name] = float_maker(_compute)
ELEMENTWISE["tt.clampf"] = _clamp


# --- comparisons -------------------------------------------------------------------------------------

_CMPI: dict[str, Compute] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": lambda x, y: unsigned(x) < unsigned(y),
    "ule": lambda x, y: unsigned(x) <= unsigned(y),
    "ugt": lambda x, y: unsigned(x) > unsigned(y),
    "uge": lambda x, y: unsigned(x) >= unsigned(y),
}
# A signed i1 is 0 or -1: its order is the other way round.
_SIGNED_BOOLEAN = {"slt": "ugt", "sle": "uge", "sgt": "ult", "sge": "ule"}

_ORDERED: dict[str, Compute] = {
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "one": lambda x, y: (x < y) | (x > y),
    "ord": lambda x, y: ~(np.isnan(x) | np.isnan(y)),
}
FLOAT_COMPARISONS: dict[str, Compute] = dict(_ORDERED)
FLOAT_COMPARISONS["une"] = np.not_equal
FLOAT_COMPARISONS["uno"] = lambda x, y: np.isnan(x) | np.isnan(y)
FLOAT_COMPARISONS["ueq"] = lambda x, y: ~((x < y) | (x > y))
FLOAT_COMPARISONS["ugt"] = lambda x, y: ~(x <= y)
FLOAT_COMPARISONS["uge"] = lambda x, y: ~(x < y)
FLOAT_COMPARISONS["ult"] = lambda x, y: ~(x >= y)
FLOAT_COMPARISONS["ule"] = lambda x, y: ~(x > y)
FLOAT_COMPARISONS["false"] = lambda x, y: np.zeros(np.broadcast_shapes(x.shape, y.shape), dtype=np.bool_)
FLOAT_COMPARISONS["true"] = lambda x, y: np.ones(np.broadcast_shapes(x.shape, y.shape), dtype=np.bool_)

# The numbers of the generic syntax.
_CMPI_ORDER = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_COMPARISON_ORDER = (
    "false",
    *("oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


def _predicate(operation: Operation, order: tuple[str, ...]) -> str:
    found = operation.attributes["predicate"]
    return order[found] if isinstance(found, int) else str(found)


def integer_predicate(operation: Operation) -> str:
    """Of arith.cmpi."""
    return _predicate(operation, _CMPI_ORDER)


def _compare_integers(operation: Operation) -> Compute:
    predicate = integer_predicate(operation)
    kind = element_of(operation.operands[0].type)
    if isinstance(kind, IntType) and kind.width == 1:
        predicate = _SIGNED_BOOLEAN.get(predicate, predicate)
    return _CMPI[predicate]


ELEMENTWISE["arith.cmpi"] = _compare_integers


def float_predicate(operation: Operation) -> str:
    """Of arith.cmpf."""
    return _predicate(operation, _FLOAT_COMPARISON_ORDER)


ELEMENTWISE["arith.cmpf"] = lambda operation: FLOAT_COMPARISONS[float_predicate(operation)]
