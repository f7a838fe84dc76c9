"""Pointers and memory operations: where each lane goes, and the record of it."""

from __future__ import annotations

from kerncap.sanitizer.launch import TensorArgument
from kerncap.sanitizer.symbolic.expr import FALSE, TRUE, Expr, linear, lor, wrap
from kerncap.sanitizer.ttir.ir import Operation, PointerType, Type, Value
from kerncap.sanitizer.walk.access import Target
from kerncap.sanitizer.walk.blocks import load_block, store_block
from kerncap.sanitizer.walk.recording import loaded, masked, record
from kerncap.sanitizer.walk.values import BlockPointer, Pointers, Tile
from kerncap.sanitizer.walk.walker import Handler, Unsupported, Walker, bytes_of, element_of, shape_of


def _add_pointer(walker: Walker, operation: Operation) -> None:
    pointers = walker.pointers(operation.operands[0])
    offset = walker.tile(operation.operands[1])
    element = element_of(operation.operands[0].type)
    assert isinstance(element, PointerType)
    step = offset.expr * bytes_of(element.pointee)
    targets = tuple(Target(t.guard, t.argument, t.offset_bytes + step) for t in pointers.targets)
    undefined = pointers.undefined | offset.undefined
    walker.define(operation, Pointers(shape_of(operation.results[0].type), targets, undefined))


def _to_pointer(walker: Walker, operation: Operation) -> None:
    source = walker.tile(operation.operands[0])
    origins = walker.origins.get(operation.operands[0], frozenset())
    candidates = sorted(index for index in origins if index is not None)
    certain = len(candidates) == 1 and None not in origins
    targets: list[Target] = []
    pending = [(TRUE, source.expr)]
    while pending:
        guard, expr = pending.pop()
        if expr.kind == "ite" and candidates:
            condition, then, otherwise = expr.args
            pending.append((guard & ~condition, otherwise))
            pending.append((guard & condition, then))
            continue
        argument = candidates[0] if certain else _nearest(walker, expr, candidates)
        targets.append(Target(guard, argument, expr - walker.base_address(argument)))
    walker.define(operation, Pointers(source.shape, tuple(targets), source.undefined))


def _nearest(walker: Walker, address: Expr, candidates: list[int]) -> int | None:
    """The argument whose tensor begins nearest to an address's constant part, if that is in its memory."""
    form = linear(address)
    found: tuple[int, int] | None = None
    for index in candidates if form is not None else ():
        argument = walker.launch.arguments[index]
        if not isinstance(argument, TensorArgument):
            continue
        storage = walker.launch.storages[argument.storage]
        distance = abs(form.constant - argument.address)  # type: ignore[union-attr]
        if distance <= storage.size_bytes and (found is None or distance < found[0]):
            found = (distance, index)
    return None if found is None else found[1]


def _to_integer(walker: Walker, operation: Operation) -> None:
    pointers = walker.pointers(operation.operands[0])
    address = wrap(walker.address_of(pointers), 64)
    walker.define(operation, Tile(pointers.shape, address, pointers.undefined))


# --- what an access is -------------------------------------------------------------------------------


# --- plain loads and stores ------------------------------------------------------------------------------


def _load(walker: Walker, operation: Operation) -> None:
    pointer, mask_value = operation.segment("ptr"), operation.segment("mask")
    assert pointer is not None
    found = walker[pointer]
    if isinstance(found, BlockPointer):
        return load_block(walker, operation, found)
    where = walker.pointers(pointer)
    mask, mask_undefined = _mask(walker, mask_value)
    result = operation.results[0]
    undefined = where.undefined | mask_undefined
    used = result in walker.plan.live
    expr: Expr | None = None
    if used or walker.plan.values:
        value = loaded(walker, operation, result, where, undefined)
        expr = value.expr if isinstance(value, Tile) else None
    record(
        walker, operation, "load", where, mask, mask_undefined, None, expr, _pointee(pointer.type),
        pointer_operand=pointer, mask_operand=mask_value,
    )  # fmt: skip
    if used:
        walker.define(operation, masked(walker, result, value, mask, operation.segment("other")))


