"""Zeros by mask, and what becomes of those that a masked load without ``other`` leaves in its lanes.

With `Track.left_out` such a lane is undefined. `Tile.zero` tells the elements, undefined or not, that are
zeros whatever memory holds: lanes that a load left out (see `walk.left_out`), those with a zero for
``other``, zero constants, and what is made of these alone or by a product with a finite number. A sum, a
maximum or a product of matrices to which undefined zeros add nothing is defined. Anything else that is made
of one is undefined.

A result counts as such a zero only if it is one: zero times infinity or NaN, as memory holds them, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from kerncap.sanitizer.concrete import rounding  # noqa: F401  (the last of those that fill STEPS before)
from kerncap.sanitizer.concrete.dataflow import STORES
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.ops_arith import ELEMENTWISE
from kerncap.sanitizer.concrete.plan import STEPS, BuildStep, Plan
from kerncap.sanitizer.concrete.values import Array, Bools, Tile, any_along, either, full, shape_of
from kerncap.sanitizer.ttir.ir import Block, Operation, Value

Zeros = Callable[..., "Bools | None"]  # of one tile for each operand: where the result may be such a zero


def _same(tile: Tile) -> Bools | None:
    return tile.zero


def _both(*flags: Bools | None) -> Bools | None:
    """Elementwise "and", where None is False everywhere."""
    result: Bools | None = None
    for flag in flags:
        if flag is None:
            return None
        result = flag if result is None else result & flag
    return result


def _all(*tiles: Tile) -> Bools | None:
    return _both(*(tile.zero for tile in tiles))


def _any(*tiles: Tile) -> Bools | None:
    return either(*(tile.zero for tile in tiles))


def _of_infinity(x: Tile) -> Bools | None:
    """The exponential of what a mask makes infinite; memory holds that for no other purpose."""
    found: Bools = np.isneginf(x.data)
    return found if found.any() else None


_BIT_CASTS = frozenset(("arith.bitcast", "tt.bitcast"))
_ZEROS: dict[str, Zeros] = {
    **dict.fromkeys(
        (
            *("arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.sitofp", "arith.uitofp", "arith.fptosi"),
            *("arith.fptoui", "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"),
            *(*_BIT_CASTS, "arith.negf", "math.absf", "math.absi", "math.sqrt"),
            *("tt.precise_sqrt", "math.erf", "math.sin", "math.tanh", "math.expm1", "math.floor"),
            *("math.ceil", "math.trunc", "math.round", "math.roundeven"),
        ),
        _same,
    ),
    **dict.fromkeys(("arith.mulf", "arith.muli", "arith.andi"), _any),
    **dict.fromkeys(("arith.divf", "tt.precise_divf"), lambda a, b: a.zero),
    **dict.fromkeys(
        (
            *("arith.addf", "arith.subf", "arith.addi", "arith.subi", "arith.ori", "arith.xori"),
            *("arith.maxnumf", "arith.minnumf", "arith.maximumf", "arith.minimumf", "arith.maxsi"),
            *("arith.minsi", "arith.maxui", "arith.minui", "arith.cmpi", "arith.cmpf"),
        ),
        _all,
    ),
    **dict.fromkeys(("math.exp", "math.exp2"), _of_infinity),
    "math.fma": lambda a, b, c: _both(_any(a, b), c.zero),
}
# Operations with no region that join lanes, or pass values on to somewhere else.
_TOGETHER = frozenset(("tt.dot", "tt.dot_scaled", "tt.histogram", "tt.gather", "tt.call"))
_SUMS = frozenset(("arith.addf", "arith.addi", "arith.ori", "arith.xori"))
_NEUTRAL = {
    "arith.maxnumf": -np.inf, "arith.maximumf": -np.inf, "arith.minnumf": np.inf, "arith.minimumf": np.inf,
}  # fmt: skip


def _following(build: BuildStep, follow: Callable[[Plan, Operation], Step | None]) -> BuildStep:
    """With a second step that marks the results of the first, if left-out lanes are looked at."""

    def make(plan: Plan, operation: Operation) -> Step:
        first = build(plan, operation)
        second = follow(plan, operation) if plan.track.undefined and plan.track.left_out else None
        if second is None:
            return first
        marked = second

        def step(m: Machine) -> None:
            first(m)
            marked(m)

        return step

    return make


def _on_marked(
    operation: Operation, mark: Callable[[Tile, list[Tile]], None], of: Sequence[Value] = ()
) -> Step:
    """``mark`` gets the result and the operands (or ``of``), if one of them has a mark."""
    operands, result = of or operation.operands, operation.results[0]

    def step(m: Machine) -> None:
        made = m.env[result]
        values = [m.env[operand] for operand in operands]
        tiles = [value for value in values if isinstance(value, Tile)]
        if not isinstance(made, Tile) or len(tiles) != len(values):
            return
        if any(tile.undefined is not None or tile.zero is not None for tile in tiles):
            mark(made, tiles)

    return step


# --- element by element ------------------------------------------------------------------------------


def _elementwise(plan: Plan, operation: Operation) -> Step | None:
    zeros = _ZEROS.get(operation.name)
    if zeros is None:
        return None
    if _accumulates(operation):
        return _on_marked(operation, _added)
    if (parts := _exchange(operation)) is not None:
        return _on_marked(operation, _exchanged, parts)
    if (turned := _turned(operation)) is not None:
        value, axis = turned
        return _on_marked(operation, partial(_follow_turned, axis), (value,))

    def mark(made: Tile, tiles: list[Tile]) -> None:
        made.zero = _both(zeros(*tiles), made.data == 0)
        if operation.name in _BIT_CASTS and made.data.dtype.kind == "f" and tiles[0].counted is not None:
            # An integer that has no value may be the bits of a NaN.
            made.data = np.where(tiles[0].counted, np.nan, made.data).astype(made.data.dtype)

    return _on_marked(operation, mark)


def _accumulates(operation: Operation) -> bool:
    """Whether it is what a loop adds to a value that it carries."""
    if operation.name not in ("arith.addf", "arith.addi"):
        return False
    for operand in operation.operands:
        block = operand.owner
        if not isinstance(block, Block) or block.operations[-1].name != "scf.yield":
            continue
        yielded = block.operations[-1].operands
        position = operand.index - (len(block.arguments) - len(yielded))
        if 0 <= position < len(yielded) and yielded[position] is operation.results[0]:
            return True
    return False


def _added(made: Tile, parts: list[Tile]) -> None:
    left_out = either(*(part.left_out for part in parts))
    _settle(made, either(*(part.counted for part in parts)), left_out, _all(*parts))


def _settle(made: Tile, counted: Bools | None, left_out: Bools | None, zero: Bools | None) -> None:
    """Mark a sum: undefined where something that counts went in, or nothing but zeros that were left out.

    ``zero``: where all went in as zeros.
    """
    nothing_else = _both(left_out, made.data == 0)
    made.undefined, made.zero = either(counted, nothing_else), either(nothing_else, zero)
    if counted is not None and made.zero is not None:
        made.zero = made.zero & ~counted


def _exchange(operation: Operation) -> tuple[Value, ...] | None:
    """x, c, a, b and the zero of ``x ^ (c ? a ^ b : 0)``, by which sorts exchange a and b."""
    if operation.name != "arith.xori":
        return None
    for x, other in (operation.operands, operation.operands[::-1]):
        select = other.owner
        if isinstance(select, Operation) and select.name == "arith.select":
            condition, both, nothing = select.operands
            pair = both.owner
            if isinstance(pair, Operation) and pair.name == "tt.broadcast":  # which changes no array
                pair = pair.operands[0].owner
            if isinstance(pair, Operation) and pair.name == "arith.xori":
                return x, condition, *pair.operands, nothing
    return None


def _exchanged(made: Tile, parts: list[Tile]) -> None:
    """A lane that holds a gets b with its marks, and the other way round; any other is as always."""
    x, condition, a, b, nothing = parts
    if condition.undefined is not None or nothing.data.any():
        return
    marks = [np.asarray(False if tile.undefined is None else tile.undefined) for tile in (x, a, b)]
    zeros = [np.asarray(False if tile.zero is None else tile.zero) for tile in (x, a, b)]
    is_a, is_b = ((x.data == tile.data) & (marks[0] == mark) for tile, mark in ((a, marks[1]), (b, marks[2])))
    undefined = (is_a & marks[2]) | (is_b & marks[1])
    zero = (~is_a | zeros[2]) & (~is_b | zeros[1]) & (made.data == 0)
    known = is_a | is_b | ~condition.data
    made.zero = known & np.where(condition.data, zero, zeros[0])
    otherwise = False if made.undefined is None else made.undefined
    made.undefined = np.where(known, np.where(condition.data, undefined, marks[0]), otherwise)


def _turned(operation: Operation) -> tuple[Value, int] | None:
    """x and the axis of ``x ^ (the pair's a ^ b)``, by which `tl.flip` turns pairs round."""
    if operation.name != "arith.xori":
        return None
    for x, other in (operation.operands, operation.operands[::-1]):
        pair = other.owner
        while isinstance(pair, Operation) and pair.name in ("tt.broadcast", "tt.expand_dims"):
            pair = pair.operands[0].owner
        if isinstance(pair, Operation) and pair.name == "tt.reduce" and pair.operands == (x,):
            known = _along(pair)
            if known is not None and known[0] == "arith.xori" and known[1][known[2] - 1] == 2:
                return x, known[2]
    return None


def _follow_turned(axis: int, made: Tile, parts: list[Tile]) -> None:
    """Marks go with their lanes."""
    [x] = parts
    made.undefined, made.zero = (None if one is None else np.flip(one, axis) for one in (x.undefined, x.zero))


# --- lanes together ----------------------------------------------------------------------------------


def _along(operation: Operation) -> tuple[str, tuple[int, ...], int] | None:
    """The one operation that a reduction or scan of one value consists of, the value's shape, the axis."""
    block = operation.regions[0].entry
    if len(operation.operands) != 1 or len(block.operations) != 2:
        return None
    combiner, end = block.operations
    if set(combiner.operands) != set(block.arguments) or end.operands != combiner.results:
        return None
    return combiner.name, shape_of(operation.operands[0].type), int(operation.attributes["axis"]) + 1


def _reduction(plan: Plan, operation: Operation) -> Step | None:
    known = _along(operation)
    if known is None:
        return None
    name, shape, axis = known

    def some(flags: Bools | None) -> Bools | None:
        return None if flags is None else any_along(flags, shape, axis)

    def every(flags: Bools | None) -> Bools | None:
        return None if flags is None else np.asarray(full(flags, shape).all(axis=axis))

    def mark(made: Tile, tiles: list[Tile]) -> None:
        (tile,) = tiles
        if name in _SUMS:
            return _settle(made, some(tile.counted), some(tile.left_out), every(tile.zero))
        if name in _NEUTRAL and tile.undefined is not None:
            matters = tile.undefined & (tile.data != _NEUTRAL[name])
            made.undefined = either(some(matters), every(tile.undefined))
        made.zero = _both(every(tile.zero), made.data == 0)

    return _on_marked(operation, mark)


def _scan(plan: Plan, operation: Operation) -> Step | None:
    known = _along(operation)
    if known is None or known[0] not in _SUMS:
        return None
    _, shape, axis = known
    backwards = bool(operation.attributes.get("reverse"))
    combined = _is_combined(plan, operation.results[0])

    def so_far(flags: Bools | None) -> Bools | None:
        if flags is None:
            return None
        whole = full(flags, shape)
        whole = np.flip(whole, axis) if backwards else whole
        found: Array = np.logical_or.accumulate(whole, axis=axis)
        return np.flip(found, axis) if backwards else found

    def mark(made: Tile, tiles: list[Tile]) -> None:
        (tile,) = tiles
        own = None
        if combined and tile.left_out is not None:
            # A lane that was left out holds what the lanes before it do, which then counts twice.
            own = full(tile.left_out, shape) & (made.data != 0)
        _settle(made, either(so_far(tile.counted), own), so_far(tile.left_out), None)

    return _on_marked(operation, mark)


def _is_combined(plan: Plan, value: Value) -> bool:
    """Whether lanes of what is made of a value may come together: in a sum, a loop, a called function."""
    made = {value}
    for operation in plan.module.operations():
        if made.isdisjoint(operation.operands):
            continue
        if (
            operation.regions
            or not (operation.results or operation.name in STORES)
            or operation.name in _TOGETHER
        ):
            return True
        made.update(operation.results)
    return False


def _product(plan: Plan, operation: Operation) -> Step:
    left, right = operation.operands[:2]
    shapes = shape_of(left.type), shape_of(right.type)
    start = operation.operands[2].owner
    carried = isinstance(start, Block) or (start is not None and start.name == "tt.dot")

    def mark(made: Tile, tiles: list[Tile]) -> None:
        *factors, added = tiles[:3]
        numbers = _pairs(factors, shapes, lambda tile: None)
        counted = numbers > _pairs(factors, shapes, lambda tile: tile.undefined)
        left_out = (
            None if tile.left_out is None else any_along(tile.left_out, shape, axis, keepdims=True)
            for tile, shape, axis in zip(factors, shapes, (-1, -2), strict=True)
        )
        own = None if carried else _both(added.left_out, made.data != 0)
        _settle(
            made,
            either(counted if counted.any() else None, added.counted, own),
            either(*left_out, added.left_out),
            _both(numbers == 0, added.zero),
        )

    return _on_marked(operation, mark)


def _pairs(
    factors: list[Tile], shapes: tuple[tuple[int, ...], ...], without: Callable[[Tile], Bools | None]
) -> Array:
    """How many of the products that each element adds are no zeros for sure, of factors not left aside."""
    zero, number, odd = [], [], []
    for tile, shape in zip(factors, shapes, strict=True):
        aside, zeros, finite = without(tile), tile.zero, np.isfinite(tile.data)
        here = np.ones((1,) * (len(shape) + 1), dtype=np.bool_) if aside is None else ~aside
        zero.append(here & (False if zeros is None else zeros))
        number.append(here & (True if zeros is None else ~zeros))
        odd.append(here & ~finite)

    def count(x: Bools, y: Bools) -> Array:
        found: Array = full(x, shapes[0]).astype(np.float32) @ full(y, shapes[1]).astype(np.float32)
        return found

    total = count(number[0], number[1])
    if odd[0].any() or odd[1].any():
        total = total + count(zero[0], odd[1]) + count(odd[0], zero[1])
    return total


for _name in ELEMENTWISE:
    STEPS[_name] = _following(STEPS[_name], _elementwise)
STEPS["tt.reduce"] = _following(STEPS["tt.reduce"], _reduction)
STEPS["tt.scan"] = _following(STEPS["tt.scan"], _scan)
STEPS["tt.dot"] = _following(STEPS["tt.dot"], _product)
