"""Reductions, scans, dots: what is known of a value that many lanes went into."""

from __future__ import annotations

from kerncap.sanitizer.symbolic.expr import FALSE, Expr, Variable, const, interval, lor, unknown, var
from kerncap.sanitizer.ttir.ir import Block, IntType, Operation, Value
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
    undefined = _kept_simple(
        walker,
        operation,
        shape_of(operation.results[0].type),
        [_any_along(o, axis, extent) for o in operands],
    )
    for position, result in enumerate(operation.results):
        low, high = _range_of_result(combiner, position, operands[position], extent)
        shape = shape_of(result.type)
        value = _of_free_variables(walker, operation, position, operands, axis, shape, low, high)
        walker.environment[result] = Tile(shape, value, undefined)


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


# Where lanes are undefined is a small formula in practice; networks of exchanges (a sort) make it explode.
_MAX_NODES = 150


def _kept_simple(walker: Walker, operation: Operation, shape: tuple[int, ...], marks: list[Expr]) -> Expr:
    """Any of the marks; a mark of its own, of which nothing is known, where they have grown too large."""
    if all(_is_small(mark) for mark in marks):
        return lor(*marks)
    key = ("undefined", operation.order, walker.instance)
    reason = f"which lanes are undefined{describe(operation.location)} is too long a formula"
    return unknown(reason, key, walker.context_arguments(shape), sort="bool")


def _is_small(e: Expr) -> bool:
    pending, seen = [e], {e}
    while pending:
        for argument in pending.pop().args:
            if argument not in seen:
                seen.add(argument)
                pending.append(argument)
        if len(seen) > _MAX_NODES:
            return False
    return True


def _scan(walker: Walker, operation: Operation) -> None:
    axis = int(operation.attributes["axis"])
    operands = [walker.tile(operand) for operand in operation.operands]
    extent = shape_of(operation.operands[0].type)[axis]
    combiner = operation.regions[0].entry
    undefined = _kept_simple(
        walker, operation, operands[0].shape, [_some_along(one, axis, extent) for one in operands]
    )
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
    lanes = lane_expressions(shape)
    marks = [operands[2].undefined] if len(operands) > 2 and operands[2].shape == shape else []
    rows, columns = operands[0], operands[1]
    if rows.undefined is not FALSE:
        some = Variable("inner lane", "free", 0, rows.shape[-1] - 1)
        marked = reindex(Tile(rows.shape, rows.undefined), shape, (*lanes[:-1], var(some)))
        marks.append(marked.expr if isinstance(marked, Tile) else FALSE)
    if columns.undefined is not FALSE:
        some = Variable("inner lane", "free", 0, columns.shape[-2] - 1)
        marked = reindex(Tile(columns.shape, columns.undefined), shape, (*lanes[:-2], var(some), lanes[-1]))
        marks.append(marked.expr if isinstance(marked, Tile) else FALSE)
    value = walker.fresh(operation, result, "a product of matrices")
    walker.environment[result] = Tile(shape, value.expr, lor(*marks))  # type: ignore[union-attr]


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
