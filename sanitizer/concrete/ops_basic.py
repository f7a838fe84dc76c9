"""Steps of operations that work element by element, of constants and of program ids."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kerncap.sanitizer.concrete import ops_cast, ops_math  # noqa: F401  (they fill ELEMENTWISE)
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.needed_operations import MODULAR
from kerncap.sanitizer.concrete.ops_arith import ELEMENTWISE, WITHOUT_VALUE, WRAPS, high_signed, unsigned
from kerncap.sanitizer.concrete.plan import STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    ABSOLUTE,
    Array,
    Bools,
    Incomplete,
    Pointers,
    Tile,
    Unknown,
    Value,
    either,
    element_of,
    numpy_type,
    select,
    shape_of,
    where,
)
from kerncap.sanitizer.ttir.ir import DIVISIONS, Dense, IntType, Operation, PointerType

SAME_ELEMENTS = frozenset(
    ("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.unsplat")
    + ("ttg.convert_layout",)
)


def not_tiles(operation: Operation, values: list[Value]) -> Unknown:
    """What becomes of an operation some of whose operands are no tiles."""
    for value in values:
        if isinstance(value, Unknown):
            return value
    raise Incomplete(f"{where(operation)} has an operand that is not a number")


def _same_values(plan: Plan, operation: Operation) -> Step:
    """Of TTGIR: which thread holds an element is nothing that its value depends on."""
    operand, result = operation.operands[0], operation.results[0]

    def step(m: Machine) -> None:
        m.env[result] = m.env[operand]

    return step


STEPS["ttg.convert_layout"] = _same_values


# --- element by element ------------------------------------------------------------------------------


def _and_undefined(x: Tile, y: Tile) -> Bools | None:
    """A defined zero decides: the other operand does not matter."""
    result = either(
        None if x.undefined is None else x.undefined & (y.data != 0),
        None if y.undefined is None else y.undefined & (x.data != 0),
    )
    if x.undefined is not None and y.undefined is not None:
        return either(result, x.undefined & y.undefined)
    return result


def _or_undefined(x: Tile, y: Tile) -> Bools | None:
    """A defined "all ones" decides."""
    ones = True if x.data.dtype == np.bool_ else -1
    result = either(
        None if x.undefined is None else x.undefined & (y.data != ones),
        None if y.undefined is None else y.undefined & (x.data != ones),
    )
    if x.undefined is not None and y.undefined is not None:
        return either(result, x.undefined & y.undefined)
    return result


_UNDEFINED = {"arith.andi": _and_undefined, "arith.muli": _and_undefined, "arith.ori": _or_undefined}


def elementwise(plan: Plan, operation: Operation) -> Step:
    compute = ELEMENTWISE[operation.name](operation)
    operands, result = operation.operands, operation.results[0]

    if operation.name in DIVISIONS:
        return _division(plan, operation)
    if plan.tracking:
        return _tracked(plan, operation)
    if len(operands) == 2:
        left, right = operands

        def binary(m: Machine) -> None:
            env = m.env
            x, y = env[left], env[right]
            if isinstance(x, Tile) and isinstance(y, Tile):
                env[result] = Tile(compute(x.data, y.data))
            else:
                env[result] = not_tiles(operation, [x, y])

        return binary

    def step(m: Machine) -> None:
        values = [m.env[operand] for operand in operands]
        arrays = [value.data for value in values if isinstance(value, Tile)]
        if len(arrays) == len(values):
            m.env[result] = Tile(compute(*arrays))
        else:
            m.env[result] = not_tiles(operation, values)

    return step


def _missing(
    fails: Callable[..., Bools] | None, undefined: Bools | None, operands: list[Tile]
) -> Bools | None:
    """Where a result has no value: ``undefined``, and where the operation itself gives none."""
    failed = None if fails is None else fails(*(one.data for one in operands))
    return undefined if failed is None or not failed.any() else either(undefined, failed)


def _tracked(plan: Plan, operation: Operation) -> Step:
    compute = ELEMENTWISE[operation.name](operation)
    operands, result = operation.operands, operation.results[0]
    special = _UNDEFINED.get(operation.name)
    fails = WITHOUT_VALUE.get(operation.name) if plan.track.undefined else None
    kind = element_of(result.type)
    integers = isinstance(kind, IntType) and kind.width > 1 and operation.name not in MODULAR
    wraps = WRAPS.get(operation.name) if integers and plan.watches_overflow(operation) else None

    def step(m: Machine) -> None:
        values = [m.env[operand] for operand in operands]
        tiles = [value for value in values if isinstance(value, Tile)]
        if len(tiles) != len(values):
            m.env[result] = not_tiles(operation, values)
            return
        data = compute(*(tile.data for tile in tiles))
        if special is None:
            undefined = either(*(tile.undefined for tile in tiles))
        else:
            undefined = special(tiles[0], tiles[1])
        undefined = _missing(fails, undefined, tiles)
        # What is compared, converted or taken modulo something is no longer on its way to an address.
        overflow = either(*(tile.overflow for tile in tiles)) if integers else None
        if wraps is not None:
            wrapped = wraps(data, *(tile.data for tile in tiles))
            if wrapped.any():
                overflow = either(overflow, wrapped)
        m.env[result] = Tile(data, undefined, overflow)

    return step


def _division(plan: Plan, operation: Operation) -> Step:
    compute = ELEMENTWISE[operation.name](operation)
    (left, right), result = operation.operands, operation.results[0]
    note = f"{where(operation)} divides by zero: taken as 0"
    modular = operation.name in MODULAR
    fails = WITHOUT_VALUE[operation.name] if plan.track.undefined else None

    def step(m: Machine) -> None:
        x, y = m.env[left], m.env[right]
        if not (isinstance(x, Tile) and isinstance(y, Tile)):
            m.env[result] = not_tiles(operation, [x, y])
            return
        if not y.data.all():
            zero = np.broadcast_to(y.data == 0, (m.count, *y.data.shape[1:]))
            if (zero if m.active is None else zero[m.active]).any():
                m.shared.notes[note] = None
        overflow = None if modular else either(x.overflow, y.overflow)
        undefined = _missing(fails, either(x.undefined, y.undefined), [x, y])
        m.env[result] = Tile(compute(x.data, y.data), undefined, overflow)

    return step


for _name in ELEMENTWISE:
    STEPS[_name] = elementwise


def _select(plan: Plan, operation: Operation) -> Step:
    condition, yes, no = operation.operands
    result = operation.results[0]

    def step(m: Machine) -> None:
        c, x, y = m.env[condition], m.env[yes], m.env[no]
        if not (isinstance(c, Tile) and isinstance(x, Tile) and isinstance(y, Tile)):
            m.env[result] = not_tiles(operation, [c, x, y])
            return
        rank = max(x.data.ndim, y.data.ndim)
        chosen = c.data.reshape(c.data.shape + (1,) * (rank - c.data.ndim))
        tile = select(chosen, x, y)
        if c.undefined is not None:
            unsure = c.undefined.reshape(c.undefined.shape + (1,) * (rank - c.undefined.ndim))
            tile.doubt(unsure)
        m.env[result] = tile

    return step


STEPS["arith.select"] = _select


# --- several results ---------------------------------------------------------------------------------


def _extended(plan: Plan, operation: Operation) -> Step:
    """The low half and the high half of a product, or a sum and its carry."""
    left, right = operation.operands
    low, high = operation.results
    name = operation.name
    numpy_type(element_of(low.type))

    def step(m: Machine) -> None:
        x, y = m.env[left], m.env[right]
        if not (isinstance(x, Tile) and isinstance(y, Tile)):
            m.env[low] = m.env[high] = not_tiles(operation, [x, y])
            return
        if name == "arith.mulsi_extended":
            first, second = x.data * y.data, high_signed(x.data, y.data)
        elif name == "arith.mului_extended":
            first, second = x.data * y.data, ELEMENTWISE["tt.mulhiui"](operation)(x.data, y.data)
        elif name == "arith.addui_extended":
            first = x.data + y.data
            second = unsigned(first) < unsigned(x.data)
        else:
            first = x.data - y.data
            second = unsigned(x.data) < unsigned(y.data)
        undefined = either(x.undefined, y.undefined)
        m.env[low] = Tile(first, undefined)
        m.env[high] = Tile(second, undefined)

    return step


for _name in ("mulsi_extended", "mului_extended", "addui_extended", "subui_extended"):
    STEPS[f"arith.{_name}"] = _extended


# --- values from nothing -----------------------------------------------------------------------------


def _constant(plan: Plan, operation: Operation) -> Step:
    result = operation.results[0]
    kind, shape = element_of(result.type), shape_of(result.type)
    native = numpy_type(kind)
    value = operation.attributes["value"]
    if isinstance(value, Dense):
        values = list(value.values)
        array: Array = np.array([_fit(v, native) for v in values], dtype=native)
        array = array.reshape(1, *(shape if len(values) > 1 else (1,) * len(shape)))
    else:
        array = np.array([_fit(value, native)], dtype=native).reshape(1, *(1,) * len(shape))
    # Of integers, which are mostly indices, nobody asks.
    zeros = array == 0 if plan.track.undefined and plan.track.left_out and array.dtype.kind == "f" else None
    tile = Tile(array, zero=zeros if zeros is not None and zeros.any() else None)

    def step(m: Machine) -> None:
        m.env[result] = tile

    return step


def _fit(value: object, native: np.dtype[np.generic]) -> object:
    """An integer as the signed number of the type's width that has its bits."""
    if native.kind == "i" and isinstance(value, int):
        width = 8 * native.itemsize
        value = int(value) & ((1 << width) - 1)
        return value - (1 << width) if value >> (width - 1) else value
    if native.kind == "b" and isinstance(value, int):
        return bool(value & 1)
    return value


