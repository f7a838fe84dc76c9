"""What every memory operation leaves behind: the record of its access, and the value that it loads."""

from __future__ import annotations

from kerncap.sanitizer.launch import DescriptorArgument, TensorArgument
from kerncap.sanitizer.symbolic.expr import FALSE, TRUE, Buffer, Expr, ite, read, unknown
from kerncap.sanitizer.ttir.ir import IntType, Operation, PointerType, Type, Value
from kerncap.sanitizer.walk import left_out
from kerncap.sanitizer.walk.access import Access, Target
from kerncap.sanitizer.walk.arith import zero
from kerncap.sanitizer.walk.values import Pointers, SymbolicValue, Tile, choose, lane_variables
from kerncap.sanitizer.walk.walker import Walker, bytes_of, element_of, shape_of, with_undefined


def record(
    walker: Walker,
    operation: Operation,
    kind: str,
    where: Pointers,
    mask: Expr,
    mask_undefined: Expr,
    value: SymbolicValue | None,
    result: Expr | None,
    pointee: Type,
    **more: object,
) -> None:
    """Keep the access, unless this pass over a loop's body only looks for its closed form."""
    if not walker.recording:
        return
    targets = tuple(t for t in where.targets if t.guard is not FALSE)
    reasons: dict[str, None] = {}
    for expression in (mask, walker.path, *(e for t in targets for e in (t.guard, t.offset_bytes))):
        if expression.unknown_reasons:
            reasons.update(dict.fromkeys(sorted(expression.unknown_reasons)))
    stored = value.expr if isinstance(value, Tile) else None
    undefined = FALSE if value is None else value.undefined
    everything = (undefined, where.undefined, mask_undefined)
    by_habit = FALSE
    if any(map(left_out.is_marked, everything)):
        of_lanes = left_out.anywhere(undefined) | left_out.anywhere(where.undefined)
        by_habit = (mask & of_lanes) | left_out.anywhere(mask_undefined)
    if kind == "load":
        undefined, steered, masks = map(left_out.on_target, everything)
    else:
        # Neither the place of a left-out lane nor what it says of a mask is one that a store may go by.
        undefined = left_out.given_to_memory(undefined, stored, more.get("atomic"))
        steered = left_out.in_lane(where.undefined)
        masks = left_out.on_target(mask_undefined) | (mask & left_out.in_lane(mask_undefined))
    walker.accesses.append(
        Access(
            operation=operation,
            kind=kind,  # type: ignore[arg-type]
            location=operation.location,
            lanes=lane_variables(where.shape),
            shape=where.shape,
            targets=targets,
            width_bytes=bytes_of(pointee),
            mask=mask,
            path=walker.path,
            loops=walker.loops,
            undefined=undefined,
            steered_by_undefined=steered | masks,
            value=stored,
            unknowns=tuple(reasons),
            mask_undefined=masks,
            by_habit=by_habit,
            result=result,
            **more,  # type: ignore[arg-type]
        )
    )


def loaded(
    walker: Walker, operation: Operation, result: Value, where: Pointers, undefined: Expr
) -> SymbolicValue:
    """What a load gives where its mask holds: contents that were there before, or an unknown.

    A storage that the launch itself may write holds its old contents only until then, so nothing
    is assumed of it.
    """
    element = element_of(result.type)
    shape = shape_of(result.type)
    place = _one_place(walker, where)
    if place is None:
        reason = "data from memory"
        if any(t.argument is None for t in where.targets):
            reason = "data from an address that itself came from memory"
        elif walker.written is None or not _all_known(walker, where):
            reason = "data from memory that this launch may write"
        return walker.fresh(operation, result, reason, undefined=undefined)
    storage, offset = place
    if isinstance(element, IntType):
        buffer = Buffer(storage, element.width, True, max(1, element.width // 8))
        return Tile(shape, read(buffer, offset), undefined)
    if isinstance(element, PointerType):
        address = read(Buffer(storage, 64, True, 8), offset)
        return Pointers(shape, (Target(TRUE, None, address),), undefined)
    # A float: equal places of memory that nobody writes hold equal values for every load.
    key = ("memory", storage, str(element))
    return Tile(shape, unknown("floating-point data from memory", key, (offset,)), undefined)


def _all_known(walker: Walker, where: Pointers) -> bool:
    return all(t.argument is not None for t in where.targets)


def _one_place(walker: Walker, where: Pointers) -> tuple[int, Expr] | None:
    """Storage and offset in it of memory that stays as it is; None if that isn't known."""
    found: Expr | None = None
    storage: int | None = None
    for target in where.targets:
        if target.argument is None:
            return None
        tensor = walker.launch.arguments[target.argument]
        if isinstance(tensor, DescriptorArgument):
            tensor = tensor.tensor
        if not isinstance(tensor, TensorArgument) or storage not in (None, tensor.storage):
            return None
        storage = tensor.storage
        base = tensor.address - walker.launch.storages[storage].address
        offset = target.offset_bytes + base
        found = offset if found is None else ite(target.guard, offset, found)
    if found is None or storage is None or walker.written is None or storage in walker.written:
        return None
    return storage, found


def masked(
    walker: Walker, result: Value, value: SymbolicValue, mask: Expr, other: Value | None
) -> SymbolicValue:
    """A load's result over all lanes: ``other`` where the mask does not hold, or left out there."""
    if mask is TRUE:
        return value
    if other is not None:
        return choose(mask, value, walker[other])
    if not isinstance(value, Tile):  # a pointer: that a null pointer is followed is no habit to rely on
        return with_undefined(value, value.undefined | ~mask)
    held = choose(mask, value, Tile(value.shape, zero(element_of(result.type))))
    return with_undefined(held, held.undefined | left_out.left_out(mask))
