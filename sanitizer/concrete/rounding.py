"""How far a GPU's floats may be from the evaluator's, and which integers that decides.

The evaluator rounds as IEEE 754 says. Compiled code does not: it fuses multiplications into additions, adds
in another order, multiplies in fewer bits (TF32), and divides, takes roots and exponentials approximately.
With `Track.rounding` each value has ``undefined`` set if a GPU may come to another one. A float carries a
bound of the difference along through element-wise operations; a comparison or a conversion to an integer that
comes out the same for all floats within the bound is certain again.

Source: https://docs.nvidia.com/cuda/parallel-thread-execution/ (PTX ISA 9.1), 9.7.3 "Floating Point
Instructions": div.full and ex2.approx are within 2 ulps, rsqrt.approx within a share of 2^-22.9, lg2.approx
within 2^-22 between 0.5 and 2 and within that share elsewhere; .ftz takes subnormal numbers for zero. The
bounds here are twice as large, to leave room for libdevice and for AMD's instructions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kerncap.sanitizer.concrete import ops_basic, ops_dot, ops_pointers, ops_reduce  # noqa: F401  (they fill STEPS)
from kerncap.sanitizer.concrete.dataflow import Dataflow
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.needed_operations import address_operands, needed
from kerncap.sanitizer.concrete.ops_arith import ELEMENTWISE
from kerncap.sanitizer.concrete.plan import STEPS, BuildStep, Plan
from kerncap.sanitizer.concrete.values import Array, Tile, either, element_of, shape_of
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, Value, walk

# Bits of the fraction: what is lost in one rounding.
_FRACTION = {"f64": 52, "f32": 23, "tf32": 10, "f16": 10, "bf16": 7}
_EXACT = frozenset(
    (
        *("arith.negf", "arith.maxnumf", "arith.minnumf", "arith.maximumf", "arith.minimumf", "arith.extf"),
        *("tt.clampf", "math.absf", "math.copysign"),
    )
)
_TO_WHOLE = frozenset(("math.floor", "math.ceil", "math.trunc", "math.round", "math.roundeven"))
TO_INTEGER = frozenset(("arith.fptosi", "arith.fptoui"))
_SUMS = frozenset(("arith.addf", "arith.subf"))
# How many roundings an approximation may be off by.
_APPROXIMATE = {
    "arith.divf": 4.0, "math.sqrt": 4.0, "math.rsqrt": 4.0, "math.exp": 6.0, "math.exp2": 4.0,
    "math.log": 4.0, "math.log2": 4.0,
}  # fmt: skip
_LOGARITHMS = frozenset(("math.log", "math.log2"))
_LEAST_NORMAL = float(np.finfo(np.float32).tiny)
_WHOLE = frozenset(("tt.dot", "tt.dot_scaled", "tt.reduce", "tt.scan"))


class Approximate(Tile):
    """``error``: the most that a GPU's value differs by; broadcasts against ``data``."""

    __slots__ = ("error",)

    def __init__(self, data: Array, error: Array) -> None:
        super().__init__(data, error > 0)
        self.error = error


def rounded_operations(flow: Dataflow, operation: Operation) -> list[Operation]:
    """What decides where a memory operation goes, or whether, and may have another result on a GPU."""
    behind = needed(flow, [operation], address_operands(operation)).evaluated
    return sorted((one for one in behind if rounds_otherwise(one)), key=lambda one: one.order)


def rounds_otherwise(operation: Operation) -> bool:
    name = operation.name
    if name in _WHOLE:
        return _is_float(operation.operands[0]) and (not operation.regions or _adds_floats(operation))
    if name in _SUMS:
        return any(_is_product(one) for one in operation.operands)
    if name in TO_INTEGER or name in _APPROXIMATE or name == "tt.extern_elementwise":
        return any(_is_float(one) for one in operation.operands)
    return (
        name.startswith("math.")
        and name not in _EXACT | _TO_WHOLE | {"math.fma"}
        and _is_float(operation.operands[0])
    )


def _is_float(value: Value) -> bool:
    return isinstance(element_of(value.type), FloatType)


def _is_product(value: Value) -> bool:
    """What the compiler may fuse into an addition: then it is not rounded."""
    return isinstance(value.owner, Operation) and value.owner.name == "arith.mulf"


def _adds_floats(operation: Operation) -> bool:
    names = {one.name for region in operation.regions for one in walk(region)}
    return not names.isdisjoint({"arith.addf", "arith.subf", "arith.mulf", "arith.divf"})


