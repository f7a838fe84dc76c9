"""Operations that move elements and change none: splat, reshape, transpose, join, gather, histogram …"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.ops_basic import not_tiles
from kerncap.sanitizer.concrete.plan import STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    Array,
    Bools,
    Ints,
    Pointers,
    Tile,
    Unknown,
    Value,
    any_along,
    either,
    element_of,
    numpy_type,
    shape_of,
    where,
)
from kerncap.sanitizer.ttir.any_order import is_in_any_order
from kerncap.sanitizer.ttir.ir import Dense, Operation

Move = Callable[[Array], Array]


def _moved(tile: Tile, move: Move, shape: Sequence[int] | None) -> Tile:
    """The tile and all that is carried along with it; ``shape`` writes the tile's axes out before."""

    def apply(array: Array) -> Array:
        if shape is not None:
            array = np.broadcast_to(array, (array.shape[0], *shape))
        return move(array)

    def flag(array: Bools | None) -> Bools | None:
        return None if array is None else apply(array)

    undefined, overflow = flag(tile.undefined), flag(tile.overflow)
    if isinstance(tile, Pointers):
        argument = tile.argument if isinstance(tile.argument, int) else apply(tile.argument)
        return Pointers(apply(tile.data), argument, undefined, overflow)
    return Tile(apply(tile.data), undefined, overflow, flag(tile.zero))


def _in_any_order(operation: Operation) -> Step:
    result = operation.results[0]
    unknown = Unknown(f"the compiler may put the elements of {where(operation)} in any order")

    def step(m: Machine) -> None:
        m.env[result] = unknown

    return step


def _broadcast(plan: Plan, operation: Operation) -> Step:
    """Nothing to do: an axis of extent 1 stands for the broadcast one."""
    source, result = operation.operands[0], operation.results[0]

    def step(m: Machine) -> None:
        m.env[result] = m.env[source]

    return step


def _mover(make: Callable[[Operation], Move], write_out: bool) -> Callable[[Plan, Operation], Step]:
    def build(plan: Plan, operation: Operation) -> Step:
        if is_in_any_order(operation):
            return _in_any_order(operation)
        source, result = operation.operands[0], operation.results[0]
        move = make(operation)
        shape = shape_of(source.type) if write_out else None
        tracking = plan.tracking

        def step(m: Machine) -> None:
            value = m.env[source]
            if not isinstance(value, Tile):
                m.env[result] = not_tiles(operation, [value])
            elif value.__class__ is Tile and shape is None and not tracking:
                m.env[result] = Tile(move(value.data))
            else:
                m.env[result] = _moved(value, move, shape)

        return step

    return build


def _splat(operation: Operation) -> Move:
    ones = (1,) * len(shape_of(operation.results[0].type))
    return lambda array: array.reshape(array.shape[0], *ones)


def _expand(operation: Operation) -> Move:
    axis = int(operation.attributes["axis"]) + 1
    return lambda array: np.expand_dims(array, axis)


def _reshape(operation: Operation) -> Move:
    shape = shape_of(operation.results[0].type)
    return lambda array: array.reshape(array.shape[0], *shape)


def _unsplat(operation: Operation) -> Move:
    return lambda array: array.reshape(array.shape[0], -1)[:, 0]


def _transpose(operation: Operation) -> Move:
    rank = len(shape_of(operation.results[0].type))
    order = operation.attributes.get("order")
    permutation = order.values if isinstance(order, Dense) else order or tuple(range(rank))[::-1]
    whole = (0, *(int(axis) + 1 for axis in permutation))
    return lambda array: array.transpose(whole)


STEPS["tt.splat"] = _mover(_splat, write_out=False)
STEPS["tt.expand_dims"] = _mover(_expand, write_out=False)
STEPS["tt.broadcast"] = _broadcast
STEPS["tt.reshape"] = _mover(_reshape, write_out=True)
STEPS["tt.view"] = _mover(_reshape, write_out=True)
STEPS["tt.unsplat"] = _mover(_unsplat, write_out=True)
STEPS["tt.trans"] = _mover(_transpose, write_out=False)


# --- two tiles into one, one into two ----------------------------------------------------------------


def _combined(left: Tile, right: Tile, shape: Sequence[int], put: Callable[[Array, Array], Array]) -> Tile:
    programs = max(left.data.shape[0], right.data.shape[0])
    whole = (programs, *shape)

    def both(x: Array | None, y: Array | None) -> Array | None:
        if x is None and y is None:
            return None
        nothing = np.zeros((1,) * len(whole), dtype=np.bool_)
        return put(
            np.broadcast_to(nothing if x is None else x, whole),
            np.broadcast_to(nothing if y is None else y, whole),
        )

    data = both(left.data, right.data)
    assert data is not None
    undefined, overflow = both(left.undefined, right.undefined), both(left.overflow, right.overflow)
    if isinstance(left, Pointers) and isinstance(right, Pointers):
        argument: int | Ints
        if isinstance(left.argument, int) and left.argument == right.argument:
            argument = left.argument
        else:
            ones = (1,) * len(whole)
            argument = put(
                np.broadcast_to(np.asarray(left.argument).reshape(_rank(left, ones)), whole),
                np.broadcast_to(np.asarray(right.argument).reshape(_rank(right, ones)), whole),
            )
        return Pointers(data, argument, undefined, overflow)
    return Tile(data, undefined, overflow, both(left.zero, right.zero))


