"""Where a value comes from in the TTIR: what a message needs to name the load or the descriptor behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kerncap.sanitizer.checks.spin_loops import constant_of
from kerncap.sanitizer.ttir.ir import (
    DIVISIONS,
    MEMORY,
    SHIFTS,
    Block,
    Function,
    IntType,
    Operation,
    Region,
    TensorType,
    Value,
    walk,
)

TERMINATORS = frozenset({"scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return"})


def operations_behind(value: Value) -> Iterator[Operation]:
    """Every operation that ``value`` may depend on by data, nearest first, each once.

    Loop-carried values and the results of regions are followed through their initial and their yielded
    values. What only decides whether an operation runs is not followed.
    """
    waiting = [value]
    seen_values: set[Value] = set()
    seen_operations: set[Operation] = set()
    while waiting:
        current = waiting.pop(0)
        if current in seen_values:
            continue
        seen_values.add(current)
        if isinstance(current.owner, Block):
            waiting.extend(_block_argument_sources(current))
            continue
        operation = current.owner
        if operation is None:
            continue
        if operation not in seen_operations:
            seen_operations.add(operation)
            yield operation
        waiting.extend(operation.operands)
        for region in operation.regions:
            waiting.extend(operand for end in _terminators(region) for operand in end.operands)


def undefined_text(operation: Operation) -> str:
    """That what a store or atomic takes is undefined, and the operation that left it so, if it is one."""
    segments = operation.attributes.get("operand_segments", {})
    position = segments.get("value")
    values = operation.operands[1:] if position is None else (operation.operands[position],)
    return f"the value {_cause(values, 'is undefined in', 'comes from')}"


def steered_text(operation: Operation) -> str:
    """The same of an access's address or mask."""
    return f"address or mask {_cause(operation.operands, 'depend on', 'depend on')}"


def by_habit_text(operation: Operation) -> str:
    """That a store, an address or a mask is right by what left-out lanes hold, and the load that has them."""
    loads = _left_out_behind(operation)
    where = f" ({_load(loads[0])})" if len(loads) == 1 else ""
    return f"right only as this target puts zeros into lanes that a load leaves out{where}"


def rests_on_left_out(operation: Operation) -> bool:
    """Whether a load that leaves lanes out is behind what the operation takes."""
    return bool(_left_out_behind(operation))


def _left_out_behind(operation: Operation) -> list[Operation]:
    behind = dict.fromkeys(one for value in operation.operands for one in operations_behind(value))
    return [one for one in behind if _leaves_lanes_undefined(one)]


def _cause(values: Iterable[Value], of_lanes: str, of_result: str) -> str:
    behind = list(dict.fromkeys(one for value in values for one in operations_behind(value)))
    loads = [one for one in behind if _leaves_lanes_undefined(one)]
    results = [one for one in behind if _may_have_no_value(one)]
    if loads:  # a divisor that is no data is the less likely cause
        results = [one for one in results if _is_data(one.operands[1])]
    if len(results) == 1 and not loads:
        return f"{of_result} {_without_value(results[0])}"
    if results:
        lanes = "lanes that a masked load without `other` leaves out, or " if loads else ""
        return f"{of_result} {lanes}a division by zero or a shift too far"
    if len(loads) != 1:
        return f"{of_lanes} lanes that a masked load without `other` leaves out"
    return f"{of_lanes} lanes that {_load(loads[0])} leaves out, having no `other`"


def _load(operation: Operation) -> str:
    named = operation.results and operation.results[0].location.name
    name = f" of {operation.results[0].source_name}" if named else ""
    kind = "load by block pointer" if operation.attributes.get("boundaryCheck") else "masked load"
    return f"the {kind}{name}{_line(operation)}"


def _leaves_lanes_undefined(operation: Operation) -> bool:
    if operation.name != "tt.load":
        return False
    if operation.attributes.get("boundaryCheck"):
        return operation.attributes.get("padding") is None
    return operation.segment("mask") is not None and operation.segment("other") is None


def _may_have_no_value(operation: Operation) -> bool:
    """A division or a shift by what is no constant, or by a constant that is wrong."""
    if operation.name not in DIVISIONS | SHIFTS:
        return False
    by, kind = constant_of(operation.operands[1]), operation.results[0].type
    element = kind.element if isinstance(kind, TensorType) else kind
    if by is None or not isinstance(element, IntType):
        return True
    if operation.name in DIVISIONS:
        return by == 0 or by == -1 and not operation.name.endswith("ui")
    return not 0 <= by < element.width


def _is_data(value: Value) -> bool:
    return any(one.name in MEMORY for one in operations_behind(value))


def _without_value(operation: Operation) -> str:
    if operation.name not in DIVISIONS:
        return f"a shift by the width of its type or more{_line(operation)}"
    if constant_of(operation.operands[1]) == -1:
        return f"a division of the least number by -1{_line(operation)}"
    signed = " (or of the least number by -1)" if not operation.name.endswith("ui") else ""
    return f"a division by zero{_line(operation)}{signed}"


def _line(operation: Operation) -> str:
    frames = operation.location.frames
    return f" at line {frames[0].line}" if frames and frames[0].line else ""


def fresh_text(kind: str) -> str:
    verb = "combines with" if kind == "atomic" else "reads"
    return f"{verb} memory that is unwritten since it was allocated"


def reads_memory(operation: Operation, kind: str, function: Function) -> bool:
    """Loads, and atomics but for an exchange whose old value nobody looks at: that one only stores."""
    if kind != "atomic" or operation.attributes.get("rmw_op") not in ("exch", "xchg"):
        return kind != "store"
    return function.body is None or any(is_used(one, function.body) for one in operation.results)


def is_used(value: Value, body: Region) -> bool:
    """Whether any operation below ``body`` takes ``value``."""
    return any(
        value in operation.operands or any(value in values for _, values in operation.successors)
        for operation in walk(body)
    )


def _block_argument_sources(value: Value) -> Iterator[Value]:
    """What a block's argument may stand for: a loop's initial and yielded values, a branch's operands."""
    block = value.owner
    assert isinstance(block, Block)
    region = block.parent
    if region is None:
        return
    for other in region.blocks:
        for operation in other.operations:
            for target, values in operation.successors:
                if target is block and value.index < len(values):
                    yield values[value.index]
    parent = region.parent
    if isinstance(parent, Operation):
        # Which operand initialises which argument differs by operation; taking all of them only makes the
        # list of candidates longer.
        yield from parent.operands
        for end in _terminators(region):
            yield from end.operands


def _terminators(region: Region) -> Iterator[Operation]:
    for block in region.blocks:
        if block.operations and block.operations[-1].name in TERMINATORS:
            yield block.operations[-1]
