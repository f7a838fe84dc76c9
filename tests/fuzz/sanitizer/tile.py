"""Values of a tile language over numpy: what a generated kernel computes with when it runs as plain Python.

Written from the language's rules alone (two's complement, C division, promotion), so that a mistake in
the compiler's reading or in the sanitizer is not repeated here. Floats are of no interest but as bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32}
REGION_BITS = 44  # of one argument's made-up addresses, in elements
HALF_REGION = 1 << (REGION_BITS - 1)


GENERATED = "/generated/"  # how the file names of kernels begin


def line_of_kernel() -> int:
    """Of the kernel, which is running."""
    frame = sys._getframe(1)
    while not frame.f_code.co_filename.startswith(GENERATED):
        assert frame.f_back is not None
        frame = frame.f_back
    return frame.f_lineno


@dataclass
class Run:
    """What goes with one run of a launch, beside its values.

    ``failed``: line and operation (div, rem, shl, shr) of what gave no value, which a compiler may have
    removed. ``settled``: after such an operation, an undefined value did not matter (times 0, modulo 1): a
    compiler may still take it for poison. ``zeros``: a sum takes left-out lanes for the zeros that each
    target puts there.
    """

    zeros: bool = False
    failed: set[tuple[int, str]] = field(default_factory=set)
    settled: bool = False


RUN = Run()  # the one that is under way: operators know of nothing else


class Undecidable(Exception):
    """The kernel does what brute force has no answer for: an undefined branch, an endless loop."""


Operator = Callable[[Any, Any], "Value"]


def _both_ways(name: str) -> tuple[Operator, Operator]:
    """The operator, and that for a number on the left."""
    return (
        lambda left, right: _arithmetic(name, left, right),
        lambda right, left: _arithmetic(name, left, right),
    )


def _of_bits(name: str) -> Operator:
    return lambda left, right: _bitwise(name, left, right)


def _comparison(operation: Any) -> Operator:
    return lambda left, right: _compare(operation, left, right)


class Value:
    """``data``: int, float or array; ``kind``: "i32", "f32", … or "p:f32" (pointer: made-up addresses).

    ``exact``: the integer had no width been in its way, None where that is the same. ``undefined``: per
    element, False where all of it is defined. ``wrapped``: some integer on the way here wrapped around.
    ``compared``: of a condition, the exact integers that it would be another one by.
    """

    __slots__ = ("compared", "data", "exact", "kind", "undefined", "wrapped")

    def __init__(
        self, data: Any, kind: str, exact: Any = None, undefined: Any = False, wrapped: bool = False,
        compared: tuple[Any, ...] = (),
    ) -> None:  # fmt: skip
        self.data = data
        self.kind = kind
        self.exact = exact
        self.undefined = undefined
        self.wrapped = wrapped
        self.compared = compared

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape if isinstance(self.data, np.ndarray) else ()

    @property
    def free(self) -> Any:
        """The value without any wrap-around."""
        return self.data if self.exact is None else self.exact

    # --- control flow ------------------------------------------------------------------------------

    def _concrete(self) -> Any:
        if np.any(self.undefined):
            raise Undecidable("control flow depends on an undefined value")
        return self.data.item() if isinstance(self.data, np.ndarray) else self.data

    def __bool__(self) -> bool:
        return bool(self._concrete())

    def __index__(self) -> int:
        return int(self._concrete())

    # --- shapes ------------------------------------------------------------------------------------

    def map(self, change: Any) -> Value:
        """The same elements in other places."""
        exact = None if self.exact is None else change(spread(self.exact, self.shape))
        undefined = self.undefined
        if undefined is not False:
            undefined = change(spread(undefined, self.shape))
        compared = tuple(change(spread(one, self.shape)) for one in self.compared)
        return Value(change(np.asarray(self.data)), self.kind, exact, undefined, self.wrapped, compared)

    def __getitem__(self, index: Any) -> Value:
        return self.map(lambda array: array[index])

    def to(self, kind: str) -> Value:
        """A cast, as ``.to(tl.int64)``."""
        if kind == self.kind:
            return self
        if kind[0] == "f":
            data = np.asarray(self.data).astype(np.float32)
            return Value(data, kind, None, self.undefined)
        if self.kind[0] == "f":
            return _whole(np.asarray(self.data), kind, self.undefined)
        if kind == "i1":
            return Value(np.asarray(self.data) != 0, kind, None, self.undefined, self.wrapped)
        source = self.data
        if self.kind == "i1":
            source = np.asarray(source).astype(np.int64)
            return Value(source, kind, None, self.undefined, self.wrapped)
        if self.kind[0] == "u" and BITS[kind] <= BITS[self.kind]:  # TTIR does not know that it was unsigned
            source = bounded(source, None, f"i{BITS[self.kind]}", False, False).data
        return bounded(source, self.exact, kind, self.undefined, self.wrapped)

    # --- arithmetic --------------------------------------------------------------------------------

    __add__, __radd__ = _both_ways("add")
    __sub__, __rsub__ = _both_ways("sub")
    __mul__, __rmul__ = _both_ways("mul")
    __floordiv__, __rfloordiv__ = _both_ways("div")
    __mod__, __rmod__ = _both_ways("rem")
    __truediv__, _ = _both_ways("over")
    __and__ = _of_bits("and")
    __or__ = _of_bits("or")
    __xor__ = _of_bits("xor")
    __lshift__ = _of_bits("shl")
    __rshift__ = _of_bits("shr")
    __lt__ = _comparison(np.less)
    __le__ = _comparison(np.less_equal)
    __gt__ = _comparison(np.greater)
    __ge__ = _comparison(np.greater_equal)
    __eq__ = _comparison(np.equal)
    __ne__ = _comparison(np.not_equal)
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Value:
        return _arithmetic("sub", 0, self)

    def __invert__(self) -> Value:
        if self.kind == "i1":
            return Value(np.logical_not(self.data), "i1", None, self.undefined, self.wrapped)
        return _bitwise("xor", self, -1)


def spread(array: Any, shape: tuple[int, ...]) -> Any:
    """`numpy.broadcast_to`, which costs microseconds where there is nothing to do."""
    return array if isinstance(array, np.ndarray) and array.shape == shape else np.broadcast_to(array, shape)


def distinct(numbers: Any) -> list[int]:
    """Of an array, mostly of one number many times."""
    if not numbers.size:
        return []
    first = numbers[0]
    return [int(first)] if (numbers == first).all() else np.unique(numbers).tolist()


def lift(value: Any, beside: str = "i32") -> Value:
    """A Python number takes the type of the value beside it, where it fits."""
    if isinstance(value, Value):
        return value
    if isinstance(value, bool):
        return Value(value, "i1")
    if isinstance(value, float):
        return Value(np.float32(value), beside if beside[0] == "f" else "f32")
    if beside[0] == "f":
        return Value(np.float32(value), beside)
    if beside[0] == "u" or beside in ("i8", "i16"):
        low, high = _range(beside)
        if not low <= value <= high:
            raise Undecidable(f"{value} is no {beside}")
        return Value(int(value), beside)
    if beside == "i1" or beside[0] == "p":
        beside = "i32"
    fits = beside == "i64" or -(1 << 31) <= value < (1 << 31)
    return Value(int(value), beside if fits else "i64")


def pair(left: Any, right: Any) -> tuple[Value, Value]:
    left = lift(left, right.kind if isinstance(right, Value) else "i32")
    return left, lift(right, left.kind)


def common(left: Value, right: Value) -> str:
    """The type that two operands are converted to."""
    if left.kind == right.kind:
        return left.kind
    for kind in (left.kind, right.kind):
        if kind[0] == "p":
            return kind
    floats = [one.kind for one in (left, right) if one.kind[0] == "f"]
    if floats:
        return "f32" if "f32" in floats else floats[0]
    if (left.kind[0] == "u") == (right.kind[0] == "u"):
        return left.kind if BITS[left.kind] >= BITS[right.kind] else right.kind
    unsigned, signed = (left, right) if left.kind[0] == "u" else (right, left)
    return unsigned.kind if BITS[unsigned.kind] >= BITS[signed.kind] else signed.kind


def _range(kind: str) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    half = 1 << (BITS[kind] - 1)
    return (0, 2 * half - 1) if kind[0] == "u" else (-half, half - 1)


def _whole(data: Any, kind: str, undefined: Any) -> Value:
    """A float as an integer: towards zero. What NaN and what is out of range become differs by device."""
    low, high = _range(kind)
    wide = np.trunc(data.astype(np.float64))
    known = np.logical_not(undefined)
    if not ((wide >= low) & (wide <= high) | ~known).all():
        raise Undecidable("a float that its integer type does not hold")
    return Value(np.where(known, wide, 0).astype(np.int64), kind, None, undefined)


def either(left: Any, right: Any) -> Any:
    if left is False:
        return right
    return left if right is False else np.logical_or(left, right)


def bounded(data: Any, exact: Any, kind: str, undefined: Any, wrapped: bool) -> Value:
    """An integer in its width: ``data`` may leave it."""
    bits = BITS[kind]
    if bits == 64:
        if isinstance(data, int) and not -(1 << 63) <= data < 1 << 63:
            low = ((data + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
            return Value(low, kind, data if exact is None else exact, undefined, True)
        return Value(data, kind, exact, undefined, wrapped)
    half = 0 if kind[0] == "u" else 1 << (bits - 1)
    low = ((data + half) & ((1 << bits) - 1)) - half
    differs = low != data
    if differs if isinstance(differs, bool | np.bool_) else differs.any():
        # TTIR has no unsigned types: neither side reports what wraps there.
        known = None if kind[0] == "u" else data if exact is None else exact
        return Value(low, kind, known, undefined, True)
    return Value(data, kind, exact, undefined, wrapped)


def _truncated(a: Any, b: Any) -> Any:
    """C's division."""
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // max(abs(b), 1)
        return quotient if (a < 0) == (b < 0) else -quotient
    b = np.where(np.asarray(b) == 0, 1, b)
    return np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)


