"""What the values of a kernel are, for `operations`: floats or not, known or not, where in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.dataflow import LOADS
from kerncap.sanitizer.concrete.machine import Machine
from kerncap.sanitizer.concrete.values import Tile, Unknown, Value, element_of, where
from kerncap.sanitizer.equality.numbers import Array, NotModelled, Numbers
from kerncap.sanitizer.ttir.any_order import users
from kerncap.sanitizer.ttir.ir import FloatType, Operation, PointerType, TensorType, Type


def is_float(kind: Type) -> bool:
    return isinstance(element_of(kind), FloatType)


def in_type(value: float, kind: Type) -> float:
    """The nearest number of a type: TTIR has its shortest decimals, Python passes float64."""
    element = element_of(kind)
    assert isinstance(element, FloatType)
    return float(formats.decode(formats.encode(np.array([value]), element.name), element.name)[0])


def from_integers(numbers: Numbers, operation: Operation) -> Callable[[Array], Array]:
    """arith.sitofp, arith.uitofp."""
    unsigned = operation.name == "arith.uitofp"

    def convert(x: Array) -> Array:
        if x.dtype == np.bool_:
            return numbers.integers(x.astype(np.int8) if unsigned else -x.astype(np.int8))
        return numbers.integers(x.view(np.dtype(f"u{x.itemsize}")) if unsigned else x)

    return convert


_BACK = {"arith.fptosi": "arith.sitofp", "arith.fptoui": "arith.uitofp"}


def is_made_whole(operation: Operation) -> bool:
    """Whether a float that is made an integer is made a float again, and nothing else."""
    return all(user.name == _BACK[operation.name] for user in users(operation))


def tiles_of(m: Machine, operation: Operation) -> list[Tile] | None:
    """All operands; None, and unknown results, where one is not known."""
    values = [m.env[operand] for operand in operation.operands]
    tiles = [value for value in values if isinstance(value, Tile)]
    if len(tiles) == len(values):
        return tiles
    for result in operation.results:
        m.env[result] = Unknown(why_unknown(next(v for v in values if not isinstance(v, Tile)), operation))
    return None


def check_values(*tiles: Tile) -> None:
    """Raise NotModelled if an element is made of an integer that has no value."""
    if any(tile.undefined is not None and tile.undefined.any() for tile in tiles):
        raise NotModelled("it takes an integer that has no value")


def why_unknown(value: Value, operation: Operation) -> str:
    return (
        value.reason
        if isinstance(value, Unknown)
        else f"{where(operation)} has an operand that is not a number"
    )


def spread(argument: int | Array, offsets: Array) -> int | Array:
    return argument if isinstance(argument, int) else np.broadcast_to(argument, offsets.shape)


def in_memory(operation: Operation) -> Type:
    """The type of the elements that a memory operation moves."""
    kind = element_of(operation.operands[0].type)
    if isinstance(kind, PointerType):
        return element_of(kind.pointee) if isinstance(kind.pointee, TensorType) else kind.pointee
    moved = operation.results[0] if operation.name in LOADS else operation.operands[-1]
    return element_of(moved.type)


def reduced_by(operation: Operation) -> str | None:
    """The one operation that the region of a reduction or scan makes of its two arguments."""
    region = operation.regions[0]
    if len(operation.operands) != 1 or len(region.blocks) != 1 or len(region.entry.operations) != 2:
        return None
    combiner, end = region.entry.operations
    both = set(combiner.operands) == set(region.entry.arguments)
    return combiner.name if both and end.operands == combiner.results else None
