"""Operations that move elements about: each result lane says which source lane it is."""

from __future__ import annotations

from math import prod

from kerncap.sanitizer.symbolic.expr import Expr, const, eq, ite, unknown, var
from kerncap.sanitizer.ttir.any_order import is_in_any_order
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.values import Tile, choose, lane_expressions, lane_variable, reindex, reshaped
from kerncap.sanitizer.walk.walker import Handler, Walker, shape_of, with_undefined


def _program_id(walker: Walker, operation: Operation) -> None:
    program = walker.programs[operation.attributes["axis"]]
    walker.define(operation, Tile((), var(program) if program.low != program.high else const(program.low)))


def _program_count(walker: Walker, operation: Operation) -> None:
    walker.define(operation, Tile((), walker.symbols.grid[operation.attributes["axis"]]))


def _range(walker: Walker, operation: Operation) -> None:
    start, end = int(operation.attributes["start"]), int(operation.attributes["end"])
    if end - start == 1:
        return walker.define(operation, Tile((1,), const(start)))
    lane = var(lane_variable(0, end - start))
    walker.define(operation, Tile((end - start,), lane + start))


def _splat(walker: Walker, operation: Operation) -> None:
    shape = shape_of(operation.results[0].type)
    walker.define(operation, reshaped(walker[operation.operands[0]], shape))


def _unsplat(walker: Walker, operation: Operation) -> None:
    source = walker[operation.operands[0]]
    shape = shape_of(operation.operands[0].type)
    walker.define(operation, reindex(source, (), tuple(const(0) for _ in shape)))


def _expand_dims(walker: Walker, operation: Operation) -> None:
    axis = int(operation.attributes["axis"])
    shape = shape_of(operation.results[0].type)
    lanes = lane_expressions(shape)
    walker.define(operation, reindex(walker[operation.operands[0]], shape, lanes[:axis] + lanes[axis + 1 :]))


def _broadcast(walker: Walker, operation: Operation) -> None:
    source = walker[operation.operands[0]]
    shape = shape_of(operation.results[0].type)
    lanes = lane_expressions(shape)
    old = shape_of(operation.operands[0].type)
    indices = tuple(const(0) if extent == 1 else lane for extent, lane in zip(old, lanes, strict=True))
    walker.define(operation, reindex(source, shape, indices))


def _transpose(walker: Walker, operation: Operation) -> None:
    order = tuple(int(axis) for axis in operation.attributes["order"])
    shape = shape_of(operation.results[0].type)
    lanes = lane_expressions(shape)
    indices = [const(0)] * len(order)
    for new_axis, old_axis in enumerate(order):
        indices[old_axis] = lanes[new_axis]
    walker.define(operation, reindex(walker[operation.operands[0]], shape, tuple(indices)))


def _reshape(walker: Walker, operation: Operation) -> None:
    old, new = shape_of(operation.operands[0].type), shape_of(operation.results[0].type)
    indices = _any_of(walker, operation, old) if is_in_any_order(operation) else reshaped_indices(old, new)
    walker.define(operation, reindex(walker[operation.operands[0]], new, indices))


def _any_of(walker: Walker, operation: Operation, shape: tuple[int, ...]) -> tuple[Expr, ...]:
    """For each lane of the result an element of a tile, in an order that only the compiler knows."""
    reason = f"the order of the elements of {operation.name}, which the compiler chooses"
    arguments = walker.context_arguments(shape_of(operation.results[0].type))
    key = ("order", operation.order, walker.instance)
    return tuple(
        unknown(reason, (*key, axis), arguments, 0, extent - 1) if extent != 1 else const(0)
        for axis, extent in enumerate(shape)
    )


