"""Integers of a kernel outside of tensors: a number, or one per program (numpy, int64)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.concrete import ops_cast  # noqa: F401  (it fills ELEMENTWISE)
from kerncap.sanitizer.concrete.ops_arith import ELEMENTWISE, WITHOUT_VALUE
from kerncap.sanitizer.concrete.values import Unsupported, numpy_type
from kerncap.sanitizer.ttir.ir import DIVISIONS, SHIFTS, IntType, Operation


@dataclass(frozen=True)
class Unknown:
    """A value that is not computed; ``reason`` completes "… rests on"."""

    reason: str


Number = int | npt.NDArray[np.int64]
Scalar = Number | Unknown


def computed(operation: Operation, values: list[Any]) -> Scalar | None:
    """The result of an ``arith`` operation on scalars; None for an operation that is not one."""
    name = operation.name
    if not name.startswith("arith.") or len(operation.results) != 1:
        return None
    if not isinstance(operation.results[0].type, IntType):
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
            np.atleast_1d(value).astype(numpy_type(operand.type))
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
