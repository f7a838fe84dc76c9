"""Reductions, scans, dots: what is known of a value that many lanes went into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kerncap.sanitizer.symbolic.expr import (
    FALSE,
    TRUE,
    Expr,
    Variable,
    const,
    interval,
    ite,
    land,
    lnot,
    lor,
    unknown,
    var,
)
from kerncap.sanitizer.ttir.ir import Block, IntType, Operation, Value
from kerncap.sanitizer.walk import left_out
from kerncap.sanitizer.walk.arith import zero
from kerncap.sanitizer.walk.values import Tile, lane_expressions, lane_variable, reindex
from kerncap.sanitizer.walk.walker import Handler, Walker, describe, element_of, range_of, shape_of, width_of

_PICKS = frozenset(
    ("arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "arith.select", "arith.maxnumf")
    + ("arith.minnumf", "arith.maximumf", "arith.minimumf")
)


def _reduce(walker: Walker, operation: Operation) -> None:
    axis = int(operation.attributes["axis"])
    operands = [walker.tile(operand) for operand in operation.operands]
    extent = shape_of(operation.operands[0].type)[axis]
    combiner = operation.regions[0].entry
    lane = lane_variable(axis, extent) if extent != 1 else None
    undefined = _kept_simple(
        walker,
        operation,
        shape_of(operation.results[0].type),
        operands,
        lambda operand: _any_along(_combined(walker, operand, combiner, lane), axis, extent),
    )
    for position, result in enumerate(operation.results):
        low, high = _range_of_result(combiner, position, operands[position], extent)
        shape = shape_of(result.type)
        value = _of_free_variables(walker, operation, position, operands, axis, shape, low, high)
        if left_out.is_marked(operands[position].undefined) and left_out.is_sum(combiner):
            nothing = _zero_all_along(walker, operands[position], axis, shape, lane)
            value = ite(nothing, zero(element_of(result.type)), value)
        walker.environment[result] = Tile(shape, value, undefined)


def _combined(walker: Walker, operand: Tile, combiner: Block, lane: Variable | None) -> Tile:
    """An operand of a reduction or scan whose left-out lanes matter where they add something."""
    if not left_out.is_marked(operand.undefined):
        return operand
    nothing = left_out.adds_nothing(combiner, operand.expr, lane)
    whole = left_out.all_left_out(operand.undefined, lane)
    among_others = left_out.in_lane(operand.undefined) & ~whole
    matters = _possible(walker, among_others & ~nothing)
    return replace(operand, undefined=left_out.combined(operand.undefined, lane) | matters)


def _possible(walker: Walker, condition: Expr) -> Expr:
    """FALSE for a condition that is soon seen to hold nowhere: what is made of it stays short.

    The others need no answer here: a check asks about what is made of them, if anything reads it.
    """
    if left_out.is_small(condition) and walker.solver.refuted(walker.path, condition):
        return FALSE
    return walker.path & condition


def _zero_all_along(
    walker: Walker, operand: Tile, axis: int, shape: tuple[int, ...], lane: Variable | None
) -> Expr:
    """Where a sum is one of zeros alone, as far as the operand's form shows."""
    zeros = left_out.all_along(left_out.holds(operand.expr, 0, lane), lane, walker.solver, walker.path)
    lanes = lane_expressions(shape)
    moved = reindex(Tile(operand.shape, zeros), shape, (*lanes[:axis], const(0), *lanes[axis:]))
    assert isinstance(moved, Tile)
    return moved.expr


def _of_free_variables(
    walker: Walker,
    operation: Operation,
    position: int,
    operands: list[Tile],
    axis: int,
    shape: tuple[int, ...],
    low: int | None,
    high: int | None,
) -> Expr:
    """The result: a function of whatever the operands depend on but the reduced lane."""
    source_shape = operands[0].shape
    lanes = lane_expressions(shape)
    kept = [*lanes[:axis], None, *lanes[axis:]]
    reduced = lane_variable(axis, source_shape[axis]) if source_shape[axis] != 1 else None
    own = {lane_variable(a, n): kept[a] for a, n in enumerate(source_shape) if n != 1}
    free: list[Expr] = []
    seen = set()
    for variable in sorted(
        {v for one in operands for v in one.expr.variables if v is not reduced}, key=lambda v: v.name
    ):
        replacement = own.get(variable)
        if replacement is None:
            replacement = var(variable)
        if replacement not in seen:
            seen.add(replacement)
            free.append(replacement)
    element = element_of(operation.results[position].type)
    reason = f"a reduction ({operation.name}) of data"
    # Unknown contents of the same place are the same in every program: the key tells what was reduced.
    key = (operation.name, operation.order, position, walker.instance)
    if isinstance(element, IntType) and element.width == 1:
        return unknown(reason, key, tuple(free), sort="bool")
    if isinstance(element, IntType):
        floor, ceiling = range_of(element.width)
        low = floor if low is None else max(low, floor)
        high = ceiling if high is None else min(high, ceiling)
        if low == high:
            return const(low)
        return unknown(reason, key, tuple(free), low, high)
    return unknown(reason, key, tuple(free))


