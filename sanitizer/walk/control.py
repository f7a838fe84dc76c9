"""Branches, early returns and calls: what may happen together, as path conditions."""

from __future__ import annotations

from collections.abc import Sequence

from kerncap.sanitizer.symbolic.expr import FALSE, Expr, lor
from kerncap.sanitizer.ttir.ir import Block, Operation, Region, Value
from kerncap.sanitizer.walk.values import SymbolicValue, choose
from kerncap.sanitizer.walk.walker import Handler, Unsupported, Walker, describe, with_undefined


def _if(walker: Walker, operation: Operation) -> None:
    condition = walker.tile(operation.operands[0])
    outer = walker.path
    live = walker.plan.live
    wanted = [index for index, result in enumerate(operation.results) if result in live]
    sides: list[list[SymbolicValue]] = []
    for position, holds in ((0, condition.expr), (1, ~condition.expr)):
        region = operation.regions[position] if position < len(operation.regions) else Region()
        steps, terminator = walker.body(region)
        path = outer & holds
        if path is FALSE:
            sides.append([])
            continue
        walker.path = path
        walker.run(steps)
        yielded = terminator.operands if terminator is not None else ()
        sides.append([walker[yielded[index]] for index in wanted] if yielded else [])
    walker.path = outer
    for position, index in enumerate(wanted):
        result = operation.results[index]
        then = sides[0][position] if sides[0] else None
        otherwise = sides[1][position] if sides[1] else None
        if then is None or otherwise is None:
            value = otherwise if then is None else then
        else:
            value = choose(condition.expr, then, otherwise)
        if value is None:
            value = walker.fresh(operation, result, "a branch that is never taken")
        walker.environment[result] = with_undefined(value, value.undefined | condition.undefined)


# --- a function's blocks ---------------------------------------------------------------------------------


def run_function(walker: Walker, region: Region) -> tuple[SymbolicValue, ...]:
    """Run a function's body from the path that holds; gives the values that it returns.

    Early returns split it into blocks without cycles. Raises Unsupported for one with a cycle.
    """
    outer = walker.path
    if len(region.blocks) == 1:
        steps, terminator = walker.body(region)
        walker.run(steps)
        return terminator_values(walker, terminator)
    arriving: dict[Block, list[tuple[Expr, tuple[SymbolicValue, ...]]]] = {}
    arriving[region.entry] = [(outer, ())]
    returned: list[tuple[Expr, tuple[SymbolicValue, ...]]] = []
    for block in _in_order(region):
        edges = [edge for edge in arriving.get(block, ()) if edge[0] is not FALSE]
        if not edges:
            continue
        walker.path = lor(*(path for path, _ in edges))
        # The function's own parameters are bound already.
        for index, argument in enumerate(() if block is region.entry else block.arguments):
            walker.environment[argument] = _merge([(path, values[index]) for path, values in edges])
        last = block.operations[-1] if block.operations else None
        if last is None or last.name not in ("cf.br", "cf.cond_br", "tt.return", "ub.unreachable"):
            raise Unsupported(f"a block that ends in {last.name if last else 'nothing'}")
        walker.run(walker.plan.steps(block))
        _leave(walker, last, arriving, returned)
    walker.path = outer
    if not returned or not returned[0][1]:
        return ()
    return tuple(
        _merge([(path, values[index]) for path, values in returned]) for index in range(len(returned[0][1]))
    )


def _leave(
    walker: Walker,
    last: Operation,
    arriving: dict[Block, list[tuple[Expr, tuple[SymbolicValue, ...]]]],
    returned: list[tuple[Expr, tuple[SymbolicValue, ...]]],
) -> None:
    if last.name == "tt.return":
        returned.append((walker.path, tuple(walker[v] for v in last.operands)))
        return
    holds: list[Expr] = [walker.path]
    if last.name == "cf.cond_br":
        condition = walker.tile(last.operands[0]).expr
        holds = [walker.path & condition, walker.path & ~condition]
    for path, (block, values) in zip(holds, last.successors, strict=True):
        arriving.setdefault(block, []).append((path, tuple(walker[v] for v in values)))


def _merge(edges: list[tuple[Expr, SymbolicValue]]) -> SymbolicValue:
    """A block's argument: what it is depends on where control came from."""
    value = edges[-1][1]
    for path, one in reversed(edges[:-1]):
        value = choose(path, one, value)
    return value


def _in_order(region: Region) -> list[Block]:
    """Blocks so that each comes after all that lead to it."""
    state: dict[Block, int] = {}
    order: list[Block] = []
    pending: list[tuple[Block, bool]] = [(region.entry, False)]
    while pending:
        block, left = pending.pop()
        if left:
            state[block] = 2
            order.append(block)
            continue
        if state.get(block) == 2:
            continue
        state[block] = 1
        pending.append((block, True))
        last = block.operations[-1] if block.operations else None
        for successor, _ in last.successors if last is not None else ():
            if state.get(successor) == 1:
                raise Unsupported("a function whose blocks form a cycle")
            if successor not in state:
                pending.append((successor, False))
    return order[::-1]


# --- calls -----------------------------------------------------------------------------------------------

MAX_CALL_DEPTH = 32


def _call(walker: Walker, operation: Operation) -> None:
    name = str(operation.attributes["callee"]).lstrip("@")
    callee = walker.module.functions.get(name)
    if callee is None or callee.body is None:
        return walker.unknown_operation(operation, f"calls {name}, which has no body")
    if len(walker.instance) >= MAX_CALL_DEPTH:
        raise Unsupported(f"calls nested deeper than {MAX_CALL_DEPTH}{describe(operation.location)}")
    arguments = [walker[operand] for operand in operation.operands]
    outer_environment, outer_instance = walker.environment, walker.instance
    walker.environment = dict(zip(callee.arguments, arguments, strict=True))
    walker.instance = (*outer_instance, operation.order)
    try:
        results = run_function(walker, callee.body)
    finally:
        walker.environment, walker.instance = outer_environment, outer_instance
    if len(results) != len(operation.results):
        return walker.unknown_operation(operation, "returns nothing that is known")
    walker.define(operation, *results)


def terminator_values(walker: Walker, terminator: Operation | None) -> tuple[SymbolicValue, ...]:
    return () if terminator is None else tuple(walker[v] for v in terminator.operands)


def bind_values(walker: Walker, names: Sequence[Value], values: Sequence[SymbolicValue]) -> None:
    for name, value in zip(names, values, strict=True):
        walker.environment[name] = value


OPERATIONS: dict[str, Handler] = {"scf.if": _if, "tt.call": _call}