def _range(plan: Plan, operation: Operation) -> Step:
    start, end = int(operation.attributes["start"]), int(operation.attributes["end"])
    result = operation.results[0]
    tile = Tile(np.arange(start, end, dtype=np.int64).astype(numpy_type(element_of(result.type)))[None])

    def step(m: Machine) -> None:
        m.env[result] = tile

    return step


def _poison(plan: Plan, operation: Operation) -> Step:
    result = operation.results[0]
    kind, rank = element_of(result.type), len(shape_of(result.type))
    tile = Tile(np.zeros((1,) * (rank + 1), dtype=numpy_type(kind)))
    if isinstance(kind, PointerType):
        tile = Pointers(tile.data, ABSOLUTE)

    def step(m: Machine) -> None:
        m.env[result] = tile

    return step


def _axis(operation: Operation) -> int:
    axis = operation.attributes["axis"]
    return axis if isinstance(axis, int) else "xyz".index(str(axis))


def _program_id(plan: Plan, operation: Operation) -> Step:
    axis, result = _axis(operation), operation.results[0]
    grid = plan.launch.grid
    before = int(np.prod(grid[:axis], dtype=np.int64))

    def step(m: Machine) -> None:
        ids = m.programs // before % max(1, grid[axis])
        m.env[result] = Tile(ids.astype(np.int32))

    return step


def _program_count(plan: Plan, operation: Operation) -> Step:
    result = operation.results[0]
    tile = Tile(np.array([plan.launch.grid[_axis(operation)]], dtype=np.int32))

    def step(m: Machine) -> None:
        m.env[result] = tile

    return step


STEPS["arith.constant"] = _constant
STEPS["tt.make_range"] = _range
STEPS["ub.poison"] = _poison
STEPS["llvm.mlir.undef"] = _poison
STEPS["tt.get_program_id"] = _program_id
STEPS["tt.get_num_programs"] = _program_count
