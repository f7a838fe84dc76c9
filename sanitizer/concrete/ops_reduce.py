"""Reductions, scans and mapped regions.

A combiner that is one well-known operation becomes numpy's reduction; any other is evaluated as it
stands, on many elements at once: each element is then a program of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kerncap.sanitizer.concrete.control import run_region
from kerncap.sanitizer.concrete.dataflow import MEMORY
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.ops_basic import not_tiles
from kerncap.sanitizer.concrete.plan import STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    Array,
    Bools,
    Incomplete,
    Ints,
    Pointers,
    Tile,
    Unknown,
    Unsupported,
    Value,
    any_along,
    either,
    element_of,
    full,
    numpy_type,
    shape_of,
    where,
)
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, Region, walk
from kerncap.sanitizer.ttir.ir import Value as Name

_COMBINERS: dict[str, np.ufunc] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": np.maximum,
    "arith.minui": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
}
_ANY_WIDTH = frozenset(("arith.andi", "arith.ori", "arith.xori"))
_UNSIGNED = frozenset(("arith.maxui", "arith.minui"))
_NATIVE_FLOATS = frozenset(("f16", "f32", "f64"))


def _recognised(operation: Operation) -> tuple[np.ufunc, str] | None:
    """The combiner, where the region is one operation on its two arguments that numpy has."""
    region = operation.regions[0]
    if len(region.blocks) != 1 or len(operation.operands) != 1 or len(region.entry.operations) != 2:
        return None
    block = region.entry
    combiner, end = block.operations
    if combiner.name not in _COMBINERS or end.operands != combiner.results:
        return None
    if set(combiner.operands) != set(block.arguments):
        return None
    kind = element_of(operation.operands[0].type)
    if isinstance(kind, FloatType) and kind.name not in _NATIVE_FLOATS:
        return None  # to be rounded after each step
    if isinstance(kind, IntType) and kind.width == 1 and combiner.name not in _ANY_WIDTH:
        return None
    return _COMBINERS[combiner.name], combiner.name


# --- a region over many elements ---------------------------------------------------------------------


class _Combiner:
    """Runs a region of scalars for arrays of elements; captured values are spread over them."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.region: Region = operation.regions[0]
        self.captured = _captured(self.region)

    def __call__(self, m: Machine, arguments: Sequence[Tile], per_program: int) -> list[Tile]:
        """``arguments``: arrays of one axis, ``per_program`` elements for each program of the machine."""
        count = max(len(tile.data) for tile in arguments)
        inner = Machine(m.shared, np.zeros(count, dtype=np.int64))
        if m.active is not None and count == m.count * per_program:
            inner.active = np.repeat(m.active, per_program)
        for name in self.captured:
            value = m.env[name]
            if isinstance(value, Tile) and len(value.data) > 1:
                value = _repeated(value, per_program)
            inner.env[name] = value
        for name, tile in zip(self.region.entry.arguments, arguments, strict=True):
            inner.env[name] = tile
        run = run_region(inner, self.region)
        while True:
            try:
                next(run)
            except StopIteration as end:
                values: list[Value] = end.value
                break
        results = []
        for value in values:
            if isinstance(value, Unknown):
                raise _UnknownResult(value)
            if not isinstance(value, Tile):
                raise Incomplete(f"{where(self.operation)} combines something that is not a number")
            results.append(value)
        return results


class _UnknownResult(Exception):
    def __init__(self, value: Unknown) -> None:
        super().__init__(value.reason)
        self.value = value


def _repeated(tile: Tile, times: int) -> Tile:
    def spread(array: Any) -> Any:
        return array if array is None or len(array) == 1 else np.repeat(array, times)

    if isinstance(tile, Pointers):
        argument = tile.argument if isinstance(tile.argument, int) else spread(tile.argument)
        return Pointers(spread(tile.data), argument, spread(tile.undefined), spread(tile.overflow))
    return Tile(spread(tile.data), spread(tile.undefined), spread(tile.overflow))


def _captured(region: Region) -> list[Name]:
    """The values that the region reads and does not define."""
    defined: set[Name] = set()
    read: dict[Name, None] = {}

    def visit(inner: Region) -> None:
        for block in inner.blocks:
            defined.update(block.arguments)
            for operation in block.operations:
                defined.update(operation.results)
                for below in operation.regions:
                    visit(below)

    visit(region)
    for operation in walk(region):
        for value in operation.operands:
            read[value] = None
        for _, values in operation.successors:
            read.update(dict.fromkeys(values))
    return [value for value in read if value not in defined]


# Where to look: arrays of (data, undefined, overflow), one triple per operand.
_Triple = tuple[Array, "Bools | None", "Bools | None"]