def _rank(tile: Pointers, ones: tuple[int, ...]) -> tuple[int, ...]:
    return ones if isinstance(tile.argument, int) else tile.argument.shape


def _pair(put: Callable[[Array, Array], Array]) -> Callable[[Plan, Operation], Step]:
    def build(plan: Plan, operation: Operation) -> Step:
        if is_in_any_order(operation):
            return _in_any_order(operation)
        (left, right), result = operation.operands, operation.results[0]
        shape = shape_of(left.type)

        def step(m: Machine) -> None:
            x, y = m.env[left], m.env[right]
            if isinstance(x, Tile) and isinstance(y, Tile):
                m.env[result] = _combined(x, y, shape, put)
            else:
                m.env[result] = not_tiles(operation, [x, y])

        return step

    return build


def _split(plan: Plan, operation: Operation) -> Step:
    source = operation.operands[0]
    shape = shape_of(source.type)

    def step(m: Machine) -> None:
        value = m.env[source]
        for index, result in enumerate(operation.results):
            m.env[result] = (
                _moved(value, lambda array, at=index: array[..., at], shape)  # type: ignore[misc]
                if isinstance(value, Tile)
                else not_tiles(operation, [value])
            )

    return step


STEPS["tt.join"] = _pair(lambda x, y: np.stack([x, y], axis=-1))
STEPS["tt.cat"] = _pair(lambda x, y: np.concatenate([x, y], axis=1))
STEPS["tt.split"] = _split


# --- elements by their indices -----------------------------------------------------------------------


def _gather(plan: Plan, operation: Operation) -> Step:
    (source, indices), result = operation.operands, operation.results[0]
    axis = int(operation.attributes["axis"]) + 1
    before, after = shape_of(source.type), shape_of(result.type)

    def step(m: Machine) -> None:
        values: list[Value] = [m.env[source], m.env[indices]]
        x, at = values
        if not (isinstance(x, Tile) and isinstance(at, Tile)):
            m.env[result] = not_tiles(operation, values)
            return
        programs = max(x.data.shape[0], at.data.shape[0])
        places = np.broadcast_to(at.data, (programs, *after))
        outside = (places < 0) | (places >= before[axis - 1])
        if m.has(outside):
            m.env[result] = Unknown(f"the result of {where(operation)}, of which an index is out of range")
            return
        places = np.where(outside, 0, places)
        # The other axes may be shorter in the indices than in the source.
        window = (slice(None), *(slice(0, extent) for extent in after))
        window = (*window[:axis], slice(None), *window[axis + 1 :])

        def take(array: Array) -> Array:
            whole = np.broadcast_to(array, (programs, *before))[window]
            return np.take_along_axis(whole, places.astype(np.int64), axis=axis)

        tile = _moved(x, take, None)
        tile.doubt(at.undefined)
        m.env[result] = tile

    return step


def _histogram(plan: Plan, operation: Operation) -> Step:
    source, result = operation.operands[0], operation.results[0]
    mask = operation.operands[1] if len(operation.operands) > 1 else None
    shape, (bins,) = shape_of(source.type), shape_of(result.type)
    native = numpy_type(element_of(result.type))

    def step(m: Machine) -> None:
        values: list[Value] = [m.env[source]] + ([] if mask is None else [m.env[mask]])
        tiles = [value for value in values if isinstance(value, Tile)]
        if len(tiles) != len(values):
            m.env[result] = not_tiles(operation, values)
            return
        programs = max(tile.data.shape[0] for tile in tiles)
        whole = np.broadcast_to(tiles[0].data, (programs, *shape)).astype(np.int64)
        counted = np.broadcast_to(tiles[1].data if len(tiles) > 1 else True, whole.shape)
        # A GPU looks at the low bits alone.
        if m.has(counted & ((whole < 0) | (whole >= bins))):
            m.env[result] = Unknown(f"the result of {where(operation)}, of which a value is in no bin")
            return
        counted = counted & (whole >= 0) & (whole < bins)
        place = whole + bins * np.arange(programs, dtype=np.int64)[:, None]
        counts = np.bincount(place[counted], minlength=programs * bins).reshape(programs, bins)
        flags = tiles[0].undefined
        if flags is not None and len(tiles) > 1:
            flags = flags & tiles[1].data
        flags = either(flags, *(tile.undefined for tile in tiles[1:]))
        undefined = None if flags is None else any_along(flags, shape, 1, keepdims=True)
        m.env[result] = Tile(counts.astype(native), undefined)

    return step


STEPS["tt.gather"] = _gather
STEPS["tt.histogram"] = _histogram
