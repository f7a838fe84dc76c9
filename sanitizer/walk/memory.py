"""Pointers and memory operations: where each lane goes, and the record of it."""

from __future__ import annotations

from dataclasses import replace

from kerncap.sanitizer.launch import DescriptorArgument, TensorArgument
from kerncap.sanitizer.symbolic.expr import (
    FALSE,
    TRUE,
    Buffer,
    Expr,
    add,
    boolean,
    const,
    ge,
    ite,
    land,
    linear,
    lnot,
    lor,
    lt,
    mul,
    read,
    sub,
    unknown,
    wrap,
)
from kerncap.sanitizer.ttir.ir import DescriptorType, IntType, Operation, PointerType, TensorType, Type, Value
from kerncap.sanitizer.walk.access import Access, DescriptorUse, Target
from kerncap.sanitizer.walk.values import (
    BlockPointer,
    Pointers,
    SymbolicValue,
    Tile,
    choose,
    lane_expressions,
    lane_variables,
)
from kerncap.sanitizer.walk.walker import (
    Handler,
    Unsupported,
    Walker,
    bytes_of,
    element_of,
    shape_of,
    with_undefined,
)


def _add_pointer(walker: Walker, operation: Operation) -> None:
    pointers = walker.pointers(operation.operands[0])
    offset = walker.tile(operation.operands[1])
    element = element_of(operation.operands[0].type)
    assert isinstance(element, PointerType)
    step = mul(offset.expr, const(bytes_of(element.pointee)))
    targets = tuple(Target(t.guard, t.argument, add(t.offset_bytes, step)) for t in pointers.targets)
    undefined = lor(pointers.undefined, offset.undefined)
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
            pending.append((land(guard, lnot(condition)), otherwise))
            pending.append((land(guard, condition), then))
            continue
        argument = candidates[0] if certain else _nearest(walker, expr, candidates)
        targets.append(Target(guard, argument, sub(expr, const(walker.base_address(argument)))))
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
        reasons.update(dict.fromkeys(sorted(expression.unknown_reasons)))
    stored = value.expr if isinstance(value, Tile) else None
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
            undefined=FALSE if value is None else value.undefined,
            steered_by_undefined=lor(where.undefined, mask_undefined),
            value=stored,
            unknowns=tuple(reasons),
            mask_undefined=mask_undefined,
            result=result,
            **more,  # type: ignore[arg-type]
        )
    )


