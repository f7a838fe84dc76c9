"""Symbolic values: what an SSA value is as a function of program, lane and iteration.

A tile of shape (64, 32) is one expression over two lane variables, one per axis, so two equal
aranges on two axes never become one. Axes of extent 1 have no variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from kerncap.sanitizer.symbolic.expr import FALSE, TRUE, Expr, Variable, const, ite, substitute, var
from kerncap.sanitizer.walk.access import Target


@cache
def lane_variable(axis: int, extent: int) -> Variable:
    """The one variable that indexes axis ``axis`` of every tile whose extent there is ``extent``."""
    return Variable(f"lane{axis}", "lane", 0, extent - 1)


@cache
def lane_variables(shape: tuple[int, ...]) -> tuple[Variable | None, ...]:
    """One per axis; None where the extent is 1."""
    return tuple(lane_variable(axis, extent) if extent != 1 else None for axis, extent in enumerate(shape))


def lane_expressions(shape: tuple[int, ...]) -> tuple[Expr, ...]:
    """The index along each axis: its variable, or 0."""
    return tuple(const(0) if lane is None else var(lane) for lane in lane_variables(shape))


@dataclass(frozen=True)
class Tile:
    """Integers, booleans, or floats (whose expression only tells equal ones from others)."""

    shape: tuple[int, ...]
    expr: Expr
    undefined: Expr = FALSE  # where an undefined lane of a load got into it


@dataclass(frozen=True)
class Pointers:
    """Pointers: where each lane leads to. The guards of the targets are exhaustive and exclusive."""

    shape: tuple[int, ...]
    targets: tuple[Target, ...]
    undefined: Expr = FALSE


@dataclass(frozen=True)
class BlockPointer:
    """``tt.make_tensor_ptr`` (block pointers of older Tritons) and tensor descriptors share this form.

    Shape, strides and offsets are in elements; a descriptor has no offsets of its own.
    """

    base: Pointers
    extents: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offsets: tuple[Expr, ...]
    block_shape: tuple[int, ...]
    element_bytes: int
    host: bool = False
    descriptor: bool = False
    undefined: Expr = FALSE


SymbolicValue = Tile | Pointers | BlockPointer


def expressions(value: SymbolicValue) -> list[Expr]:
    """Every expression that the value consists of, in a fixed order."""
    if isinstance(value, Tile):
        return [value.expr, value.undefined]
    if isinstance(value, Pointers):
        return [e for t in value.targets for e in (t.guard, t.offset_bytes)] + [value.undefined]
    parts = expressions(value.base)
    return [*parts, *value.extents, *value.strides, *value.offsets, value.undefined]


def map_expressions(value: SymbolicValue, change: Callable[[Expr], Expr]) -> SymbolicValue:
    """The value with every expression changed; the shape stays."""
    if isinstance(value, Tile):
        return Tile(value.shape, change(value.expr), change(value.undefined))
    if isinstance(value, Pointers):
        return _map_pointers(value, change)
    return replace(
        value,
        base=_map_pointers(value.base, change),
        extents=tuple(map(change, value.extents)),
        strides=tuple(map(change, value.strides)),
        offsets=tuple(map(change, value.offsets)),
        undefined=change(value.undefined),
    )


def _map_pointers(value: Pointers, change: Callable[[Expr], Expr]) -> Pointers:
    targets = tuple(Target(change(t.guard), t.argument, change(t.offset_bytes)) for t in value.targets)
    return Pointers(value.shape, targets, change(value.undefined))


def reindex(value: SymbolicValue, shape: tuple[int, ...], indices: tuple[Expr, ...]) -> SymbolicValue:
    """A tile of another shape: element at ``indices`` (one per axis of ``value``, over the new lanes)."""
    if isinstance(value, BlockPointer):
        return value
    mapping: dict[Variable, Expr] = {}
    for lane, index in zip(lane_variables(value.shape), indices, strict=True):
        if lane is not None and index is not var(lane):
            mapping[lane] = index
    return reshaped(substitute_all(value, mapping) if mapping else value, shape)


def reshaped(value: SymbolicValue, shape: tuple[int, ...]) -> SymbolicValue:
    """The same expressions as a tile of another shape."""
    if isinstance(value, Tile):
        return Tile(shape, value.expr, value.undefined)
    assert isinstance(value, Pointers)
    return Pointers(shape, value.targets, value.undefined)


def substitute_all(value: SymbolicValue, mapping: Mapping[Variable, Expr]) -> SymbolicValue:
    """Every expression with the variables replaced, all at once."""
    return map_expressions(value, lambda e: substitute(e, mapping))


def choose(condition: Expr, then: SymbolicValue, otherwise: SymbolicValue) -> SymbolicValue:
    """``condition ? then : otherwise``, lane by lane; both have the same shape.

    Raises TypeError for values that are not of one kind.
    """
    if condition is TRUE or then == otherwise:
        return then
    if condition is FALSE:
        return otherwise
    if isinstance(then, Tile) and isinstance(otherwise, Tile):
        return Tile(
            then.shape,
            ite(condition, then.expr, otherwise.expr),
            ite(condition, then.undefined, otherwise.undefined),
        )
    if isinstance(then, Pointers) and isinstance(otherwise, Pointers):
        return _choose_pointers(condition, then, otherwise)
    if isinstance(then, BlockPointer) and isinstance(otherwise, BlockPointer):
        return BlockPointer(
            _choose_pointers(condition, then.base, otherwise.base),
            _choose_each(condition, then.extents, otherwise.extents),
            _choose_each(condition, then.strides, otherwise.strides),
            _choose_each(condition, then.offsets, otherwise.offsets),
            then.block_shape,
            then.element_bytes,
            then.host,
            then.descriptor,
            ite(condition, then.undefined, otherwise.undefined),
        )
    raise TypeError(f"a choice between {type(then).__name__} and {type(otherwise).__name__}")


def _choose_each(condition: Expr, then: tuple[Expr, ...], otherwise: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(ite(condition, a, b) for a, b in zip(then, otherwise, strict=True))


def _choose_pointers(condition: Expr, then: Pointers, otherwise: Pointers) -> Pointers:
    undefined = ite(condition, then.undefined, otherwise.undefined)
    if len(then.targets) == len(otherwise.targets) == 1:
        one, other = then.targets[0], otherwise.targets[0]
        if one.argument == other.argument:
            offset = ite(condition, one.offset_bytes, other.offset_bytes)
            return Pointers(then.shape, (Target(TRUE, one.argument, offset),), undefined)
    targets: dict[tuple[int | None, Expr], Expr] = {}
    for side, holds in ((then, condition), (otherwise, ~condition)):
        for target in side.targets:
            guard = holds & target.guard
            key = (target.argument, target.offset_bytes)
            targets[key] = targets[key] | guard if key in targets else guard
    return Pointers(
        then.shape,
        tuple(
            Target(guard, argument, offset)
            for (argument, offset), guard in targets.items()
            if guard is not FALSE
        ),
        undefined,
    )