def _triple(tile: Tile, shape: Sequence[int], programs: int, axis: int) -> _Triple:
    """With everything written out and the axis moved to the end."""

    def spread(array: Any) -> Any:
        if array is None:
            return None
        return np.moveaxis(np.broadcast_to(array, (programs, *shape)), axis, -1)

    return spread(tile.data), spread(tile.undefined), spread(tile.overflow)


def _combine(
    m: Machine, combiner: _Combiner, left: Sequence[_Triple], right: Sequence[_Triple]
) -> list[_Triple]:
    shape = left[0][0].shape
    per_program = int(np.prod(shape[1:], dtype=np.int64))

    def flat(array: Any) -> Any:
        return None if array is None else array.reshape(-1)

    tiles = [Tile(flat(d), flat(u), flat(o)) for d, u, o in (*left, *right)]

    def back(array: Any) -> Any:
        if array is None:
            return None
        return np.broadcast_to(array, (int(np.prod(shape, dtype=np.int64)),)).reshape(shape)

    return [(back(t.data), back(t.undefined), back(t.overflow)) for t in combiner(m, tiles, per_program)]


def _part(triples: Sequence[_Triple], at: slice) -> list[_Triple]:
    def cut(array: Any) -> Any:
        return None if array is None else array[..., at]

    return [(cut(d), cut(u), cut(o)) for d, u, o in triples]


def _joined(first: Sequence[_Triple], second: Sequence[_Triple]) -> list[_Triple]:
    def put(x: Any, y: Any, like: Array, other: Array) -> Any:
        if x is None and y is None:
            return None
        x = np.zeros(like.shape, dtype=np.bool_) if x is None else x
        y = np.zeros(other.shape, dtype=np.bool_) if y is None else y
        return np.concatenate([x, y], axis=-1)

    return [
        (np.concatenate([a[0], b[0]], axis=-1), put(a[1], b[1], a[0], b[0]), put(a[2], b[2], a[0], b[0]))
        for a, b in zip(first, second, strict=True)
    ]


# --- reductions --------------------------------------------------------------------------------------


def _tiles(m: Machine, operation: Operation) -> list[Tile] | Unknown:
    values = [m.env[operand] for operand in operation.operands]
    tiles = [value for value in values if isinstance(value, Tile)]
    return tiles if len(tiles) == len(values) else not_tiles(operation, values)


def reduction(
    whole: Callable[[Machine, _Combiner, list[_Triple]], list[_Triple]],
    quick: Callable[..., Tile],
    recognise: Callable[[Operation], object] = _recognised,
) -> Callable[[Plan, Operation], Step]:
    """``whole``: over the last axis of written-out arrays, with the region; ``quick``: where the combiner is
    one that `recognise` gives something for, which is passed on."""

    def build(plan: Plan, operation: Operation) -> Step:
        axis = int(operation.attributes["axis"]) + 1
        shape = shape_of(operation.operands[0].type)
        recognised = recognise(operation)
        combiner = _Combiner(operation)
        scan = operation.name == "tt.scan"
        watch = plan.watches_overflow(operation)
        for result in operation.results:
            numpy_type(element_of(result.type))

        def step(m: Machine) -> None:
            tiles = _tiles(m, operation)
            if isinstance(tiles, Unknown):
                for result in operation.results:
                    m.env[result] = tiles
                return
            if recognised is not None and type(tiles[0]) is Tile:
                m.env[operation.results[0]] = quick(operation, tiles[0], shape, axis, recognised, watch)
                return
            programs = max(len(tile.data) for tile in tiles)
            try:
                triples = whole(m, combiner, [_triple(tile, shape, programs, axis) for tile in tiles])
            except _UnknownResult as unknown:
                for result in operation.results:
                    m.env[result] = unknown.value
                return
            for result, (data, undefined, overflow) in zip(operation.results, triples, strict=True):

                def back(array: Any) -> Any:
                    if array is None:
                        return None
                    return np.moveaxis(array, -1, axis) if scan else array[..., 0]

                m.env[result] = Tile(back(data), back(undefined), back(overflow))

        return step

    return build


def _wrapped(exact: Array, result: Array) -> Bools:
    """Whether an integer left its range: it is off by 2**width then, far more than doubles round by."""
    found: Bools = np.asarray(np.abs(exact - result) > 2.0 ** (8 * result.itemsize - 1))
    return found


def _quick_reduce(
    operation: Operation,
    tile: Tile,
    shape: Sequence[int],
    axis: int,
    combiner: tuple[np.ufunc, str],
    watch: bool,
) -> Tile:
    ufunc, name = combiner
    data = full(tile.data, shape)
    if name in _UNSIGNED:
        data = np.ascontiguousarray(data).view(np.dtype(f"u{data.itemsize}"))
    result = np.asarray(ufunc.reduce(data, axis=axis, dtype=data.dtype)).view(tile.data.dtype)
    undefined = None if tile.undefined is None else any_along(tile.undefined, shape, axis)
    overflow = None if tile.overflow is None else any_along(tile.overflow, shape, axis)
    if watch and name in ("arith.addi", "arith.muli"):
        overflow = either(overflow, _wrapped(ufunc.reduce(data.astype(np.float64), axis=axis), result))
    return Tile(result, undefined, overflow)


