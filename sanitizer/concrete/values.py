"""An SSA value during the evaluation: arrays over programs, with what is tracked about them.

An array's first axis is the program axis, the tile's axes follow. Any axis may have extent 1 where the
value is the same all along it: a splat, a broadcast and whatever the programs share cost nothing.
Integers are signed arrays of their width, i1 is bool, pointers are byte offsets in int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, PointerType, TensorType, Type

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ABSOLUTE = -1  # in place of an argument's index: the offset is an address


class Incomplete(Exception):
    """The evaluation cannot go on; the message says why."""


class Unsupported(Exception):
    """An operation or a type that has no semantics here."""


class Tile:
    """``undefined`` and ``overflow`` broadcast against ``data``; None stands for "nowhere".

    ``zero``: elements, undefined ones among them, that are zeros whatever memory holds (see `left_out`).
    """

    __slots__ = ("data", "undefined", "overflow", "zero")

    def __init__(
        self,
        data: Array,
        undefined: Bools | None = None,
        overflow: Bools | None = None,
        zero: Bools | None = None,
    ) -> None:
        self.data = data
        self.undefined = undefined
        self.overflow = overflow
        self.zero = zero

    def doubt(self, flags: Bools | None) -> None:
        """These elements are undefined as well, and none of them is a zero for sure."""
        if flags is not None:
            self.undefined = either(self.undefined, flags)
            self.zero = None if self.zero is None else self.zero & ~flags

    @property
    def left_out(self) -> Bools | None:
        """The undefined elements that are zeros."""
        return None if self.undefined is None or self.zero is None else self.undefined & self.zero

    @property
    def counted(self) -> Bools | None:
        """The other undefined elements."""
        return self.undefined if self.undefined is None or self.zero is None else self.undefined & ~self.zero


class Pointers(Tile):
    """``data`` holds byte offsets from the address of the launch's argument ``argument``."""

    __slots__ = ("argument",)

    def __init__(
        self, data: Array, argument: int | Ints, undefined: Bools | None = None, overflow: Bools | None = None
    ) -> None:
        super().__init__(data, undefined, overflow)
        self.argument = argument


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that nothing is known of."""

    reason: str


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Shape and strides are scalars per program, in elements."""

    base: Pointers
    shape: tuple[Tile, ...]
    strides: tuple[Tile, ...]
    block_shape: tuple[int, ...]
    element: Type
    padding: str = "zero"


@dataclass(frozen=True, slots=True)
class BlockPointer:
    """What ``tt.make_tensor_ptr`` gives: a descriptor with the place of one block."""

    base: Pointers
    shape: tuple[Tile, ...]
    strides: tuple[Tile, ...]
    offsets: tuple[Tile, ...]
    block_shape: tuple[int, ...]
    element: Type


class Opaque:
    """A value that only a plan's own steps know."""

    __slots__ = ()


# None: the value is not evaluated (it feeds no address, and only addresses were asked for).
Value = Tile | Unknown | Descriptor | BlockPointer | Opaque | None


def where(operation: Operation) -> str:
    """``tt.load at kernel.py:12``."""
    frames = operation.location.frames
    if not frames:
        return operation.name
    return f"{operation.name} at {frames[0].file.rpartition('/')[2]}:{frames[0].line}"


# --- types -------------------------------------------------------------------------------------------


def element_of(kind: Type) -> Type:
    return kind.element if isinstance(kind, TensorType) else kind


def shape_of(kind: Type) -> tuple[int, ...]:
    return kind.shape if isinstance(kind, TensorType) else ()


