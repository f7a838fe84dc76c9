"""Reductions, scans and mapped regions.

A combiner that is one well-known operation becomes numpy's reduction; any other is evaluated as it
stands, on many elements at once: each element is then a program of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kerncap.sanitizer.concrete.combiner import (
    Combiner,
    UnknownResult,
    backwards,
    prefix,
    prefix_otherwise,
    tree,
    tree_otherwise,
    triple,
)
from kerncap.sanitizer.concrete.dataflow import MEMORY
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.ops_basic import not_tiles
from kerncap.sanitizer.concrete.plan import STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    Array,
    Bools,
    Ints,
    Tile,
    Unknown,
    Unsupported,
    any_along,
    either,
    element_of,
    full,
    numpy_type,
    shape_of,
    where,
)
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, Type, walk

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


def known_combiner(operation: Operation) -> tuple[np.ufunc, str] | None:
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


# --- reductions --------------------------------------------------------------------------------------


def _tiles(m: Machine, operation: Operation) -> list[Tile] | Unknown:
    values = [m.env[operand] for operand in operation.operands]
    tiles = [value for value in values if isinstance(value, Tile)]
    return tiles if len(tiles) == len(values) else not_tiles(operation, values)


def _other_integers(kind: Type, x: Array, y: Array) -> Array:
    return np.zeros((), np.bool_) if isinstance(kind, FloatType) else np.asarray(x != y)


def reduction(
    quick: Callable[..., Tile],
    recognise: Callable[[Operation], object] = known_combiner,
    differ: Callable[[Type, Array, Array], Array] = _other_integers,
) -> Callable[[Plan, Operation], Step]:
    """``quick``: where the combiner is one that `recognise` gives something for, which is passed on.

    Any other is evaluated over written-out arrays, in two orders, and where the results ``differ`` (of
    floats of the evaluator's that would be rounding) the compiler's order is not known.
    """

    def build(plan: Plan, operation: Operation) -> Step:
        axis = int(operation.attributes["axis"]) + 1
        shape = shape_of(operation.operands[0].type)
        recognised = recognise(operation)
        combiner = Combiner(operation)
        scan = operation.name == "tt.scan"
        turned = backwards if operation.attributes.get("reverse") else list
        orders = (prefix, prefix_otherwise) if scan else (tree, tree_otherwise)
        kinds = [element_of(result.type) for result in operation.results]
        by = ", by comparisons" if any(one.name == "arith.cmpf" for one in walk(operation.regions[0])) else ""
        order = Unknown(f"the result of {where(operation)} may depend on the order of its elements{by}")
        watch = plan.watches_overflow(operation)
        for kind in kinds:
            numpy_type(kind)

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
            given = [triple(tile, shape, programs, axis) for tile in tiles]
            try:
                triples, others = (turned(of(m, combiner, turned(given))) for of in orders)
            except UnknownResult as unknown:
                for result in operation.results:
                    m.env[result] = unknown.value
                return
            if any(
                m.has(differ(kind, one[0], other[0]))
                for kind, one, other in zip(kinds, triples, others, strict=True)
            ):
                for result in operation.results:
                    m.env[result] = order
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
    is_reverse = bool(operation.attributes.get("reverse"))

    def run(array: Array, what: np.ufunc) -> Array:
        array = full(array, shape)
        if is_reverse:
            array = np.flip(array, axis)
        done: Array = what.accumulate(array, axis=axis, dtype=array.dtype)
        return np.flip(done, axis) if is_reverse else done

    data = tile.data
    if name in _UNSIGNED:
        data = np.ascontiguousarray(data).view(np.dtype(f"u{data.itemsize}"))
    result = np.ascontiguousarray(run(data, ufunc)).view(tile.data.dtype)
    undefined = None if tile.undefined is None else run(tile.undefined, np.logical_or)
    overflow = None if tile.overflow is None else run(tile.overflow, np.logical_or)
    if watch and name in ("arith.addi", "arith.muli"):
        overflow = either(overflow, _wrapped(run(data.astype(np.float64), ufunc), result))
    return Tile(result, undefined, overflow)


STEPS["tt.reduce"] = reduction(_quick_reduce)
STEPS["tt.scan"] = reduction(_quick_scan)


# --- a scalar region mapped over tiles ---------------------------------------------------------------


def _map(plan: Plan, operation: Operation) -> Step:
    pack = int(operation.attributes.get("pack", 1))
    shape = shape_of(operation.operands[0].type)
    combiner = Combiner(operation)
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
        except UnknownResult as unknown:
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