# --- bounds ------------------------------------------------------------------------------------------


def _error_of(tile: Tile) -> Array | float:
    if tile.undefined is None:
        return 0.0
    if not isinstance(tile, Approximate):
        return np.where(tile.undefined, np.inf, 0.0)
    # Undefined without an error: by the condition of a branch.
    return np.where(tile.undefined & (tile.error == 0), np.inf, tile.error)


def _step_of(operation: Operation) -> float:
    """One rounding to the result's type, as a share of the result."""
    kind = element_of(operation.results[0].type)
    assert isinstance(kind, FloatType)
    return 2.0 ** -_FRACTION.get(kind.name, 2)


def approximation_error(name: str, result: Array, x: Array, step: float) -> Array:
    """How far a GPU's ``result`` of the operation ``name`` may be from IEEE's, both float64.

    x: the operand, of a division the dividend; step: one rounding, as a share of the result.
    """
    wide = np.abs(result)
    found = wide * step * _APPROXIMATE[name]
    if name == "math.exp":  # of the operand times log2(e), which is rounded
        found = found * (1.0 + np.abs(x))
    if name in _LOGARITHMS:
        found = found + _APPROXIMATE[name] * step
    # Subnormal numbers are zero to some instructions: as a result, and as an operand.
    found = found + np.where(wide < _LEAST_NORMAL, _LEAST_NORMAL, 0.0)
    if name in ("math.sqrt", "math.rsqrt"):
        found = np.where((x > 0) & (x < _LEAST_NORMAL), np.inf, found)
    return found


def _bound(operation: Operation, result: Array, tiles: list[Tile], compute: Callable[..., Array]) -> Array:
    """How far a GPU's result may be from ``result``."""
    errors = [_error_of(tile) for tile in tiles]
    given = any(np.any(error) for error in errors)
    if not given and not rounds_otherwise(operation):
        return np.zeros(1)
    xs = [tile.data.astype(np.float64) for tile in tiles]
    wide = np.abs(result.astype(np.float64))
    rounding = wide * _step_of(operation)
    name = operation.name
    if name in _SUMS:
        fused = sum(np.abs(x) for x, one in zip(xs, operation.operands, strict=True) if _is_product(one))
        found = errors[0] + errors[1] + rounding + fused * _step_of(operation)
    elif name == "arith.mulf":
        found = np.abs(xs[0]) * errors[1] + np.abs(xs[1]) * errors[0] + errors[0] * errors[1] + rounding
    elif name == "math.fma":
        product = np.abs(xs[0]) * errors[1] + np.abs(xs[1]) * errors[0] + errors[0] * errors[1]
        found = product + errors[2] + rounding
    elif name in ("arith.divf", "tt.precise_divf"):
        least = np.maximum(np.abs(xs[1]) - errors[1], 0.0)
        own = approximation_error("arith.divf", wide, xs[0], _step_of(operation))
        found = (errors[0] + wide * errors[1]) / least + own
    elif name in _EXACT:
        found = np.maximum.reduce([np.broadcast_to(error, wide.shape) for error in errors])
    elif name in _TO_WHOLE or name in _APPROXIMATE or name == "tt.precise_sqrt":
        x, error, native = xs[0], errors[0], tiles[0].data.dtype
        sides = [compute((x + way * error).astype(native)).astype(np.float64) for way in (-1.0, 1.0)]
        found = np.maximum.reduce([np.abs(side - result) for side in sides])
        if name in _APPROXIMATE:
            found = found + approximation_error(name, wide, x, _step_of(operation))
        elif name == "tt.precise_sqrt":
            found = found + rounding
    elif name in ("arith.truncf", "tt.fp_to_fp"):
        found = errors[0] + rounding
    else:
        found = np.full(wide.shape, np.inf)
    # Infinities and NaN of the same operands are the same everywhere.
    alike = ~np.isfinite(result) & ~np.logical_or.reduce([np.broadcast_to(e > 0, wide.shape) for e in errors])
    return np.where(alike, 0.0, np.where(np.isnan(found), np.inf, found))


# --- steps -------------------------------------------------------------------------------------------


def _float_result(plan: Plan, operation: Operation) -> Step:
    compute = ELEMENTWISE[operation.name](operation)

    def apply(tiles: list[Tile]) -> Tile:
        data = compute(*(tile.data for tile in tiles))
        error = _bound(operation, data, tiles, compute)
        return Approximate(data, error) if error.any() else Tile(data)

    return _on_tiles(operation, apply)


