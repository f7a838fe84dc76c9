"""Matrix products: float32 or float64 accumulation of floats, exact products of integers."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.ops_basic import not_tiles
from kerncap.sanitizer.concrete.plan import STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    Array,
    Bools,
    Tile,
    Unsupported,
    any_along,
    either,
    element_of,
    full,
    numpy_type,
    shape_of,
    where,
)
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, Type


def _product(left: Array, right: Array, target: Type) -> Array:
    native = numpy_type(target)
    if isinstance(target, IntType):
        # Products of 8-bit integers are exact in double precision up to a depth of 2**38, and a
        # floating-point product is much faster than numpy's integer one.
        wide = np.matmul(left.astype(np.float64), right.astype(np.float64))
        found: Array = wide.astype(np.int64).astype(native)
        return found
    accumulate = np.float64 if native == np.float64 else np.float32
    product: Array = np.matmul(left.astype(accumulate, copy=False), right.astype(accumulate, copy=False))
    return product


def _undefined(left: Tile, right: Tile, a: tuple[int, ...], b: tuple[int, ...]) -> Bools | None:
    """One undefined factor in a row or column reaches all that is summed over it."""
    rows = None if left.undefined is None else any_along(left.undefined, a, -1, keepdims=True)
    columns = None if right.undefined is None else any_along(right.undefined, b, -2, keepdims=True)
    return either(rows, columns)


def _dot(plan: Plan, operation: Operation) -> Step:
    left, right, start = operation.operands[:3]
    result = operation.results[0]
    a, b, target = shape_of(left.type), shape_of(right.type), element_of(result.type)
    numpy_type(target)
    name = target.name if isinstance(target, FloatType) else None

    def step(m: Machine) -> None:
        x, y, c = values = [m.env[left], m.env[right], m.env[start]]
        if not (isinstance(x, Tile) and isinstance(y, Tile) and isinstance(c, Tile)):
            m.env[result] = not_tiles(operation, values)
            return
        total = _product(full(x.data, a), full(y.data, b), target) + c.data
        if name is not None:
            total = formats.rounded(total, name)
        m.env[result] = Tile(total, either(_undefined(x, y, a, b), c.undefined))

    return step


# --- products of scaled small floats -----------------------------------------------------------------

_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)
_SMALL = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}


def _unpacked(values: Array, axis: int) -> Array:
    """Two 4-bit floats per byte along an axis, the low half first."""
    whole = np.moveaxis(values.view(np.uint8), axis, -1)
    pairs = np.stack([_E2M1[whole & 0x0F], _E2M1[whole >> 4]], axis=-1)
    return np.moveaxis(pairs.reshape(*whole.shape[:-1], -1), -1, axis)


def _operand(values: Array, kind: str, k_pack: bool, depth_axis: int) -> Array:
    if kind == "e2m1":
        return _unpacked(np.ascontiguousarray(values), depth_axis if k_pack else -3 - depth_axis)
    if values.dtype == np.int8:
        return formats.decode(np.ascontiguousarray(values).view(np.uint8), _SMALL[kind])
    return values.astype(np.float32)


def _scales(values: Array, times: int) -> Array:
    """Powers of two (E8M0; 255 is NaN), or floats as they are, each for ``times`` elements."""
    if values.dtype == np.int8:
        exponents = np.ascontiguousarray(values).view(np.uint8).astype(np.int32)
        factors = np.where(exponents == 255, np.float32(np.nan), np.ldexp(np.float32(1), exponents - 127))
    else:
        factors = values.astype(np.float32)
    return np.repeat(factors, times, axis=-1)


def _dot_scaled(plan: Plan, operation: Operation) -> Step:
    attributes = operation.attributes
    kinds = [
        str(attributes.get(word, attributes.get(name, "")))
        for word, name in (("lhs", "a_elem_type"), ("rhs", "b_elem_type"))
    ]
    known = {"e2m1", "e4m3", "e5m2", "bf16", "fp16"}
    if not known.issuperset(kinds) or "operand_segments" not in attributes:
        raise Unsupported(f"{where(operation)} of {' and '.join(kinds)}")
    names = ("a", "b", "c", "a_scale", "b_scale")
    a, b, start, a_scale, b_scale = (operation.segment(name) for name in names)
    if a is None or b is None or start is None:
        raise Unsupported(where(operation))
    packs = [bool(attributes.get(name, True)) for name in ("lhs_k_pack", "rhs_k_pack")]
    result = operation.results[0]
    target = element_of(result.type)
    numpy_type(target)

    def step(m: Machine) -> None:
        values = [None if name is None else m.env[name] for name in (a, b, start, a_scale, b_scale)]
        x, y, c, p, q = values
        wanted = [
            v for v, name in zip(values, (a, b, start, a_scale, b_scale), strict=True) if name is not None
        ]
        if not all(isinstance(value, Tile) for value in wanted):
            m.env[result] = not_tiles(operation, wanted)
            return
        assert isinstance(x, Tile) and isinstance(y, Tile) and isinstance(c, Tile)
        left = _operand(full(x.data, shape_of(a.type)), kinds[0], packs[0], -1)
        right = _operand(full(y.data, shape_of(b.type)), kinds[1], packs[1], -2)
        depth = left.shape[-1]
        if isinstance(p, Tile) and a_scale is not None:
            shape = shape_of(a_scale.type)
            left = left * _scales(full(p.data, shape), depth // shape[-1])
        if isinstance(q, Tile) and b_scale is not None:
            shape = shape_of(b_scale.type)
            right = right * np.swapaxes(_scales(full(q.data, shape), depth // shape[-1]), -1, -2)
        total = np.matmul(left, right) + c.data
        unsure = [v.undefined for v in wanted if isinstance(v, Tile) and v.undefined is not None]
        undefined = np.ones((1,) * total.ndim, dtype=np.bool_) if any(u.any() for u in unsure) else None
        name = target.name if isinstance(target, FloatType) else "f32"
        m.env[result] = Tile(formats.rounded(total, name), undefined)

    return step


STEPS["tt.dot"] = _dot
STEPS["tt.dot_scaled"] = _dot_scaled