def reshaped_indices(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[Expr, ...]:
    """Where each element of a tile of shape ``new`` lies in one of shape ``old``, both row by row.

    Axes are matched in groups of equal size, so that an axis that is only inserted or moved past
    one of extent 1 keeps its variable.
    """
    lanes = lane_expressions(new)
    indices: list[Expr] = []
    i = j = 0
    while i < len(old):
        i_end, j_end = i + 1, j
        size_old, size_new = old[i], 1
        while size_new != size_old or (j_end < len(new) and size_new == size_old == 1 and j_end == j):
            if size_new < size_old or j_end == j:
                size_new *= new[j_end]
                j_end += 1
            else:
                size_old *= old[i_end]
                i_end += 1
        position: Expr = const(0)
        for axis in range(j, j_end):
            position = position * new[axis] + lanes[axis]
        rest = size_old
        for axis in range(i, i_end):
            rest //= old[axis]
            index = position // rest if rest != 1 else position
            # The first index of a group needs no remainder: the group has no more elements than that.
            indices.append(index if axis == i else index % old[axis])
        i, j = i_end, j_end
    return tuple(indices)


def _join(walker: Walker, operation: Operation) -> None:
    first, second = (walker[operand] for operand in operation.operands)
    shape = shape_of(operation.results[0].type)
    lanes = lane_expressions(shape)
    sides = [reindex(side, shape, lanes[:-1]) for side in (first, second)]
    walker.define(operation, choose(eq(lanes[-1], 0), *sides))


def _split(walker: Walker, operation: Operation) -> None:
    source = walker[operation.operands[0]]
    shape = shape_of(operation.results[0].type)
    lanes = lane_expressions(shape)
    walker.define(operation, *(reindex(source, shape, (*lanes, const(side))) for side in (0, 1)))


def _concatenate(walker: Walker, operation: Operation) -> None:
    """Along the first axis. Triton may permute the elements."""
    first, second = (walker[operand] for operand in operation.operands)
    shape = shape_of(operation.results[0].type)
    lanes = _any_of(walker, operation, shape) if is_in_any_order(operation) else lane_expressions(shape)
    half = shape_of(operation.operands[0].type)[0]
    left = reindex(first, shape, (ite(lanes[0] < half, lanes[0], const(0)), *lanes[1:]))
    right_index = ite(lanes[0] < half, const(0), lanes[0] - half)
    right = reindex(second, shape, (right_index, *lanes[1:]))
    walker.define(operation, choose(lanes[0] < half, left, right))


def _gather(walker: Walker, operation: Operation) -> None:
    """``tl.gather``: within a tile. An index outside of the tile is not followed."""
    source, index = walker[operation.operands[0]], walker.tile(operation.operands[1])
    axis = int(operation.attributes["axis"])
    shape = shape_of(operation.results[0].type)
    extent = shape_of(operation.operands[0].type)[axis]
    low, high = walker.solver.bounds(index.expr)
    if low is None or high is None or low < 0 or high >= extent or isinstance(source, Tile) is False:
        result = operation.results[0]
        reason = "an index of tl.gather that may be outside its tile"
        undefined = walker.undefined_of(source, index)
        return walker.define(operation, walker.fresh(operation, result, reason, undefined=undefined))
    lanes = list(lane_expressions(shape))
    lanes[axis] = index.expr
    found = reindex(source, shape, tuple(lanes))
    walker.define(operation, with_undefined(found, found.undefined | index.undefined))


def _same(walker: Walker, operation: Operation) -> None:
    """Another layout, which is about registers: the elements stay."""
    walker.define(operation, walker[operation.operands[0]])


def _histogram(walker: Walker, operation: Operation) -> None:
    result = operation.results[0]
    elements = prod(shape_of(operation.operands[0].type))
    counted, *masks = (walker[operand] for operand in operation.operands)
    undefined = counted.undefined
    for mask in masks:
        assert isinstance(mask, Tile)
        undefined = (undefined & mask.expr) | mask.undefined
    value = walker.fresh(operation, result, "a histogram of data", 0, elements, undefined)
    walker.define(operation, value)


OPERATIONS: dict[str, Handler] = {
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _program_count,
    "tt.make_range": _range,
    "tt.splat": _splat,
    "ttg.convert_layout": _same,
    "tt.unsplat": _unsplat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.trans": _transpose,
    "tt.reshape": _reshape,
    "tt.join": _join,
    "tt.split": _split,
    "tt.cat": _concatenate,
    "tt.gather": _gather,
    "tt.histogram": _histogram,
}
