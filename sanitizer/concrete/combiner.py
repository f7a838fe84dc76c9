"""A reduction's or scan's region over many elements at once, each as if it were a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerncap.sanitizer.concrete.control import run_region
from kerncap.sanitizer.concrete.machine import Machine
from kerncap.sanitizer.concrete.values import Array, Bools, Incomplete, Pointers, Tile, Unknown, Value, where
from kerncap.sanitizer.ttir.ir import Operation, Region, walk
from kerncap.sanitizer.ttir.ir import Value as Name


class Combiner:
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
                raise UnknownResult(value)
            if not isinstance(value, Tile):
                raise Incomplete(f"{where(self.operation)} combines something that is not a number")
            results.append(value)
        return results


class UnknownResult(Exception):
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
Triple = tuple[Array, "Bools | None", "Bools | None"]


def triple(tile: Tile, shape: Sequence[int], programs: int, axis: int) -> Triple:
    """With everything written out and the axis moved to the end."""

    def spread(array: Any) -> Any:
        if array is None:
            return None
        return np.moveaxis(np.broadcast_to(array, (programs, *shape)), axis, -1)

    return spread(tile.data), spread(tile.undefined), spread(tile.overflow)


def _combine(m: Machine, combiner: Combiner, left: Sequence[Triple], right: Sequence[Triple]) -> list[Triple]:
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


def _part(triples: Sequence[Triple], at: slice) -> list[Triple]:
    def cut(array: Any) -> Any:
        return None if array is None else array[..., at]

    return [(cut(d), cut(u), cut(o)) for d, u, o in triples]


def backwards(triples: Sequence[Triple]) -> list[Triple]:
    return _part(triples, slice(None, None, -1))


def _joined(first: Sequence[Triple], second: Sequence[Triple]) -> list[Triple]:
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


# --- the orders in which elements are combined ---------------------------------------------------------

_OF_THREAD = 4  # neighbours that one thread has, as of a tile of 32 bits that was loaded at once


def tree(m: Machine, combiner: Combiner, triples: list[Triple]) -> list[Triple]:
    """Neighbours first, in order."""
    while (extent := triples[0][0].shape[-1]) > 1:
        pairs = extent // 2 * 2
        halves = _part(triples, slice(0, pairs, 2)), _part(triples, slice(1, pairs, 2))
        combined = _combine(m, combiner, *halves)
        triples = combined if pairs == extent else _joined(combined, _part(triples, slice(pairs, None)))
    return triples


def prefix(m: Machine, combiner: Combiner, triples: list[Triple]) -> list[Triple]:
    """Each with what is half as far away, as the threads of a warp do."""
    distance, extent = 1, triples[0][0].shape[-1]
    while distance < extent:
        earlier, later = _part(triples, slice(0, extent - distance)), _part(triples, slice(distance, None))
        combined = _combine(m, combiner, earlier, later)
        triples = _joined(_part(triples, slice(0, distance)), combined)
        distance *= 2
    return triples


def tree_otherwise(m: Machine, combiner: Combiner, triples: list[Triple]) -> list[Triple]:
    """In another order: the last first, then the tree of the rest.

    Triton combines in a thread, a warp, a block, and takes functions for associative and commutative.
    """
    if triples[0][0].shape[-1] == 1:
        return triples
    rest = tree(m, combiner, _part(triples, slice(0, -1)))
    return _combine(m, combiner, _part(triples, slice(-1, None)), rest)


def prefix_otherwise(m: Machine, combiner: Combiner, triples: list[Triple]) -> list[Triple]:
    """Bracketed otherwise: one after the other in threads of four elements, then among the threads."""
    columns = [_part(triples, slice(at, None, _OF_THREAD)) for at in range(_OF_THREAD)]
    columns = [column for column in columns if column[0][0].shape[-1]]
    for at in range(1, len(columns)):
        columns[at] = _combine(m, combiner, columns[at - 1], columns[at])
    threads = columns[0][0][0].shape[-1]
    if threads > 1:
        before = _part(prefix(m, combiner, columns[-1]), slice(0, -1))
        first, rest = slice(0, 1), slice(1, None)
        columns = [
            _joined(_part(column, first), _combine(m, combiner, before, _part(column, rest)))
            for column in columns
        ]
    joined = columns[0]
    for column in columns[1:]:
        joined = _joined(joined, column)
    places = np.arange(threads * len(columns)).reshape(len(columns), threads).T.ravel()
    return [tuple(None if one is None else one[..., places] for one in of) for of in joined]  # type: ignore[misc]
