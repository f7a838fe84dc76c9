"""What a register of all threads holds: integers as their bits, floats as `Numbers`, or several in one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.equality.degrees import Degree, summed, widest
from kerncap.sanitizer.equality.numbers import Array, Bools, NotModelled, Numbers
from kerncap.sanitizer.ttir.ir import FloatType


class HoldsFloats(NotModelled):
    """Memory of which the first use of its elements says that they are floats."""

    def __init__(self, storage: int, kind: str) -> None:
        super().__init__(f"integers taken for {kind}")
        self.storage, self.kind = storage, kind


FLOATS = {
    "f16": FloatType("f16", 16),
    "bf16": FloatType("bf16", 16),
    "f32": FloatType("f32", 32),
    "f64": FloatType("f64", 64),
}
INTEGER, PREDICATE, PACKED = "int", "pred", "packed"
SHARED = -2  # the base of an address in the first variable in shared memory, -3 the second; else storages
_MOST_LITERALS = 64


@dataclass(frozen=True, eq=False)
class Value:
    """One entry per thread in ``data``, or one for all.

    ``kind``: INTEGER (uint64, of which the instruction says how many bits count), PREDICATE (bool), PACKED,
    or the name of a float type, then `Numbers`.
    ``base``: what an address points into. ``defined``: threads in which it is set (None: all).
    ``literal``: bits that the code itself says. ``unknown``: why nobody knows it. ``loaded``: the storage
    whose elements these bits are, if it is not known what it holds.
    ``compared``: the comparison that a predicate is of, and in which threads (None: all).
    """

    kind: str
    data: Array
    degree: Degree = Degree()
    base: int | None = None
    defined: Bools | None = None
    literal: bool = False
    parts: tuple[Value, ...] = ()
    unknown: str = ""
    loaded: int | None = None
    compared: tuple[str, Value, Value, Bools | None] | None = None


def integer(data: Array, *of: Value) -> Value:
    """``of``: what it is made of."""
    literal = bool(of) and all(one.literal for one in of)
    return Value(INTEGER, data, summed(one.degree for one in of), literal=literal)


def uniform(bits: int) -> Value:
    return Value(INTEGER, np.array([bits & (1 << 64) - 1], dtype=np.uint64), literal=True)


def packed(parts: tuple[Value, ...], width: int = 0) -> Value:
    """Several in one, the lowest first; of integers of ``width`` bits one."""
    if width and all(one.kind == INTEGER and not one.unknown for one in parts):
        data = np.zeros(1, np.uint64)
        for at, one in enumerate(parts):
            data = data | (one.data & np.uint64((1 << width) - 1)) << np.uint64(at * width)
        loaded = {one.loaded for one in parts}
        return replace(integer(data, *parts), loaded=loaded.pop() if len(loaded) == 1 else None)
    return Value(PACKED, np.zeros(1, np.uint64), parts=parts)


def is_float(value: Value) -> bool:
    return value.kind in FLOATS


def as_integer(value: Value) -> Value:
    """Raises NotModelled for the bits of a float."""
    if value.unknown:
        raise NotModelled(value.unknown)
    if value.kind == INTEGER:
        return value
    raise NotModelled("the bits of a float")


def as_predicate(value: Value) -> Value:
    if value.unknown:
        raise NotModelled(value.unknown)
    if value.kind != PREDICATE:
        raise NotModelled("a number taken for a predicate")
    return value


def as_float(value: Value, kind: str, numbers: Numbers) -> Value:
    """Bits that the code says are the constant that they are. Raises NotModelled for other integers."""
    if value.unknown:
        raise NotModelled(value.unknown)
    if value.kind == kind:
        return value
    if value.kind == INTEGER and value.loaded is not None:
        raise HoldsFloats(value.loaded, kind)
    if value.kind != INTEGER or not value.literal:
        raise NotModelled(f"{_words(value)} taken for {kind}")
    distinct, at = np.unique(value.data, return_inverse=True)
    if len(distinct) > _MOST_LITERALS:
        raise NotModelled(f"{_words(value)} taken for {kind}")
    width = FLOATS[kind].width
    bits = distinct.astype(np.dtype(f"u{width // 8}"))
    words = [numbers.constant(float(one)) for one in formats.decode(bits, kind).astype(np.float64)]
    return Value(kind, np.concatenate(words)[at.reshape(-1)], Degree())


def _words(value: Value) -> str:
    return {INTEGER: "integers", PREDICATE: "a predicate", PACKED: "two numbers"}.get(value.kind, value.kind)


def split(value: Value, count: int, width: int) -> tuple[Value, ...]:
    """Of a register, its ``count`` parts of ``width`` bits, the lowest first."""
    if value.kind == PACKED:
        if len(value.parts) != count:
            raise NotModelled("a register that is divided in two ways")
        return value.parts
    bits = as_integer(value)
    mask = np.uint64((1 << width) - 1)
    return tuple(
        replace(bits, data=bits.data >> np.uint64(at * width) & mask, base=None) for at in range(count)
    )


def merged(active: Bools, new: Value, old: Value | None) -> Value:
    """``new`` in the active threads, what was before in the others."""
    if new.compared is not None:
        new = replace(new, compared=(*new.compared[:3], active))
    if old is None or old.unknown or new.unknown:
        return replace(new, defined=active)
    if old.kind != new.kind or len(old.parts) != len(new.parts) or old.base != new.base:
        return replace(new, defined=active)
    return Value(
        new.kind,
        np.where(active, new.data, old.data),
        widest([new.degree, old.degree]),
        new.base,
        None if old.defined is None else old.defined | active,
        new.literal and old.literal,
        tuple(merged(active, a, b) for a, b in zip(new.parts, old.parts, strict=True)),
        loaded=new.loaded if new.loaded == old.loaded else None,
        compared=new.compared,
    )


def spread(active: Bools, value: Value) -> Value:
    """One entry for each thread, from one for each active one."""
    if active.all():
        return value
    data: Array = np.zeros(len(active), dtype=value.data.dtype)
    data[active] = value.data
    return replace(value, data=data, parts=tuple(spread(active, part) for part in value.parts))


def of_active(active: Bools, value: Value) -> Value:
    """One entry for each active thread."""
    data = value.data if value.data.size == 1 else value.data[active]
    return replace(value, data=data, parts=tuple(of_active(active, part) for part in value.parts))
