"""Tensor descriptors and block pointers: from a block's place to the address of each of its lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.ops_arith import added_too_far
from kerncap.sanitizer.concrete.ops_basic import not_tiles
from kerncap.sanitizer.concrete.plan import STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    BlockPointer,
    Bools,
    Descriptor,
    Ints,
    Pointers,
    Tile,
    Unsupported,
    Value,
    either,
    element_of,
    shape_of,
    where,
    width_bytes,
)
from kerncap.sanitizer.ttir.ir import DescriptorType, Operation, PointerType, TensorType


@dataclass(frozen=True, slots=True)
class Addresses:
    """Byte offsets of lanes, all axes broadcastable; ``inside``: the lanes that there are (None: all)."""

    argument: int | Ints
    offsets: Ints
    inside: Bools | None
    undefined: Bools | None
    overflow: Bools | None


def _along(array: Ints, rank: int) -> Ints:
    """A value per program, to broadcast against tiles."""
    return array.reshape(array.shape[0], *(1,) * rank)


def _flag(flag: Bools | None, rank: int) -> Bools | None:
    return None if flag is None else flag.reshape(flag.shape[0], *(1,) * rank)


def _positions(start: Tile, extent: int, axis: int, rank: int) -> Ints:
    """The coordinates of a block's lanes along an axis."""
    lanes = np.arange(extent, dtype=np.int64).reshape(1, *(extent if i == axis else 1 for i in range(rank)))
    return _along(start.data.astype(np.int64).reshape(-1), rank) + lanes


def _addresses(
    base: Pointers,
    shape: Sequence[Tile],
    strides: Sequence[Tile],
    positions: Sequence[Ints],
    checked: Sequence[bool],
    width: int,
    sources: Sequence[Tile],
) -> Addresses:
    """``positions``: coordinates per axis, broadcastable against each other; ``sources``: for the flags."""
    rank = positions[0].ndim - 1
    offsets = _along(base.data, rank)
    inside: Bools | None = None
    for axis, position in enumerate(positions):
        stride = _along(strides[axis].data.astype(np.int64), rank)
        offsets = offsets + position * (stride * width)
        if checked[axis]:
            extent = _along(shape[axis].data.astype(np.int64), rank)
            here = (position >= 0) & (position < extent)
            inside = here if inside is None else inside & here
    tiles: list[Tile] = [base, *strides, *sources]
    undefined = either(
        *(_flag(t.undefined, rank) for t in tiles if t.undefined is None or t.undefined.ndim == 1)
    )
    overflow = either(*(_flag(t.overflow, rank) for t in tiles if t.overflow is None or t.overflow.ndim == 1))
    argument = base.argument if isinstance(base.argument, int) else _along(base.argument, rank)
    return Addresses(argument, offsets, inside, undefined, overflow)


def descriptor_addresses(d: Descriptor, indices: Sequence[Tile], shape: tuple[int, ...]) -> Addresses:
    """Of the block at ``indices``; the tile may leave out leading axes of extent 1."""
    rank = len(d.block_shape)
    positions = [_positions(start, d.block_shape[axis], axis, rank) for axis, start in enumerate(indices)]
    found = _addresses(d.base, d.shape, d.strides, positions, [True] * rank, width_bytes(d.element), indices)
    return found if len(shape) == rank else _squeezed(found, d.block_shape, shape)


def _squeezed(found: Addresses, block: tuple[int, ...], shape: tuple[int, ...]) -> Addresses:
    def fit(array: Ints) -> Ints:
        return np.broadcast_to(array, (array.shape[0], *block)).reshape(array.shape[0], *shape)

    inside = None if found.inside is None else np.broadcast_to(found.inside, (found.inside.shape[0], *block))
    flags = [
        None if f is None else f.reshape(f.shape[0], *(1,) * len(shape))
        for f in (found.undefined, found.overflow)
    ]
    argument = found.argument
    if not isinstance(argument, int):
        argument = argument.reshape(argument.shape[0], *(1,) * len(shape))
    return Addresses(
        argument,
        fit(found.offsets),
        None if inside is None else inside.reshape(inside.shape[0], *shape),
        flags[0],
        flags[1],
    )


