"""Integers of a kernel outside of tensors: a number, or one per program (numpy, int64)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.ttir.ir import IntType, Operation


@dataclass(frozen=True)
class Unknown:
    """A value that is not computed; ``reason`` completes "… rests on"."""

    reason: str


Number = int | npt.NDArray[np.int64]
Scalar = Number | Unknown


def wrapped(value: Any, width: int) -> Number:
    """Two's complement of ``width`` bits; of one bit 0 and 1."""
    if width >= 64:
        if isinstance(value, np.ndarray):
            return value
        half = 1 << (width - 1)
        return int((value + half) % (1 << width) - half)
    if width == 1:
        return value & 1  # type: ignore[no-any-return]
    half = 1 << (width - 1)
    return (value + half) % (1 << width) - half  # type: ignore[no-any-return]


def _unsigned(value: Any, width: int) -> Any:
    return value % (1 << width) if width < 64 or isinstance(value, int) else value.astype(np.uint64)


def _truncated(a: Any, b: Any) -> Any:
    quotient = abs(a) // abs(b)
    negative = (a < 0) != (b < 0)
    if isinstance(quotient, np.ndarray):
        return np.where(negative, -quotient, quotient)
    return -quotient if negative else quotient


def _larger(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def _smaller(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


_SIGNED: dict[str, Callable[[Any, Any], Any]] = {
    "addi": operator.add, "subi": operator.sub, "muli": operator.mul, "andi": operator.and_,
    "ori": operator.or_, "xori": operator.xor, "maxsi": _larger, "minsi": _smaller,
}  # fmt: skip
_DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "divsi": _truncated, "remsi": lambda a, b: a - b * _truncated(a, b),
    "floordivsi": operator.floordiv, "ceildivsi": lambda a, b: -(-a // b),
}  # fmt: skip
_UNSIGNED: dict[str, Callable[[Any, Any], Any]] = {
    "divui": operator.floordiv, "remui": operator.mod, "maxui": _larger, "minui": _smaller,
    "ceildivui": lambda a, b: -(-a // b), "shrui": operator.rshift,
}  # fmt: skip
_COMPARED = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge,
}  # fmt: skip
_WIDENED = frozenset(("extsi", "extui", "trunci", "index_cast", "index_castui"))


def computed(operation: Operation, values: list[Any]) -> Scalar | None:
    """The result of an ``arith`` operation on scalars; None for an operation that is not one."""
    family, _, name = operation.name.partition(".")
    if family != "arith" or len(operation.results) != 1:
        return None
    type_ = operation.results[0].type
    if not isinstance(type_, IntType):
        return None
    for value in values:
        if isinstance(value, Unknown):
            return value
        if not isinstance(value, (int, np.ndarray)):
            return Unknown(f"the operands of {operation.name}")
    width = type_.width
    if name == "select":
        condition, a, b = values
        per_program = isinstance(condition, np.ndarray)
        chosen: Number = np.where(condition != 0, a, b) if per_program else a if condition else b
        return chosen
    if name in _WIDENED:
        source = operation.operands[0].type
        before = source.width if isinstance(source, IntType) else 64
        (value,) = values
        if name.endswith("ui"):
            value = _unsigned(value, before)
        elif before == 1 and name == "extsi":
            value = -value
        return _checked(value, width)
    if len(values) != 2:
        return None
    a, b = values
    if name == "cmpi":
        predicate = str(operation.attributes.get("predicate"))
        operand = operation.operands[0].type
        before = operand.width if isinstance(operand, IntType) else 64
        if predicate[:1] == "u" or before == 1:
            a, b = _unsigned(a, before), _unsigned(b, before)
        if before == 1 and predicate[:1] == "s":
            a, b = -a, -b
        relation = _COMPARED.get(predicate if predicate in ("eq", "ne") else predicate[1:])
        return None if relation is None else _checked(relation(a, b) * 1, 1)
    if name in _SIGNED:
        return _checked(_SIGNED[name](a, b), width)
    if name in ("divui", "remui", "ceildivui") or name in _DIVISIONS:
        if np.any(np.equal(b, 0)):
            return Unknown("a division by zero")
        if name in _DIVISIONS:
            return _checked(_DIVISIONS[name](a, b), width)
    if name in ("shli", "shrsi", "shrui"):
        if np.any(np.less(b, 0) | np.greater_equal(b, width)):
            return Unknown("a shift by the width or more")
        if name != "shrui":
            return _checked(a << b if name == "shli" else a >> b, width)
    if name in _UNSIGNED:
        return _checked(_UNSIGNED[name](_unsigned(a, width), _unsigned(b, width)), width)
    return None


def _checked(value: Any, width: int) -> Number:
    if isinstance(value, np.ndarray):
        return wrapped(value.astype(np.int64), width)
    return wrapped(int(value), width)
