"""Block pointers of older Tritons and tensor descriptors: a base, a shape, strides, and a corner in it."""

from __future__ import annotations

from dataclasses import replace

from kerncap.sanitizer.symbolic.expr import FALSE, TRUE, Expr, boolean, const, land, lor, wrap
from kerncap.sanitizer.ttir.ir import DescriptorType, IntType, Operation, PointerType, TensorType, Type, Value
from kerncap.sanitizer.walk import left_out
from kerncap.sanitizer.walk.access import DescriptorUse, Target
from kerncap.sanitizer.walk.recording import loaded, record
from kerncap.sanitizer.walk.values import (
    BlockPointer,
    Pointers,
    SymbolicValue,
    Tile,
    choose,
    lane_expressions,
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
    offsets = tuple(wrap(offset + step.expr, 32) for offset, step in zip(block.offsets, steps, strict=True))
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
    indices = tuple(start + lane for start, lane in zip(corner, lanes, strict=True))
    return _places(block, indices, block.block_shape, checked)


def _places(
    block: BlockPointer, indices: tuple[Expr, ...], shape: tuple[int, ...], checked: tuple[int, ...]
) -> tuple[Pointers, Expr]:
    step: Expr = const(0)
    for index, stride in zip(indices, block.strides, strict=True):
        step = step + index * stride
    offset = step * block.element_bytes
    targets = tuple(Target(t.guard, t.argument, t.offset_bytes + offset) for t in block.base.targets)
    inside = land(*((indices[axis] >= 0) & (indices[axis] < block.extents[axis]) for axis in checked))
    return Pointers(shape, targets, block.undefined), inside


def load_block(walker: Walker, operation: Operation, block: BlockPointer) -> None:
    """``tt.load`` through a block pointer."""
    checks = _ints(operation.attributes.get("boundaryCheck"))
    where, inside = block_places(block, block.offsets, checks)
    result = operation.results[0]
    used = result in walker.plan.live
    expr: Expr | None = None
    if used or walker.plan.values:
        value = loaded(walker, operation, result, where, where.undefined)
        expr = value.expr if isinstance(value, Tile) else None
    pointer = operation.operands[0]
    record(
        walker, operation, "load", where, inside, FALSE, None, expr, _block_element(pointer.type),
        pointer_operand=pointer,
    )  # fmt: skip
    if used:
        padded = _padded(result, value, inside)
        if inside is not TRUE and operation.attributes.get("padding") is None:
            padded = with_undefined(padded, padded.undefined | left_out.outside(inside))
        walker.define(operation, padded)


def store_block(
    walker: Walker, operation: Operation, block: BlockPointer, stored: SymbolicValue | None
) -> None:
    """``tt.store`` through a block pointer."""
    checks = _ints(operation.attributes.get("boundaryCheck"))
    where, inside = block_places(block, block.offsets, checks)
    pointer = operation.operands[0]
    record(
        walker, operation, "store", where, inside, FALSE, stored, None, _block_element(pointer.type),
        pointer_operand=pointer,
    )  # fmt: skip


def _padded(result: Value, value: SymbolicValue, inside: Expr) -> SymbolicValue:
    """Lanes outside are zero (or NaN)."""
    if not isinstance(value, Tile) or not isinstance(element_of(result.type), IntType):
        return value  # a float's padding is one more value that is not computed
    zero = boolean(False) if value.expr.sort == "bool" else const(0)
    return choose(inside, value, Tile(value.shape, zero))


def _stored(walker: Walker, value: Value) -> SymbolicValue | None:
    return walker[value] if walker.plan.values else None


def _descriptor_access(walker: Walker, operation: Operation) -> None:
    """Load, store and reduce through a descriptor, and gather and scatter of its rows."""
    name = operation.name.removeprefix("tt.descriptor_")
    block = _block(walker, operation.operands[0])
    rank = len(block.extents)
    value: SymbolicValue | None = None
    if name in ("gather", "scatter"):
        rows, column = walker.tile(operation.operands[1]), walker.tile(operation.operands[2])
        if name == "scatter":
            value = _stored(walker, operation.operands[3])
        tile_type = operation.results[0].type if name == "gather" else operation.operands[3].type
        shape = shape_of(tile_type)
        lanes = lane_expressions(shape)
        indices: tuple[Expr, ...] = (rows.expr, column.expr + lanes[1])
        steered = rows.undefined | column.undefined
    else:
        # Operands in the text's order: descriptor, indices, then what is stored.
        numbers = [walker.tile(operand) for operand in operation.operands[1 : 1 + rank]]
        if name in ("store", "reduce"):
            value = _stored(walker, operation.operands[1 + rank])
        shape = block.block_shape
        lanes = lane_expressions(shape)
        indices = tuple(n.expr + lane for n, lane in zip(numbers, lanes, strict=True))
        steered = lor(*(n.undefined for n in numbers))
    where, inside = _places(block, indices, shape, tuple(range(rank)))
    use = DescriptorUse(
        block.base.targets[0], block.extents, block.strides, indices, block.block_shape,
        block.element_bytes, block.host,
    )  # fmt: skip
    kind = {"load": "load", "gather": "load", "reduce": "atomic"}.get(name, "store")
    expr: Expr | None = None
    used = any(result in walker.plan.live for result in operation.results)
    if used or (operation.results and walker.plan.values):
        result = operation.results[0]
        if shape == shape_of(result.type):
            got = loaded(walker, operation, result, where, where.undefined | steered)
        else:
            got = walker.fresh(operation, result, "data from memory", undefined=where.undefined | steered)
        expr = got.expr if isinstance(got, Tile) else None
        if used:
            walker.define(operation, _padded(result, got, inside))
    atomic = str(operation.attributes.get("kind", "add")) if kind == "atomic" else None
    element = _block_element(operation.operands[0].type)
    record(
        walker, operation, kind, where, inside, steered, value, expr, element,
        pointer_operand=operation.operands[0], descriptor=use, atomic=atomic,
        semantics="relaxed" if atomic else None,
    )  # fmt: skip


def _ints(value: object) -> tuple[int, ...]:
    return tuple(int(one) for one in value) if isinstance(value, tuple | list) else ()


OPERATIONS: dict[str, Handler] = {
    "tt.make_tensor_ptr": _make_block,
    "tt.make_tensor_descriptor": _make_block,
    "tt.advance": _advance,
    "tt.descriptor_load": _descriptor_access,
    "tt.descriptor_store": _descriptor_access,
    "tt.descriptor_reduce": _descriptor_access,
    "tt.descriptor_gather": _descriptor_access,
    "tt.descriptor_scatter": _descriptor_access,
}