_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _truncated,
    "rem": lambda a, b: a - _truncated(a, b) * b,
    "over": lambda a, b: np.asarray(a) / np.asarray(b),
}


def _wide(*numbers: Any) -> list[Any]:
    """As Python's own integers where 64 bits may not hold what comes of them: a loop's product grows."""
    if all(int(np.max(np.abs(np.asarray(one, dtype=object)), initial=0)) < 1 << 31 for one in numbers):
        return list(numbers)
    return [np.asarray(one, dtype=object) for one in numbers]


def _arithmetic(name: str, left: Any, right: Any) -> Value:
    left, right = pair(left, right)
    undefined = either(left.undefined, right.undefined)
    kind = common(left, right)
    if name == "over":
        kind = "f32"
    if kind[0] == "f":
        a, b = (np.asarray(one.data).astype(np.float32) for one in (left, right))
        return Value(_INTEGER[name](a, b), kind, None, undefined)
    if "i1" in (left.kind, right.kind):
        left, right = (one.to("i32") if one.kind == "i1" else one for one in (left, right))
        kind = common(left, right)
    if "u" in left.kind[0] + right.kind[0]:
        left, right = left.to(kind), right.to(kind)
    wrapped = left.wrapped or right.wrapped
    operation = _INTEGER[name]
    data = operation(left.data, right.data)
    if name in ("div", "rem"):
        undefined = _without(undefined, _no_quotient(left.data, right.data, kind), name)
    if undefined is not False and name in ("rem", "mul"):
        # What is taken times 0, or modulo 1, is 0 whatever it is; modulo -1 not, which may overflow.
        sides = [right] if name == "rem" else [left, right]
        undefined = _unsettled(undefined, sides, 1 if name == "rem" else 0)
    exact = None
    if name != "rem" and (left.exact is not None or right.exact is not None):
        exact = operation(*_wide(left.free, right.free))
    if kind[0] == "p":
        return Value(data, kind, exact, undefined, wrapped)
    return bounded(data, exact, kind, undefined, wrapped)