def _range_of_result(
    combiner: Block, position: int, operand: Tile, extent: int
) -> tuple[int | None, int | None]:
    """Bounds of one result from those of its operand and the shape of the combiner."""
    if operand.expr.sort != "int":
        return None, None
    low, high = interval(operand.expr)
    terminator = combiner.operations[-1]
    arguments = combiner.arguments
    count = len(arguments) // 2
    own = {arguments[position], arguments[position + count]}
    if _only_picks(terminator.operands[position], own):
        return low, high
    if _is_sum(terminator.operands[position], own) and low is not None and high is not None:
        low, high = extent * low, extent * high
        floor, ceiling = range_of(width_of(terminator.operands[position].type))
        return (low, high) if floor <= low and high <= ceiling else (None, None)
    return None, None


def _only_picks(value: Value, own: set[Value]) -> bool:
    """Whether the value is always one of ``own``."""
    pending, seen = [value], set()
    while pending:
        one = pending.pop()
        if one in own or one in seen:
            continue
        seen.add(one)
        owner = one.owner
        if not isinstance(owner, Operation) or owner.name not in _PICKS:
            return False
        pending.extend(owner.operands[1:] if owner.name == "arith.select" else owner.operands)
    return True


def _is_sum(value: Value, own: set[Value]) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and owner.name == "arith.addi" and set(owner.operands) == own


def _any_along(tile: Tile, axis: int, extent: int) -> Expr:
    """Where some lane along the axis is undefined: the lane becomes a variable of its own."""
    if tile.undefined is FALSE:
        return FALSE
    shape = tile.shape[:axis] + tile.shape[axis + 1 :]
    lanes = lane_expressions(shape)
    some = Variable("reduced lane", "free", 0, extent - 1)
    indices = (*lanes[:axis], var(some), *lanes[axis:])
    marked = reindex(Tile(tile.shape, tile.undefined), shape, indices)
    assert isinstance(marked, Tile)
    return marked.expr


def _kept_simple(
    walker: Walker,
    operation: Operation,
    shape: tuple[int, ...],
    operands: list[Tile],
    mark_of: Callable[[Tile], Expr],
) -> Expr:
    """Any of the operands' marks; one of which nothing is known, if they are or become too large."""
    marks: list[Expr] = []
    if all(left_out.is_small(operand.undefined) for operand in operands):
        marks = list(map(mark_of, operands))
        if all(map(left_out.is_small, marks)):
            return lor(*marks)
    key = ("undefined", operation.order, walker.instance)
    reason = f"which lanes are undefined{describe(operation.location)} is too long a formula"
    result = unknown(reason, key, walker.context_arguments(shape), sort="bool")
    return left_out.kept_unknown(marks, result) if marks else result


def _scan(walker: Walker, operation: Operation) -> None:
    axis = int(operation.attributes["axis"])
    operands = [walker.tile(operand) for operand in operation.operands]
    extent = shape_of(operation.operands[0].type)[axis]
    combiner = operation.regions[0].entry
    lane = lane_variable(axis, extent) if extent != 1 else None
    undefined = _kept_simple(
        walker,
        operation,
        operands[0].shape,
        operands,
        lambda operand: _some_along(_combined(walker, operand, combiner, lane), axis, extent),
    )
    # A lane that was left out holds no data, whatever the lanes before it add up to.
    own = (one.undefined for one in operands if left_out.is_marked(one.undefined))
    undefined = lor(undefined, *own)
    for position, result in enumerate(operation.results):
        low, high = _range_of_result(combiner, position, operands[position], extent)
        if low is not None and high is not None and operands[position].expr.sort == "int":
            own_low, own_high = interval(operands[position].expr)
            low = min(low, low if own_low is None else own_low)
            high = max(high, high if own_high is None else own_high)
        reason = "a scan of data"
        value = walker.fresh(operation, result, reason, low, high, undefined)
        walker.environment[result] = value