def _to_integer(plan: Plan, operation: Operation) -> Step:
    compute = ELEMENTWISE[operation.name](operation)
    kind = element_of(operation.results[0].type)
    assert isinstance(kind, IntType)
    unsigned = operation.name == "arith.fptoui"
    low = 0.0 if unsigned else -(2.0 ** (kind.width - 1))
    high = 2.0 ** (kind.width if unsigned else kind.width - 1)

    def apply(tiles: list[Tile]) -> Tile:
        (tile,) = tiles
        x, error = tile.data.astype(np.float64), _error_of(tile)
        least, most = np.trunc(x - error), np.trunc(x + error)
        # What is out of range has no value; NaN compares as that.
        certain = (least == most) & (least >= low) & (most < high)
        return Tile(compute(tile.data), None if certain.all() else ~certain)

    return _on_tiles(operation, apply)


def _compared(plan: Plan, operation: Operation) -> Step:
    compute = ELEMENTWISE[operation.name](operation)

    def apply(tiles: list[Tile]) -> Tile:
        data = compute(*(tile.data for tile in tiles))
        errors = [_error_of(tile) for tile in tiles]
        reach = errors[0] + errors[1]
        if not np.any(reach):
            return Tile(data)
        x, y = (tile.data.astype(np.float64) for tile in tiles)
        certain = (np.abs(x - y) > reach) | (reach == 0)
        return Tile(data, None if certain.all() else ~certain)

    return _on_tiles(operation, apply)


def _on_tiles(operation: Operation, apply: Callable[[list[Tile]], Tile]) -> Step:
    operands, result = operation.operands, operation.results[0]

    def step(m: Machine) -> None:
        values = [m.env[operand] for operand in operands]
        tiles = [value for value in values if isinstance(value, Tile)]
        if len(tiles) == len(values):
            m.env[result] = apply(tiles)
        else:
            m.env[result] = ops_basic.not_tiles(operation, values)

    return step


def _whole_tiles(build: BuildStep) -> BuildStep:
    """Sums and products over an axis: exact if all of it are whole numbers that the type holds."""

    def make(plan: Plan, operation: Operation) -> Step:
        step = build(plan, operation)
        if not plan.track.rounding or not rounds_otherwise(operation):
            return step
        depth = max((extent for value in operation.operands for extent in shape_of(value.type)), default=1)

        def rounded(m: Machine) -> None:
            step(m)
            if _are_small(m, operation, depth):
                return
            for result in operation.results:
                found = m.env[result]
                if isinstance(found, Tile):
                    every = np.ones((1,) * found.data.ndim, dtype=np.bool_)
                    found.undefined = either(found.undefined, every)

        return rounded

    return make


def _are_small(m: Machine, operation: Operation, depth: int) -> bool:
    tiles = [m.env[operand] for operand in operation.operands]
    if not all(isinstance(tile, Tile) and tile.data.dtype.kind == "f" for tile in tiles):
        return False
    largest = 1.0
    for tile in tiles:
        assert isinstance(tile, Tile)
        if not (np.isfinite(tile.data).all() and (tile.data == np.rint(tile.data)).all()):
            return False
        largest = max(largest, float(np.abs(tile.data).max(initial=0.0)))
    if operation.name in ("tt.dot", "tt.dot_scaled"):
        # TF32 has 10 bits of a fraction, bfloat16 7, and the sums those of a float32.
        return largest < 1 << 7 and largest * largest * depth < 1 << 23
    return largest * depth < 1 << 10


def _chosen(plain: BuildStep, rounding: BuildStep) -> BuildStep:
    return lambda plan, operation: (rounding if plan.track.rounding else plain)(plan, operation)


def _by_result(plan: Plan, operation: Operation) -> Step:
    """An element-wise operation of floats; of integers, what it always is."""
    if operation.name in TO_INTEGER:
        return _to_integer(plan, operation)
    if operation.name == "arith.cmpf":
        return _compared(plan, operation)
    if _is_float(operation.results[0]) and all(_is_float(one) for one in operation.operands):
        return _float_result(plan, operation)
    return ops_basic.elementwise(plan, operation)


for _name in ELEMENTWISE:
    STEPS[_name] = _chosen(STEPS[_name], _by_result)
for _name in _WHOLE:
    STEPS[_name] = _whole_tiles(STEPS[_name])
