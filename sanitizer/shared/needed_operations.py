"""Which operations of a kernel decide when and where shared memory is used; all others are passed by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kerncap.sanitizer.concrete.dataflow import Dataflow, around, controls
from kerncap.sanitizer.shared.views import memory_type
from kerncap.sanitizer.ttir.ir import IntType, Operation, TensorType, Value

FLOW = frozenset(("scf.for", "scf.if", "scf.while", "scf.execute_region", "ttg.warp_specialize", "tt.call"))
YIELDS = frozenset(("scf.yield", "scf.condition", "ttg.warp_yield", "ttg.warp_return", "tt.return"))
FENCES = frozenset(("ttg.barrier", "gpu.barrier", "ttng.fence", "ttng.fence_mbarrier_init_release_cluster"))
# Of dialects that know shared memory, what touches none of it and orders nothing.
HARMLESS = frozenset(
    ("ttg.convert_layout", "ttg.warp_id", "ttg.global_scratch_alloc", "ttng.tensormap_create",
     "ttng.reinterpret_tensor_descriptor", "ttng.tensormap_fenceproxy_acquire", "ttg.fp4_to_fp",
     "ttng.clc_get_program_id")
)  # fmt: skip
_DIALECTS = ("ttg.", "ttng.", "amdg.", "amdgpu.", "nvg.", "nvgpu.", "tti.", "gpu.", "nvvm.")
_INDEXED = frozenset(("ttg.local_gather", "ttg.local_scatter"))
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


def needed(flow: Dataflow, modelled: frozenset[str]) -> Needed:
    touching: set[Operation] = set()
    for one in flow.operations:
        if one.name in modelled or unmodelled(one, modelled) or one.name == "tt.call":
            touching.update((one, *around(one)))
    roots = [value for one in touching for value in _roots(one, modelled)]
    roots += [value for calls in flow.calls.values() for one in calls for value in one.operands]
    indices = {one for each in touching if each.name in _INDEXED for one in _integers(each)}
    roots += indices
    values: set[Value] = set()
    while roots:
        value = roots.pop()
        if value in values:
            continue
        values.add(value)
        passed = flow.forwarded(value) or ()
        roots += passed
        owner = value.owner
        if isinstance(owner, Operation):
            of_computed = () if owner.name in FLOW else filter(_is_scalar_or_memory, owner.operands)
            roots += (*controls(owner), *of_computed)
        if value in indices:
            of_indices = _integers(owner) if isinstance(owner, Operation) and owner.name not in FLOW else []
            indices.update(passed, of_indices)
            roots += of_indices
    return Needed(frozenset(values), frozenset(touching), frozenset(_products(flow)))


def _integers(operation: Operation) -> list[Value]:
    """Its operands that are tensors of integers."""
    types = [(one, one.type) for one in operation.operands]
    return [one for one, kind in types if isinstance(kind, TensorType) and isinstance(kind.element, IntType)]


def _is_scalar_or_memory(value: Value) -> bool:
    return isinstance(value.type, IntType) or memory_type(value.type) is not None


def _roots(operation: Operation, modelled: frozenset[str]) -> list[Value]:
    if operation.name in FLOW:
        return controls(operation)
    found = [one for one in operation.operands if memory_type(one.type) is not None]
    if operation.name in _COORDINATES:
        return [*found, operation.operands[-1]]
    if operation.name not in modelled or operation.name.startswith(("ttng.async_tma_", "ttg.async_copy")):
        return found
    return [one for one in operation.operands if _is_scalar_or_memory(one)]


def _products(flow: Dataflow) -> set[Value]:
    """What may be the result of a warp group product, passed on by control flow."""
    targets = [value for function in flow.module.functions.values() for value in function.arguments]
    for one in flow.operations:
        targets += one.results
        targets += (value for region in one.regions for block in region.blocks for value in block.arguments)
    passed_to: dict[Value, list[Value]] = {}
    for target in targets:
        for value in flow.forwarded(target) or ():
            passed_to.setdefault(value, []).append(target)
    queue = [
        result
        for one in flow.operations
        if one.name in ("ttng.warp_group_dot", "ttng.warp_group_dot_wait")
        for result in one.results
        if memory_type(result.type) is None
    ]
    found: set[Value] = set()
    while queue:
        value = queue.pop()
        if value not in found:
            found.add(value)
            queue += passed_to.get(value, ())
    return found