_INTEGERS = {1: np.bool_, 8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def numpy_type(kind: Type) -> np.dtype[Any]:
    """The type of the arrays that hold values of a scalar type. Raises Unsupported."""
    if isinstance(kind, IntType) and kind.width in _INTEGERS:
        return np.dtype(_INTEGERS[kind.width])
    if isinstance(kind, FloatType) and kind.name in formats.KNOWN:
        return np.dtype(formats.NATIVE.get(kind.name, np.float32))
    if isinstance(kind, PointerType):
        return np.dtype(np.int64)
    raise Unsupported(f"type {kind}")


def width_bytes(kind: Type) -> int:
    """What one element takes in memory."""
    if isinstance(kind, PointerType):
        return 8
    if isinstance(kind, IntType | FloatType):
        return max(1, kind.width // 8)
    raise Unsupported(f"type {kind}")


def to_bits(values: Array, kind: Type) -> Array:
    """Values as unsigned integers of the width they have in memory."""
    if isinstance(kind, FloatType):
        return formats.encode(values, kind.name)
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    values = np.ascontiguousarray(values)
    return values.view(np.dtype(f"u{values.itemsize}"))


def from_bits(bits: Array, kind: Type) -> Array:
    if isinstance(kind, FloatType):
        return formats.decode(bits, kind.name)
    if isinstance(kind, IntType) and kind.width == 1:
        found: Array = bits != 0
        return found
    return np.ascontiguousarray(bits).view(np.dtype(f"i{bits.itemsize}"))


# --- shapes and choices ------------------------------------------------------------------------------


def full(array: Array, shape: Sequence[int]) -> Array:
    """With all of the tile's axes written out (a view); the program axis stays as it is."""
    return np.broadcast_to(array, (array.shape[0], *shape))


def lift(mask: Bools, rank: int) -> Bools:
    """A mask over programs, shaped to broadcast against tiles of a rank."""
    return mask.reshape(mask.shape[0], *(1,) * rank)


def either(*flags: Bools | None) -> Bools | None:
    """Elementwise "or", where None is False everywhere."""
    result: Bools | None = None
    for flag in flags:
        if flag is not None:
            result = flag if result is None else result | flag
    return result


def any_along(flags: Bools, shape: Sequence[int], axis: int, keepdims: bool = False) -> Bools:
    """Flags of a tile of a shape, joined along an axis (counted with the program axis)."""
    found: Bools = np.asarray(full(flags, shape).any(axis=axis, keepdims=keepdims))
    return found


def pick(condition: Bools, yes: Bools | None, no: Bools | None) -> Bools | None:
    if yes is None and no is None:
        return None
    return np.where(condition, False if yes is None else yes, False if no is None else no)


def one_argument(left: int | Ints, right: int | Ints, condition: Bools) -> int | Ints:
    """The provenance of a choice between two pointers."""
    if isinstance(left, int) and isinstance(right, int) and left == right:
        return left
    return np.where(condition, left, right)


def select(condition: Bools, yes: Tile, no: Tile) -> Tile:
    """Elementwise choice, flags and provenance with it."""
    undefined = pick(condition, yes.undefined, no.undefined)
    overflow = pick(condition, yes.overflow, no.overflow)
    data = np.where(condition, yes.data, no.data)
    zero = pick(condition, yes.zero, no.zero)
    if isinstance(yes, Pointers) and isinstance(no, Pointers):
        argument = one_argument(yes.argument, no.argument, condition)
        return Pointers(data, argument, undefined, overflow)
    return Tile(data, undefined, overflow, zero)


def choose(mask: Bools, yes: Value, no: Value) -> Value:
    """Per program: ``yes`` where the mask (over programs) holds, else ``no``."""
    if yes is no or no is None:
        return yes
    if yes is None:
        return no
    if isinstance(yes, Unknown) or isinstance(no, Unknown):
        return yes if isinstance(yes, Unknown) else no
    if isinstance(yes, Tile) and isinstance(no, Tile):
        return select(lift(mask, yes.data.ndim - 1), yes, no)
    if isinstance(yes, Descriptor) and isinstance(no, Descriptor):
        return Descriptor(
            _pointer(select(mask, yes.base, no.base)),
            _each(mask, yes.shape, no.shape),
            _each(mask, yes.strides, no.strides),
            yes.block_shape,
            yes.element,
            yes.padding,
        )
    if isinstance(yes, BlockPointer) and isinstance(no, BlockPointer):
        return BlockPointer(
            _pointer(select(mask, yes.base, no.base)),
            _each(mask, yes.shape, no.shape),
            _each(mask, yes.strides, no.strides),
            _each(mask, yes.offsets, no.offsets),
            yes.block_shape,
            yes.element,
        )
    raise Incomplete("a value is of one kind in one branch and of another in the other")


def _pointer(tile: Tile) -> Pointers:
    assert isinstance(tile, Pointers)
    return tile


def _each(mask: Bools, yes: tuple[Tile, ...], no: tuple[Tile, ...]) -> tuple[Tile, ...]:
    return tuple(select(mask, a, b) for a, b in zip(yes, no, strict=True))


def same(left: Value, right: Value) -> bool:
    """Whether two values are certainly equal (NaN counts as equal to itself)."""
    if left is right:
        return True
    if isinstance(left, Pointers) and isinstance(right, Pointers):
        here, there = np.asarray(left.argument), np.asarray(right.argument)
        return np.array_equal(here, there) and np.array_equal(left.data, right.data)
    if isinstance(left, Tile) and isinstance(right, Tile):
        return left.data.shape == right.data.shape and left.data.tobytes() == right.data.tobytes()
    return left == right if isinstance(left, Unknown) else False