def row_addresses(d: Descriptor, rows: Tile, column: Tile, width: int) -> Addresses:
    """Of whole rows of a matrix: row ``rows[i]``, from ``column`` on, ``width`` elements."""
    at = rows.data.astype(np.int64)[:, :, None]
    across = _positions(column, width, 1, 2)
    found = _addresses(
        d.base, d.shape, d.strides, [at, across], [True, True], width_bytes(d.element), [column]
    )
    undefined = None if rows.undefined is None else rows.undefined[:, :, None]
    overflow = None if rows.overflow is None else rows.overflow[:, :, None]
    return Addresses(
        found.argument,
        found.offsets,
        found.inside,
        either(found.undefined, undefined),
        either(found.overflow, overflow),
    )


def block_addresses(p: BlockPointer, checked_axes: Sequence[int]) -> Addresses:
    """Only the axes of ``boundary_check`` are held to the shape: the others may run over."""
    rank = len(p.block_shape)
    positions = [_positions(start, p.block_shape[axis], axis, rank) for axis, start in enumerate(p.offsets)]
    checked = [axis in checked_axes for axis in range(rank)]
    return _addresses(p.base, p.shape, p.strides, positions, checked, width_bytes(p.element), p.offsets)


# --- making them -------------------------------------------------------------------------------------


def _tiles(m: Machine, operation: Operation) -> list[Tile] | None:
    """All operands; None, and unknown results, where one is no tile."""
    values: list[Value] = [m.env[operand] for operand in operation.operands]
    tiles = [value for value in values if isinstance(value, Tile)]
    if len(tiles) == len(values):
        return tiles
    m.env[operation.results[0]] = not_tiles(operation, values)
    return None


def _make_descriptor(plan: Plan, operation: Operation) -> Step:
    result = operation.results[0]
    if not isinstance(result.type, DescriptorType):
        raise Unsupported(where(operation))
    rank = (len(operation.operands) - 1) // 2
    block = shape_of(result.type.block)
    padding = str(operation.attributes.get("padding", "zero"))
    padding = {"1": "zero", "2": "nan"}.get(padding, padding)
    pointer = element_of(operation.operands[0].type)
    assert isinstance(pointer, PointerType)
    element = pointer.pointee

    def step(m: Machine) -> None:
        tiles = _tiles(m, operation)
        if tiles is None:
            return
        base = tiles[0]
        assert isinstance(base, Pointers)
        shape, strides = tuple(tiles[1 : 1 + rank]), tuple(tiles[1 + rank :])
        m.env[result] = Descriptor(base, shape, strides, block, element, padding)

    return step


def _make_block_pointer(plan: Plan, operation: Operation) -> Step:
    result = operation.results[0]
    if not isinstance(result.type, PointerType) or not isinstance(result.type.pointee, TensorType):
        raise Unsupported(where(operation))
    block = result.type.pointee.shape
    rank = len(block)
    element = element_of(result.type.pointee)

    def step(m: Machine) -> None:
        tiles = _tiles(m, operation)
        if tiles is None:
            return
        base = tiles[0]
        assert isinstance(base, Pointers)
        parts = [tuple(tiles[1 + rank * i : 1 + rank * (i + 1)]) for i in range(3)]
        m.env[result] = BlockPointer(base, parts[0], parts[1], parts[2], block, element)

    return step


def _sum(old: Tile, new: Tile, watched: bool) -> Tile:
    data = old.data + new.data
    overflow = either(old.overflow, new.overflow)
    if watched:
        overflow = either(overflow, added_too_far(data, old.data, new.data))
    return Tile(data, either(old.undefined, new.undefined), overflow)


def _advance(plan: Plan, operation: Operation) -> Step:
    result = operation.results[0]
    watched = plan.watches_overflow(operation)

    def step(m: Machine) -> None:
        pointer = m.env[operation.operands[0]]
        by = [m.env[operand] for operand in operation.operands[1:]]
        tiles = [one for one in by if isinstance(one, Tile)]
        if not isinstance(pointer, BlockPointer) or len(tiles) != len(by):
            m.env[result] = not_tiles(operation, [pointer, *by])
            return
        offsets = tuple(_sum(old, new, watched) for old, new in zip(pointer.offsets, tiles, strict=True))
        m.env[result] = BlockPointer(
            pointer.base, pointer.shape, pointer.strides, offsets, pointer.block_shape, pointer.element
        )

    return step


STEPS["tt.make_tensor_descriptor"] = _make_descriptor
STEPS["tt.make_tensor_ptr"] = _make_block_pointer
STEPS["tt.advance"] = _advance
