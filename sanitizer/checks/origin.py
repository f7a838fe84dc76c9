"""Where a value comes from in the TTIR: what a message needs to name the load or the descriptor behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kerncap.sanitizer.ttir.ir import Block, Function, Operation, Region, Value, walk

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


def loads_without_other(value: Value) -> list[Operation]:
    """Masked loads without ``other`` behind ``value``, nearest first: what leaves lanes of it undefined."""
    return [
        operation
        for operation in operations_behind(value)
        if operation.name == "tt.load"
        and operation.segment("mask") is not None
        and operation.segment("other") is None
    ]


def undefined_text(operation: Operation) -> str:
    """That what a store or atomic takes is undefined, and which load left it so where the TTIR shows one."""
    segments = operation.attributes.get("operand_segments", {})
    position = segments.get("value")
    values = operation.operands[1:] if position is None else (operation.operands[position],)
    return f"the value is undefined in {_lanes_of(values)}"


def steered_text(operation: Operation) -> str:
    """The same of an access's address or mask."""
    return f"address or mask depend on {_lanes_of(operation.operands)}"


def _lanes_of(values: Iterable[Value]) -> str:
    loads = {load: None for value in values for load in loads_without_other(value)}
    if len(loads) != 1:
        return "lanes that a masked load without `other` leaves out"
    load = next(iter(loads))
    frames = load.location.frames
    where = f" at line {frames[0].line}" if frames and frames[0].line else ""
    name = f" of {load.results[0].source_name}" if load.results and load.results[0].location.name else ""
    return f"lanes that the masked load{name}{where} leaves out, having no `other`"


def fresh_text(kind: str) -> str:
    verb = "combines with" if kind == "atomic" else "reads"
    return f"{verb} memory that nobody has written since it was allocated"


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