def loaded(
    walker: Walker, operation: Operation, result: Value, where: Pointers, mask: Expr, undefined: Expr
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
    # A float: equal places of memory that nobody writes hold equal values, whoever loads them.
    key = ("memory", storage, str(element))
    return Tile(shape, unknown("floating-point data from memory", key, (offset,)), undefined)


def _all_known(walker: Walker, where: Pointers) -> bool:
    return all(t.argument is not None for t in where.targets)


def _one_place(walker: Walker, where: Pointers) -> tuple[int, Expr] | None:
    """Storage and offset in it of memory that stays as it is; None where that isn't known."""
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
        offset = add(target.offset_bytes, const(base))
        found = offset if found is None else ite(target.guard, offset, found)
    if found is None or storage is None or walker.written is None or storage in walker.written:
        return None
    return storage, found


def masked(
    walker: Walker, operation: Operation, result: Value, value: SymbolicValue, mask: Expr, other: Value | None
) -> SymbolicValue:
    """A load's result over all lanes: ``other`` where the mask does not hold, or undefined there."""
    if mask is TRUE:
        return value
    if other is None:
        return with_undefined(value, lor(value.undefined, lnot(mask)))
    return choose(mask, value, walker[other])


# --- plain loads and stores ------------------------------------------------------------------------------


def _load(walker: Walker, operation: Operation) -> None:
    pointer, mask_value = operation.segment("ptr"), operation.segment("mask")
    assert pointer is not None
    found = walker[pointer]
    if isinstance(found, BlockPointer):
        return _load_block(walker, operation, found)
    where = walker.pointers(pointer)
    mask, mask_undefined = _mask(walker, mask_value)
    result = operation.results[0]
    undefined = lor(where.undefined, mask_undefined)
    value = loaded(walker, operation, result, where, mask, undefined)
    expr = value.expr if isinstance(value, Tile) else None
    record(
        walker, operation, "load", where, mask, mask_undefined, None, expr, _pointee(pointer.type),
        pointer_operand=pointer, mask_operand=mask_value,
    )  # fmt: skip
    walker.define(operation, masked(walker, operation, result, value, mask, operation.segment("other")))


def _store(walker: Walker, operation: Operation) -> None:
    pointer, mask_value = operation.segment("ptr"), operation.segment("mask")
    value = operation.segment("value")
    assert pointer is not None and value is not None
    found = walker[pointer]
    if isinstance(found, BlockPointer):
        checks = _ints(operation.attributes.get("boundaryCheck"))
        block = found
        where, inside = block_places(block, block.offsets, checks)
        return record(
            walker, operation, "store", where, inside, FALSE, walker[value], None,
            _block_element(pointer.type), pointer_operand=pointer,
        )  # fmt: skip
    where = walker.pointers(pointer)
    mask, mask_undefined = _mask(walker, mask_value)
    record(
        walker, operation, "store", where, mask, mask_undefined, walker[value], None, _pointee(pointer.type),
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
        raise Unsupported("a memory operation on something that is no pointer")
    return element.pointee


def _ints(value: object) -> tuple[int, ...]:
    return tuple(int(one) for one in value) if isinstance(value, tuple | list) else ()


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
    where = walker.pointers(pointer)
    mask, mask_undefined = _mask(walker, mask_value)
    expr: Expr | None = None
    if operation.results:
        undefined = lor(where.undefined, mask_undefined, lnot(mask))
        old = walker.fresh(operation, operation.results[0], "the result of an atomic", undefined=undefined)
        expr = old.expr if isinstance(old, Tile) else None
        walker.define(operation, old)
    record(
        walker, operation, "atomic", where, mask, mask_undefined, None if value is None else walker[value],
        expr, _pointee(pointer.type), pointer_operand=pointer, mask_operand=mask_value, atomic=name,
        semantics=str(operation.attributes.get("sem", "acq_rel")),
    )  # fmt: skip


# --- block pointers and descriptors ------------------------------------------------------------------------


def _make_block(walker: Walker, operation: Operation) -> None:
    """``tt.make_tensor_ptr base, [shape], [strides], [offsets]`` and ``tt.make_tensor_descriptor``."""
    descriptor = operation.name == "tt.make_tensor_descriptor"
    block = _block_type(operation.results[0].type)
    rank = len(block.shape)
    base = walker.pointers(operation.operands[0])
    numbers = [walker.tile(operand) for operand in operation.operands[1:]]
    expressions = [number.expr for number in numbers]
    # A descriptor of a higher rank than its block has leading extents of 1 in the block.
    rank = len(expressions) // (2 if descriptor else 3)
    shape = (1,) * (rank - len(block.shape)) + block.shape
    undefined = lor(base.undefined, *(number.undefined for number in numbers))
    offsets = tuple(const(0) for _ in range(rank)) if descriptor else tuple(expressions[2 * rank :])
    value = BlockPointer(
        base,
        tuple(expressions[:rank]),
        tuple(expressions[rank : 2 * rank]),
        offsets,
        shape,
        bytes_of(block.element),
        descriptor=descriptor,
        undefined=undefined,
    )
    walker.define(operation, value)


def _block_type(kind: Type) -> TensorType:
    element = element_of(kind)
    if isinstance(element, DescriptorType):
        return element.block
    if isinstance(element, PointerType) and isinstance(element.pointee, TensorType):
        return element.pointee
    raise Unsupported("a block pointer of a type that is not known")


def _block_element(kind: Type) -> Type:
    return _block_type(kind).element


def _advance(walker: Walker, operation: Operation) -> None:
    block = _block(walker, operation.operands[0])
    steps = [walker.tile(operand) for operand in operation.operands[1:]]
    offsets = tuple(
        wrap(add(offset, step.expr), 32) for offset, step in zip(block.offsets, steps, strict=True)
    )
    undefined = lor(block.undefined, *(step.undefined for step in steps))
    walker.define(operation, replace(block, offsets=offsets, undefined=undefined))


def _block(walker: Walker, value: Value) -> BlockPointer:
    found = walker[value]
    if not isinstance(found, BlockPointer):
        raise Unsupported(f"{value.name} is used as a block pointer")
    return found


def block_places(
    block: BlockPointer, corner: tuple[Expr, ...], checked: tuple[int, ...]
) -> tuple[Pointers, Expr]:
    """Addresses of a block's lanes, the first at ``corner``, and which are inside on all checked axes."""
    lanes = lane_expressions(block.block_shape)
    indices = tuple(add(start, lane) for start, lane in zip(corner, lanes, strict=True))
    return _places(block, indices, block.block_shape, checked)


def _places(
    block: BlockPointer, indices: tuple[Expr, ...], shape: tuple[int, ...], checked: tuple[int, ...]
) -> tuple[Pointers, Expr]:
    step: Expr = const(0)
    for index, stride in zip(indices, block.strides, strict=True):
        step = add(step, mul(index, stride))
    offset = mul(step, const(block.element_bytes))
    targets = tuple(Target(t.guard, t.argument, add(t.offset_bytes, offset)) for t in block.base.targets)
    inside = land(
        *(land(ge(indices[axis], const(0)), lt(indices[axis], block.extents[axis])) for axis in checked)
    )
    return Pointers(shape, targets, block.undefined), inside


def _load_block(walker: Walker, operation: Operation, block: BlockPointer) -> None:
    checks = _ints(operation.attributes.get("boundaryCheck"))
    where, inside = block_places(block, block.offsets, checks)
    result = operation.results[0]
    value = loaded(walker, operation, result, where, inside, where.undefined)
    expr = value.expr if isinstance(value, Tile) else None
    pointer = operation.operands[0]
    record(
        walker, operation, "load", where, inside, FALSE, None, expr, _block_element(pointer.type),
        pointer_operand=pointer,
    )  # fmt: skip
    # With no padding option the lanes outside are said to be undefined; every lowering gives zeros, and
    # kernels in use rely on it.
    walker.define(operation, _padded(result, value, inside))


def _padded(result: Value, value: SymbolicValue, inside: Expr) -> SymbolicValue:
    """Lanes outside are zero (or NaN)."""
    if not isinstance(value, Tile) or not isinstance(element_of(result.type), IntType):
        return value  # a float's padding is one more value that is not computed
    zero = boolean(False) if value.expr.sort == "bool" else const(0)
    return choose(inside, value, Tile(value.shape, zero))


def _descriptor_access(walker: Walker, operation: Operation) -> None:
    """Load, store and reduce through a descriptor, and gather and scatter of its rows."""
    name = operation.name.removeprefix("tt.descriptor_")
    block = _block(walker, operation.operands[0])
    rank = len(block.extents)
    value: SymbolicValue | None = None
    if name in ("gather", "scatter"):
        rows, column = walker.tile(operation.operands[1]), walker.tile(operation.operands[2])
        if name == "scatter":
            value = walker[operation.operands[3]]
        tile_type = operation.results[0].type if name == "gather" else operation.operands[3].type
        shape = shape_of(tile_type)
        lanes = lane_expressions(shape)
        indices: tuple[Expr, ...] = (rows.expr, add(column.expr, lanes[1]))
        steered = lor(rows.undefined, column.undefined)
    else:
        # Operands in the text's order: descriptor, indices, then what is stored.
        numbers = [walker.tile(operand) for operand in operation.operands[1 : 1 + rank]]
        if name in ("store", "reduce"):
            value = walker[operation.operands[1 + rank]]
        shape = block.block_shape
        lanes = lane_expressions(shape)
        indices = tuple(add(n.expr, lane) for n, lane in zip(numbers, lanes, strict=True))
        steered = lor(*(n.undefined for n in numbers))
    where, inside = _places(block, indices, shape, tuple(range(rank)))
    use = DescriptorUse(
        block.base.targets[0], block.extents, block.strides, indices, block.block_shape,
        block.element_bytes, block.host,
    )  # fmt: skip
    kind = {"load": "load", "gather": "load", "reduce": "atomic"}.get(name, "store")
    expr: Expr | None = None
    if operation.results:
        result = operation.results[0]
        if shape == shape_of(result.type):
            got = loaded(walker, operation, result, where, inside, lor(where.undefined, steered))
        else:
            got = walker.fresh(operation, result, "data from memory", undefined=lor(where.undefined, steered))
        expr = got.expr if isinstance(got, Tile) else None
        walker.define(operation, _padded(result, got, inside))
    atomic = str(operation.attributes.get("kind", "add")) if kind == "atomic" else None
    element = _block_element(operation.operands[0].type)
    record(
        walker, operation, kind, where, inside, steered, value, expr, element,
        pointer_operand=operation.operands[0], descriptor=use, atomic=atomic,
        semantics="relaxed" if atomic else None,
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
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "tt.atomic_load": _atomic,
    "tt.atomic_store": _atomic,
    "tt.atomic_poll": _atomic,
    "tt.grid_dependency_wait": _nothing,
    "tt.make_tensor_ptr": _make_block,
    "tt.make_tensor_descriptor": _make_block,
    "tt.advance": _advance,
    "tt.descriptor_load": _descriptor_access,
    "tt.descriptor_store": _descriptor_access,
    "tt.descriptor_reduce": _descriptor_access,
    "tt.descriptor_gather": _descriptor_access,
    "tt.descriptor_scatter": _descriptor_access,
    "tt.print": _nothing,
    "tt.assert": _nothing,
    "cf.assert": _nothing,
    "gpu.barrier": _nothing,
    "ttg.barrier": _nothing,
    "ttg.local_barrier": _nothing,
    "tt.debug_barrier": _nothing,
}