def _copy(walker: Walker, operation: Operation) -> None:
    """To shared memory: what is read is not followed, and left-out lanes are zeros there."""
    pointer, mask_value = operation.segment("ptr"), operation.segment("mask")
    assert pointer is not None
    mask, mask_undefined = _mask(walker, mask_value)
    record(
        walker, operation, "load", walker.pointers(pointer), mask, mask_undefined, None, None,
        _pointee(pointer.type), pointer_operand=pointer, mask_operand=mask_value,
    )  # fmt: skip
    _nothing(walker, operation)


def _store(walker: Walker, operation: Operation) -> None:
    pointer, mask_value = operation.segment("ptr"), operation.segment("mask")
    value = operation.segment("value")
    assert pointer is not None and value is not None
    stored = walker[value] if walker.plan.values else None
    found = walker[pointer]
    if isinstance(found, BlockPointer):
        return store_block(walker, operation, found, stored)
    where = walker.pointers(pointer)
    mask, mask_undefined = _mask(walker, mask_value)
    record(
        walker, operation, "store", where, mask, mask_undefined, stored, None, _pointee(pointer.type),
        pointer_operand=pointer, mask_operand=mask_value,
    )  # fmt: skip


def _mask(walker: Walker, value: Value | None) -> tuple[Expr, Expr]:
    if value is None:
        return TRUE, FALSE
    tile = walker.tile(value)
    return tile.expr, tile.undefined


def _pointee(kind: Type) -> Type:
    element = element_of(kind)
    if not isinstance(element, PointerType):
        raise Unsupported("a memory operation on something that is not a pointer")
    return element.pointee


# --- atomics ---------------------------------------------------------------------------------------------


def _atomic(walker: Walker, operation: Operation) -> None:
    """Read-modify-write, compare-and-swap, and the atomic load, store and wait of newer Tritons."""
    if operation.name == "tt.atomic_rmw":
        name = str(operation.attributes["rmw_op"])
    else:
        name = operation.name.removeprefix("tt.atomic_")
    pointer = operation.operands[0]
    segments = operation.attributes.get("operand_segments", {})
    mask_value = operation.segment("mask") if "mask" in segments else None
    value = operation.segment("value") if "value" in segments else None
    stored = None if value is None or not walker.plan.values else walker[value]
    where = walker.pointers(pointer)
    mask, mask_undefined = _mask(walker, mask_value)
    expr: Expr | None = None
    if operation.results:
        undefined = lor(where.undefined, mask_undefined, ~mask)
        old = walker.fresh(operation, operation.results[0], "the result of an atomic", undefined=undefined)
        expr = old.expr if isinstance(old, Tile) else None
        walker.define(operation, old)
    record(
        walker, operation, "atomic", where, mask, mask_undefined, stored, expr, _pointee(pointer.type),
        pointer_operand=pointer, mask_operand=mask_value, atomic=name,
        semantics=str(operation.attributes.get("sem", "acq_rel")),
    )  # fmt: skip


def _nothing(walker: Walker, operation: Operation) -> None:
    """Prints, barriers, prefetches: no memory of the launch, no value."""
    for result in operation.results:
        walker.environment[result] = walker.fresh(operation, result, operation.name)


OPERATIONS: dict[str, Handler] = {
    "tt.addptr": _add_pointer,
    "tt.int_to_ptr": _to_pointer,
    "tt.ptr_to_int": _to_integer,
    "tt.load": _load,
    "tt.store": _store,
    "ttg.async_copy_global_to_local": _copy,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "tt.atomic_load": _atomic,
    "tt.atomic_store": _atomic,
    "tt.atomic_poll": _atomic,
    "tt.grid_dependency_wait": _nothing,
    "tt.print": _nothing,
    "tt.assert": _nothing,
    "cf.assert": _nothing,
    "gpu.barrier": _nothing,
    "ttg.barrier": _nothing,
    "ttg.local_barrier": _nothing,
    "tt.debug_barrier": _nothing,
}