def _quick_scan(
    operation: Operation,
    tile: Tile,
    shape: Sequence[int],
    axis: int,
    combiner: tuple[np.ufunc, str],
    watch: bool,
) -> Tile:
    ufunc, name = combiner
    backwards = bool(operation.attributes.get("reverse"))

    def run(array: Array, what: np.ufunc) -> Array:
        array = full(array, shape)
        if backwards:
            array = np.flip(array, axis)
        done: Array = what.accumulate(array, axis=axis, dtype=array.dtype)
        return np.flip(done, axis) if backwards else done

    data = tile.data
    if name in _UNSIGNED:
        data = np.ascontiguousarray(data).view(np.dtype(f"u{data.itemsize}"))
    result = np.ascontiguousarray(run(data, ufunc)).view(tile.data.dtype)
    undefined = None if tile.undefined is None else run(tile.undefined, np.logical_or)
    overflow = None if tile.overflow is None else run(tile.overflow, np.logical_or)
    if watch and name in ("arith.addi", "arith.muli"):
        overflow = either(overflow, _wrapped(run(data.astype(np.float64), ufunc), result))
    return Tile(result, undefined, overflow)


def tree(m: Machine, combiner: _Combiner, triples: list[_Triple]) -> list[_Triple]:
    """Neighbours first, in order: the combiner need not be commutative."""
    while (extent := triples[0][0].shape[-1]) > 1:
        pairs = extent // 2 * 2
        halves = _part(triples, slice(0, pairs, 2)), _part(triples, slice(1, pairs, 2))
        combined = _combine(m, combiner, *halves)
        triples = combined if pairs == extent else _joined(combined, _part(triples, slice(pairs, None)))
    return triples


def prefix(m: Machine, combiner: _Combiner, triples: list[_Triple]) -> list[_Triple]:
    backwards = bool(combiner.operation.attributes.get("reverse"))
    if backwards:
        triples = _part(triples, slice(None, None, -1))
    distance, extent = 1, triples[0][0].shape[-1]
    while distance < extent:
        earlier, later = _part(triples, slice(0, extent - distance)), _part(triples, slice(distance, None))
        combined = _combine(m, combiner, earlier, later)
        triples = _joined(_part(triples, slice(0, distance)), combined)
        distance *= 2
    return _part(triples, slice(None, None, -1)) if backwards else triples


STEPS["tt.reduce"] = reduction(tree, _quick_reduce)
STEPS["tt.scan"] = reduction(prefix, _quick_scan)


# --- a scalar region mapped over tiles ---------------------------------------------------------------


def _map(plan: Plan, operation: Operation) -> Step:
    pack = int(operation.attributes.get("pack", 1))
    shape = shape_of(operation.operands[0].type)
    combiner = _Combiner(operation)
    if any(inner.name in MEMORY for inner in walk(operation.regions[0])):
        raise Unsupported("memory in a mapped region")

    def step(m: Machine) -> None:
        tiles = _tiles(m, operation)
        if isinstance(tiles, Unknown):
            for result in operation.results:
                m.env[result] = tiles
            return
        programs = max(len(tile.data) for tile in tiles)

        def packed(array: Any, at: int) -> Any:
            if array is None:
                return None
            whole: Ints = np.broadcast_to(array, (programs, *shape))
            return whole.reshape(-1, pack)[:, at]

        # For each operand its `pack` neighbouring elements, then the next operand's.
        arguments = [
            Tile(packed(t.data, at), packed(t.undefined, at), packed(t.overflow, at))
            for t in tiles
            for at in range(pack)
        ]
        groups = len(arguments[0].data)
        try:
            results = combiner(m, arguments, groups // programs)
        except _UnknownResult as unknown:
            for result in operation.results:
                m.env[result] = unknown.value
            return

        def unpacked(arrays: list[Any]) -> Any:
            if all(array is None for array in arrays):
                return None
            columns = [np.zeros(1, dtype=np.bool_) if array is None else array for array in arrays]
            whole = np.stack([np.broadcast_to(column, (groups,)) for column in columns], axis=-1)
            return whole.reshape(programs, *shape)

        for index, result in enumerate(operation.results):
            mine = results[index * pack : (index + 1) * pack]
            m.env[result] = Tile(
                unpacked([t.data for t in mine]),
                unpacked([t.undefined for t in mine]),
                unpacked([t.overflow for t in mine]),
            )

    return step


STEPS["tt.map_elementwise"] = _map
