"""Which arguments a pointer may come from: enough to know what a launch may write."""

from __future__ import annotations

from functools import lru_cache

from kerncap.sanitizer.launch import DescriptorArgument, Launch, TensorArgument
from kerncap.sanitizer.ttir.ir import (
    DescriptorType,
    Function,
    IntType,
    Module,
    Operation,
    PointerType,
    TensorType,
    Type,
    Value,
    walk,
)

# Operand that is written through; every other operation with a pointer only reads or computes.
WRITERS = frozenset(
    (
        "tt.store",
        "tt.atomic_rmw",
        "tt.atomic_cas",
        "tt.atomic_store",
        "tt.descriptor_store",
        "tt.descriptor_reduce",
    )
    + ("tt.descriptor_scatter",)
)

Origins = frozenset[int | None]  # indices of arguments; None: an address from elsewhere
_ELSEWHERE: Origins = frozenset((None,))


def written_storages(module: Module, function: Function, launch: Launch) -> frozenset[int] | None:
    """Storages that some operation of the launch may write; None if it may be any."""
    found: set[int] = set()
    for index in _written_arguments(module, function):
        argument = None if index is None else launch.arguments[index]
        if isinstance(argument, DescriptorArgument):
            argument = argument.tensor
        if not isinstance(argument, TensorArgument):
            return None
        found.add(argument.storage)
    return frozenset(found)


@lru_cache(maxsize=64)
def _written_arguments(module: Module, function: Function) -> Origins:
    origins = pointer_origins(module, function)
    found: Origins = frozenset()
    for operation in module.operations():
        if operation.name in WRITERS:
            found |= origins.get(operation.operands[0], _ELSEWHERE)
    return found


@lru_cache(maxsize=64)
def pointer_origins(module: Module, function: Function) -> dict[Value, Origins]:
    """For each value that is or holds a pointer, the arguments of ``function`` it may come from.

    An integer has origins too if a pointer was made one: `tl.where` chooses between pointers like this.
    """
    origins: dict[Value, Origins] = {
        argument: frozenset((index,))
        for index, argument in enumerate(function.arguments)
        if _holds_pointer(argument.type)
    }
    operations = [*module.operations()]
    changed = True
    while changed:
        changed = False
        for operation in operations:
            for source, result in _flows(module, operation):
                before = origins.get(result, frozenset())
                if not _holds_address(result.type):
                    continue
                after = before | (_ELSEWHERE if source is None else origins.get(source, frozenset()))
                if after != before:
                    origins[result] = after
                    changed = True
    return origins


def _flows(module: Module, operation: Operation) -> list[tuple[Value | None, Value]]:
    """(from, to) for each way that a pointer takes through an operation; None: from elsewhere."""
    name, results = operation.name, operation.results
    if name.startswith(
        ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "tt.atomic", "ttg.async_copy")
    ):
        return [(None, result) for result in results]
    if name == "tt.addptr":
        return [(operation.operands[0], results[0])]  # a distance is no address
    flows: list[tuple[Value | None, Value]] = []
    if name == "scf.for":
        body = operation.regions[0].entry
        inits, arguments = operation.operands[3:], body.arguments[1:]
        yields = body.operations[-1].operands
        for init, argument, out, result in zip(inits, arguments, yields, results, strict=True):
            flows += [(init, argument), (out, argument), (init, result), (out, result)]
        return flows
    if name == "scf.while":
        before, after = (region.entry for region in operation.regions)
        flows += zip(operation.operands, before.arguments, strict=True)
        flows += zip(after.operations[-1].operands, before.arguments, strict=True)
        forwarded = before.operations[-1].operands[1:]
        flows += zip(forwarded, after.arguments, strict=True)
        flows += zip(forwarded, results, strict=True)
        return flows
    if name == "scf.if":
        for region in operation.regions:
            if region.blocks:
                flows += zip(region.entry.operations[-1].operands, results, strict=False)
        return flows
    if name == "tt.call":
        callee = module.functions.get(str(operation.attributes["callee"]).lstrip("@"))
        if callee is None or callee.body is None:
            return [(None, result) for result in results]
        flows += zip(operation.operands, callee.arguments, strict=True)
        for inner in walk(callee.body):
            if inner.name == "tt.return":
                flows += zip(inner.operands, results, strict=False)
        return flows
    for block, values in operation.successors:
        flows += zip(values, block.arguments, strict=True)
    flows += [(operand, result) for operand in operation.operands for result in results]
    return flows


def _holds_address(kind: Type) -> bool:
    """A pointer, or an integer that is wide enough to be one."""
    element = kind.element if isinstance(kind, TensorType) else kind
    return _holds_pointer(kind) or (isinstance(element, IntType) and element.width == 64)


def _holds_pointer(kind: Type) -> bool:
    element = kind.element if isinstance(kind, TensorType) else kind
    return isinstance(element, PointerType | DescriptorType)
