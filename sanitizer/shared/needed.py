"""Which operations of a kernel decide when and where shared memory is used; all others are passed by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kerncap.sanitizer.shared.views import memory_type
from kerncap.sanitizer.ttir.ir import Block, Function, IntType, Module, Operation, Region, Value, walk

FLOW = frozenset(("scf.for", "scf.if", "scf.while", "scf.execute_region", "ttg.warp_specialize", "tt.call"))
YIELDS = frozenset(("scf.yield", "scf.condition", "ttg.warp_yield", "ttg.warp_return", "tt.return"))
FENCES = frozenset(
    (
        "ttg.barrier",
        "gpu.barrier",
        "ttng.fence",
        "ttng.fence_mbarrier_init_release_cluster",
    )
)
# Of dialects that know shared memory, what touches none of it and orders nothing.
HARMLESS = frozenset(
    ("ttg.convert_layout", "ttg.warp_id", "ttg.global_scratch_alloc", "ttng.tensormap_create",
     "ttng.reinterpret_tensor_descriptor", "ttng.tensormap_fenceproxy_acquire", "ttg.fp4_to_fp",
     "ttng.clc_is_canceled", "ttng.clc_get_program_id")
)  # fmt: skip
_DIALECTS = ("ttg.", "ttng.", "amdg.", "amdgpu.", "nvg.", "nvgpu.", "tti.", "gpu.", "nvvm.")
_COORDINATES = frozenset(("ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather"))


def unmodelled(operation: Operation, modelled: Iterable[str]) -> bool:
    """Whether it may use shared memory, or order its uses, in a way that is not known here."""
    name = operation.name
    if name in modelled or name in FLOW or name in YIELDS or name in FENCES or name in HARMLESS:
        return False
    return name.startswith(_DIALECTS) or any(memory_type(one.type) for one in operation.operands)


@dataclass(frozen=True)
class Needed:
    """``values`` are computed; ``touching``: operations that use shared memory or contain one that does;
    ``products``: what may be the result of an asynchronous warp group product that is not over."""

    values: frozenset[Value]
    touching: frozenset[Operation]
    products: frozenset[Value]


def needed(module: Module, function: Function, modelled: frozenset[str]) -> Needed:
    assert function.body is not None
    operations = [
        one for each in module.functions.values() if each.body is not None for one in walk(each.body)
    ]
    touching: set[Operation] = set()
    callers = {one.attributes.get("callee") for one in operations if one.name == "tt.call"}
    for one in operations:
        if one.name in modelled or unmodelled(one, modelled) or one.name == "tt.call":
            touching.update(_around(one))
    sources = _sources(module, operations)
    roots = [value for one in touching for value in _roots(one, modelled)]
    if callers:
        roots += [value for one in operations if one.name == "tt.call" for value in one.operands]
    values: set[Value] = set()
    while roots:
        value = roots.pop()
        if value in values:
            continue
        values.add(value)
        roots += sources.get(value, ())
        owner = value.owner
        if isinstance(owner, Operation):
            if owner.name in ("scf.for", "scf.if", "scf.while"):
                roots += _control(owner)
            elif owner.name not in FLOW:
                roots += [one for one in owner.operands if _is_scalar_or_memory(one)]
    return Needed(frozenset(values), frozenset(touching), frozenset(_products(operations, sources)))


def _around(operation: Operation) -> Iterator[Operation]:
    at: Operation | None = operation
    while at is not None:
        yield at
        region: Region | None = at.parent.parent if at.parent is not None else None
        owner = region.parent if region is not None else None
        at = owner if isinstance(owner, Operation) else None


def _is_scalar_or_memory(value: Value) -> bool:
    return isinstance(value.type, IntType) or memory_type(value.type) is not None


def _roots(operation: Operation, modelled: frozenset[str]) -> list[Value]:
    if operation.name in FLOW:
        return _control(operation)
    if operation.name not in modelled:
        return [one for one in operation.operands if memory_type(one.type) is not None]
    found = [one for one in operation.operands if memory_type(one.type) is not None]
    if operation.name in _COORDINATES:
        return [*found, operation.operands[-1]]
    if operation.name.startswith(("ttng.async_tma_", "ttg.async_copy")):
        return found
    return [one for one in operation.operands if _is_scalar_or_memory(one)]


def _control(operation: Operation) -> list[Value]:
    """What decides how often the operation's regions run."""
    if operation.name == "scf.for":
        return list(operation.operands[:3])
    if operation.name == "scf.if":
        return list(operation.operands[:1])
    if operation.name == "scf.while":
        return [end.operands[0] for end in _ends(operation.regions[0]) if end.operands]
    return []


def _ends(region: Region) -> list[Operation]:
    return [block.operations[-1] for block in region.blocks if block.operations]


def _sources(module: Module, operations: Iterable[Operation]) -> dict[Value, list[Value]]:
    """Of a value that control flow passes on: the values that it may be."""
    found: dict[Value, list[Value]] = {}

    def link(targets: Iterable[Value], values: Iterable[Value]) -> None:
        for target, value in zip(targets, values, strict=False):
            found.setdefault(target, []).append(value)

    for one in operations:
        regions = one.regions
        if one.name == "scf.for":
            carried = regions[0].entry.arguments[1:]
            link(carried, one.operands[3:])
            for end in _ends(regions[0]):
                link(carried, end.operands)
                link(one.results, end.operands)
            link(one.results, one.operands[3:])
        elif one.name in ("scf.if", "scf.execute_region"):
            for region in regions:
                for end in _ends(region):
                    link(one.results, end.operands)
        elif one.name == "scf.while":
            before, after = regions
            link(_arguments(before), one.operands)
            for end in _ends(before):
                link(_arguments(after), end.operands[1:])
                link(one.results, end.operands[1:])
            for end in _ends(after):
                link(_arguments(before), end.operands)
        elif one.name == "ttg.warp_specialize":
            for region in regions[1:]:
                link(_arguments(region), one.operands)
            for end in _ends(regions[0]):
                link(one.results, end.operands)
        elif one.name == "tt.call":
            callee = module.functions.get(str(one.attributes.get("callee")))
            if callee is not None and callee.body is not None:
                link(callee.arguments, one.operands)
                for end in _ends(callee.body):
                    link(one.results, end.operands)
    return found


def _arguments(region: Region) -> tuple[Value, ...]:
    block: Block = region.entry
    return block.arguments


def _products(operations: Iterable[Operation], sources: dict[Value, list[Value]]) -> set[Value]:
    targets: dict[Value, list[Value]] = {}
    for target, values in sources.items():
        for value in values:
            targets.setdefault(value, []).append(target)
    open_ones = [
        result
        for one in operations
        if one.name in ("ttng.warp_group_dot", "ttng.warp_group_dot_wait")
        for result in one.results
        if memory_type(result.type) is None
    ]
    found: set[Value] = set()
    while open_ones:
        value = open_ones.pop()
        if value not in found:
            found.add(value)
            open_ones += targets.get(value, ())
    return found