def _unsettled(undefined: Any, sides: list[Value], number: int) -> Any:
    """``undefined`` less the lanes that do not matter: a side is defined there, and ``number``."""
    settled: Any = np.False_
    for one in sides:
        settled = settled | ((np.asarray(one.data) == number) & np.logical_not(one.undefined))
    RUN.settled |= bool(RUN.failed) and bool(np.any(np.logical_and(undefined, settled)))
    return np.logical_and(undefined, np.logical_not(settled))


def _no_quotient(dividend: Any, divisor: Any, kind: str) -> Any:
    """Where a division has no value: by zero, or of the least number by -1."""
    failed = np.asarray(divisor) == 0
    if kind[0] == "i":
        least = -(1 << (int(kind[1:]) - 1))
        failed = failed | ((np.asarray(dividend) == least) & (np.asarray(divisor) == -1))
    return failed


def _without(undefined: Any, failed: Any, name: str) -> Any:
    """``undefined`` with the lanes that have no value: a division by zero, a shift too far."""
    if not np.any(failed):
        return undefined
    RUN.failed.add((line_of_kernel(), name))
    return either(undefined, failed)


def _bitwise(name: str, left: Any, right: Any) -> Value:
    # A Python number is an i32 here, whatever stands beside it.
    left, right = (
        one if isinstance(one, Value) else lift(one, "i64" if beside == "i64" else "i32")
        for one, beside in ((left, getattr(right, "kind", "i32")), (right, getattr(left, "kind", "i32")))
    )
    undefined = either(left.undefined, right.undefined)
    kind, wrapped = common(left, right), left.wrapped or right.wrapped
    a, b = left.data, right.data
    if kind == "i1":
        logical = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[name]
        exact = None
        if left.exact is not None or right.exact is not None:
            exact = logical(left.free, right.free)
        if undefined is not False and name != "xor":
            # What is false (for "or": true) on one side decides, whatever the other is.
            decides = np.logical_not if name == "and" else np.asarray
            sure = (decides(a) & np.logical_not(left.undefined)) | (
                decides(b) & np.logical_not(right.undefined)
            )
            undefined = np.logical_and(undefined, np.logical_not(sure))
        return Value(logical(a, b), "i1", exact, undefined, wrapped, left.compared + right.compared)
    if kind != left.kind or kind != right.kind:
        left, right = left.to(kind), right.to(kind)
        a, b = left.data, right.data
    if undefined is not False and name in ("and", "or"):
        undefined = _unsettled(undefined, [left, right], 0 if name == "and" else -1)
    if name in ("shl", "shr"):
        too_far = (np.asarray(b) < 0) | (np.asarray(b) >= BITS[kind])
        undefined = _without(undefined, too_far, name)
        b = np.where(too_far, 0, b) if np.any(too_far) else b
    if name == "shl":
        return bounded(_shifted(a, b), None, kind, undefined, wrapped)
    data = {"and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b, "shr": lambda: a >> b}[name]()
    return Value(data, kind, None, undefined, wrapped)


def _shifted(a: Any, b: Any) -> Any:
    """To the left, in 64 bits: what narrower types lose is cut off later."""
    found = np.asarray(a, np.int64) << np.asarray(b, np.int64)
    return found if found.shape else int(found)


def _compare(operation: Any, left: Any, right: Any) -> Value:
    left, right = pair(left, right)
    exact = None
    if left.exact is not None or right.exact is not None:
        exact = operation(left.free, right.free)
    undefined = either(left.undefined, right.undefined)
    compared = tuple(one.exact for one in (left, right) if one.exact is not None)
    wrapped = left.wrapped or right.wrapped
    return Value(operation(left.data, right.data), "i1", exact, undefined, wrapped, compared)
