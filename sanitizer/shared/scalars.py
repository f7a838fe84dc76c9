"""Integers of a kernel: a number, one per program (numpy, int64), or a tensor that all programs have."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.concrete import ops_cast  # noqa: F401  (it fills ELEMENTWISE)
from kerncap.sanitizer.concrete.ops_arith import ELEMENTWISE, WITHOUT_VALUE
from kerncap.sanitizer.concrete.values import Unsupported, numpy_type
from kerncap.sanitizer.ttir.ir import DIVISIONS, SHIFTS, Dense, IntType, Operation, TensorType, Type


@dataclass(frozen=True)
class Unknown:
    """A value that is not computed; ``reason`` completes "… rests on"."""

    reason: str


@dataclass(frozen=True, eq=False)
class Tile:
    """A tensor of integers."""

    values: npt.NDArray[np.int64]


Number = int | npt.NDArray[np.int64]
Scalar = Number | Unknown
MAX_ELEMENTS = 1 << 20  # of a tensor that is computed
_SAME = frozenset(("ttg.convert_layout", "tt.reshape", "tt.expand_dims"))


def tile(operation: Operation, values: list[Any]) -> Tile | Unknown | None:
    """A result that is a tensor of integers; None for an operation that is not known."""
    type_ = operation.results[0].type
    if not isinstance(type_, TensorType) or not isinstance(type_.element, IntType):
        return None
    if prod(type_.shape) > MAX_ELEMENTS:
        return Unknown(f"a tensor of more than {MAX_ELEMENTS:,} elements")
    unknown = next((one for one in values if isinstance(one, Unknown)), None)
    if unknown is not None:
        return unknown
    arrays = [one.values if isinstance(one, Tile) else one for one in values]
    try:
        made = _moved(operation, arrays, type_.shape)
        found = made if made is not None else computed(operation, arrays)
    except ValueError:
        return Unknown("tensors whose shapes do not fit")
    if isinstance(found, np.ndarray) and found.shape == type_.shape:
        return Tile(found)
    return found if isinstance(found, Unknown) else None


def _moved(operation: Operation, arrays: list[Any], shape: tuple[int, ...]) -> Scalar | None:
    """Of what makes a tensor or gives it another shape."""
    name, attributes = operation.name, operation.attributes
    dense = attributes.get("value")
    if name == "arith.constant" and isinstance(dense, Dense):
        values = np.array([int(one) for one in dense.values], np.int64)
        return np.broadcast_to(values if values.size == 1 else values.reshape(shape), shape)
    start, end = attributes.get("start"), attributes.get("end")
    if name == "tt.make_range" and isinstance(start, int) and isinstance(end, int):
        return start + np.arange(prod(shape), dtype=np.int64) if (end - start,) == shape else None
    if not arrays or not isinstance(arrays[0], (int, np.ndarray)):
        return None
    if name == "tt.splat" and isinstance(arrays[0], np.ndarray):
        return Unknown("a number that differs between programs")
    if name in _SAME and isinstance(arrays[0], np.ndarray):
        return arrays[0].reshape(shape)
    return np.broadcast_to(arrays[0], shape) if name in ("tt.splat", "tt.broadcast") else None


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, TensorType) else type_


def computed(operation: Operation, values: list[Any]) -> Scalar | None:
    """The result of an ``arith`` operation on integers; None for an operation that is not one."""
    name = operation.name
    if not name.startswith("arith.") or len(operation.results) != 1:
        return None
    if not isinstance(_element(operation.results[0].type), IntType):
        return None
    for value in values:
        if isinstance(value, Unknown):
            return value
        if not isinstance(value, (int, np.ndarray)):
            return Unknown(f"the operands of {name}")
    if name == "arith.select":
        condition, a, b = values
        per_program = isinstance(condition, np.ndarray)
        chosen: Number = np.where(condition != 0, a, b) if per_program else a if condition else b
        return chosen
    make = ELEMENTWISE.get(name)
    if make is None:
        return None
    try:
        compute = make(operation)
        arrays = [
            np.atleast_1d(value).astype(numpy_type(_element(operand.type)))
            for value, operand in zip(values, operation.operands, strict=True)
        ]
    except Unsupported as reason:
        return Unknown(str(reason))
    if name in DIVISIONS and not arrays[1].all():
        return Unknown("a division by zero")
    if name in SHIFTS and WITHOUT_VALUE[name](*arrays).any():
        return Unknown("a shift by the width or more")
    with np.errstate(all="ignore"):
        found = compute(*arrays).astype(np.int64)
    return found if any(isinstance(value, np.ndarray) for value in values) else int(found[0])
