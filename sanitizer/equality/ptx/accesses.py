"""Instructions that access memory: loads, stores, and the parameters of kernels and calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.equality.degrees import VARIABLE
from kerncap.sanitizer.equality.numbers import Array, NotModelled
from kerncap.sanitizer.equality.ptx.code import Address, Group, Instruction, Operand, Register, Symbol
from kerncap.sanitizer.equality.ptx.machine import Machine
from kerncap.sanitizer.equality.ptx.reader import size_of
from kerncap.sanitizer.equality.ptx.values import FLOATS, INTEGER, SHARED, Value, of_active, spread

_SPACES = ("global", "shared", "const", "param")
# Words that say nothing of what is loaded: caches, and a scope with an order that needs no other thread.
IGNORED = frozenset(("weak", "nc", "ca", "cg", "cs", "lu", "wb", "wt", "relaxed", "gpu", "cta", "cluster"))
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def _form(one: Instruction) -> tuple[str, int]:
    """The space, and how many elements; the space is empty if the address says it."""
    space, count = "", 1
    for word in one.parts[1:-1]:
        if word in _SPACES:
            space = word
        elif word in ("shared_cta", "param_entry"):
            space = word.partition("_")[0]
        elif word in _VECTORS:
            count = _VECTORS[word]
        elif word not in IGNORED and not word.startswith(("L1_", "L2_")):
            raise NotModelled("not modelled")
    if not size_of(one.type):
        raise NotModelled("not modelled")
    return space, count


def _load(m: Machine, one: Instruction) -> None:
    space, count = _form(one)
    target, place = one.operands
    targets = target.items if isinstance(target, Group) else (target,)
    if len(targets) != count:
        raise NotModelled("a result in another number of registers")
    width = size_of(one.type)
    if space == "param":
        for at, register in enumerate(targets):
            m.write(register, _parameter(m, one, place, at * width))
        return
    base, addresses = address_of(m, place, space, count * width)
    for at, register in enumerate(targets):
        here, threads = addresses + np.uint64(at * width), m.numbers[m.active]
        if base <= SHARED:
            found = m.shared.load(m.range_of(base), m.block[m.active], here, width, threads)
        else:
            found = m.memory.load(base, here, one.type, width, threads, constant="nc" in one.parts)
        m.write(register, spread(m.active, _widened(found, one.type)))


def address_of(m: Machine, place: Operand, space: str, width: int) -> tuple[int, Array]:
    """Of accesses of ``width`` bytes."""
    base, addresses = m.address(place)
    if space and (base <= SHARED) != (space == "shared"):
        raise NotModelled("an address in another memory")
    if (addresses % np.uint64(width)).any():
        raise NotModelled("an address that is not a multiple of the access's size")
    return base, addresses


def _widened(value: Value, type_: str) -> Value:
    """Loads of signed bytes fill the register with the sign."""
    width = 8 * size_of(type_)
    if type_[0] != "s" or width == 64 or value.kind != INTEGER:
        return value
    shift = np.uint64(64 - width)
    data = (value.data << shift).view(np.int64) >> np.int64(64 - width)
    return replace(value, data=data.view(np.uint64))


def _parameter(m: Machine, one: Instruction, place: object, further: int) -> Value:
    if not isinstance(place, Address) or not isinstance(place.base, Symbol | Register):
        raise NotModelled("an address of a parameter that is computed")
    start = m.parameter(place.base.name)
    if start is None:
        found = m.parameters.get((place.base.name, place.offset + further))
        if found is None or found.defined is not None and not found.defined[m.active].all():
            raise NotModelled("a parameter that is not set")
        return found
    at, width = start + place.offset + further, size_of(one.type)
    raw = m.launch.buffer[at : at + width]
    if len(raw) != width:
        raise NotModelled("a parameter that was not captured")
    bits = int.from_bytes(raw, "little")
    name = m.passed.get(at)
    if name is not None:
        kind = name[1]
        value = float(formats.decode(np.array([bits], dtype=np.dtype(f"u{width}")), kind)[0])
        return Value(kind, m.floats.numbers.scalar(name[0], value), VARIABLE)
    base = m.memory.storage_at(bits) if width == 8 else None
    return _widened(Value(INTEGER, np.array([bits], dtype=np.uint64), base=base), one.type)


def _store(m: Machine, one: Instruction) -> None:
    space, count = _form(one)
    place, source = one.operands
    sources = source.items if isinstance(source, Group) else (source,)
    if len(sources) != count:
        raise NotModelled("another number of registers")
    width = size_of(one.type)
    values = [m.read(operand) for operand in sources]
    for value in values:
        if value.unknown:
            raise NotModelled(value.unknown)
    if one.type in FLOATS:
        values = [m.floats.of(value, one.type) for value in values]
    if space == "param":
        if not isinstance(place, Address) or not isinstance(place.base, Symbol | Register):
            raise NotModelled("an address of a parameter that is computed")
        for at, value in enumerate(values):
            kept = value if m.all_active else replace(value, defined=m.active)
            m.parameters[place.base.name, place.offset + at * width] = kept
        return
    base, addresses = address_of(m, place, space, count * width)
    for at, value in enumerate(values):
        here, threads = addresses + np.uint64(at * width), m.numbers[m.active]
        taken = of_active(m.active, value)
        if taken.kind == INTEGER and width < 8:
            taken = replace(taken, data=taken.data & np.uint64((1 << 8 * width) - 1))
        if base <= SHARED:
            m.shared.store(m.range_of(base), m.block[m.active], here, taken, width, threads)
        else:
            m.memory.store(base, here, taken, width, threads)


ACCESSES: dict[str, Callable[[Machine, Instruction], None]] = {
    "ld": _load, "ldu": _load, "st": _store,
}  # fmt: skip