def _some_along(tile: Tile, axis: int, extent: int) -> Expr:
    """Like `_any_along`, for a result that keeps the axis."""
    if tile.undefined is FALSE:
        return FALSE
    some = Variable("scanned lane", "free", 0, extent - 1)
    indices = list(lane_expressions(tile.shape))
    indices[axis] = var(some)
    marked = reindex(Tile(tile.shape, tile.undefined), tile.shape, tuple(indices))
    assert isinstance(marked, Tile)
    return marked.expr


def _dot(walker: Walker, operation: Operation) -> None:
    result = operation.results[0]
    operands = [walker.tile(operand) for operand in operation.operands]
    shape = shape_of(result.type)
    added = operands[2] if len(operands) > 2 and operands[2].shape == shape else None
    lanes = lane_expressions(shape)
    extent = operands[0].shape[-1]
    inner = var(Variable("inner lane", "free", 0, extent - 1)) if extent != 1 else const(0)
    rows = _Factor(operands[0], -1, (*lanes[:-1], inner), shape)
    columns = _Factor(operands[1], -2, (*lanes[:-2], inner, lanes[-1]), shape)
    marks = [FALSE if added is None else added.undefined]
    marks += [one.placed(left_out.combined(one.tile.undefined, one.lane)) for one in (rows, columns)]
    value = walker.fresh(operation, result, "a product of matrices")
    assert isinstance(value, Tile)
    expression = value.expr
    if any(left_out.is_marked(one.tile.undefined) for one in (rows, columns)):
        left = lor(*(one.placed(left_out.in_lane(one.tile.undefined)) for one in (rows, columns)))
        no_part = (rows.zero & ~columns.from_memory) | (columns.zero & ~rows.from_memory)
        # A row or column that was left out whole is one in the product, whatever it is multiplied by.
        whole = (one.placed(left_out.all_left_out(one.tile.undefined, one.lane)) for one in (rows, columns))
        marks.append(_possible(walker, land(left, ~no_part, *map(lnot, whole))))
        if added is not None and left_out.holds(added.expr, 0) is TRUE:
            nothing = rows.zero_all_along(walker) | columns.zero_all_along(walker)
            expression = ite(nothing, added.expr, expression)
    walker.environment[result] = Tile(shape, expression, lor(*marks))


class _Factor:
    """One factor of a product of matrices, with its lanes where the product has them."""

    def __init__(self, tile: Tile, axis: int, indices: tuple[Expr, ...], shape: tuple[int, ...]) -> None:
        position = len(tile.shape) + axis
        extent = tile.shape[position]
        self.tile = tile
        self.lane = lane_variable(position, extent) if extent != 1 else None
        self._indices, self._shape = indices, shape

    def placed(self, condition: Expr) -> Expr:
        """A condition on the factor's lanes as one on the product's and the inner lane."""
        if condition is FALSE or condition is TRUE:
            return condition
        moved = reindex(Tile(self.tile.shape, condition), self._shape, self._indices)
        assert isinstance(moved, Tile)
        return moved.expr

    @property
    def zero(self) -> Expr:
        return self.placed(left_out.holds(self.tile.expr, 0, self.lane))

    @property
    def from_memory(self) -> Expr:
        return self.placed(left_out.from_memory(self.tile.expr, self.lane))

    def zero_all_along(self, walker: Walker) -> Expr:
        zero = left_out.holds(self.tile.expr, 0, self.lane)
        return self.placed(left_out.all_along(zero, self.lane, walker.solver, walker.path))


def _inline_assembly(walker: Walker, operation: Operation) -> None:
    undefined = walker.undefined_of(*(walker[operand] for operand in operation.operands))
    for result in operation.results:
        walker.environment[result] = walker.fresh(operation, result, "inline assembly", undefined=undefined)


OPERATIONS: dict[str, Handler] = {
    "tt.reduce": _reduce,
    "tt.scan": _scan,
    "tt.dot": _dot,
    "tt.dot_scaled": _inline_assembly,
    "tt.elementwise_inline_asm": _inline_assembly,
    "tt.map_elementwise": _inline_assembly,
}
