"""What each instruction does to the active threads of a `Machine`, by table.

A word that is not known here is not modelled: an instruction is run only if all of it is understood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.equality.degrees import summed, widest
from kerncap.sanitizer.equality.numbers import Array, NotModelled
from kerncap.sanitizer.equality.ptx import bits, integers
from kerncap.sanitizer.equality.ptx.accesses import ACCESSES
from kerncap.sanitizer.equality.ptx.async_copies import COPIES
from kerncap.sanitizer.equality.ptx.atomics import ATOMICS
from kerncap.sanitizer.equality.ptx.code import Group, Instruction, Integer, Operand, Register, Symbol
from kerncap.sanitizer.equality.ptx.floats import FUNCTIONS
from kerncap.sanitizer.equality.ptx.machine import Machine
from kerncap.sanitizer.equality.ptx.matrices import OF_MATRICES
from kerncap.sanitizer.equality.ptx.values import (
    FLOATS,
    INTEGER,
    PREDICATE,
    SHARED,
    Value,
    as_integer,
    as_predicate,
    integer,
    is_float,
    packed,
    split,
)
from kerncap.sanitizer.equality.ptx.warps import OF_WARPS

Step = Callable[[Machine, Instruction], None]
_HALVES = {"f16x2": "f16", "bf16x2": "bf16"}
_ON_INTEGERS = {**integers.OPERATIONS, **bits.OPERATIONS}
_LOGIC: dict[str, Callable[..., Array]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not,
}  # fmt: skip


def table(one: Instruction) -> Step | str:
    """The step of an instruction, or why there is none."""
    found = _STEPS.get(one.parts[0])
    return "not modelled" if found is None else found


def _reads(m: Machine, one: Instruction) -> list[Value]:
    return [m.read(operand) for operand in one.operands[1:]]


# --- arithmetic ---------------------------------------------------------------------------------------------


def _arithmetic(m: Machine, one: Instruction) -> None:
    kind, target = one.type, one.operands[0]
    if kind == "pred" and one.parts[0] in _LOGIC:
        given = [as_predicate(value) for value in _reads(m, one)]
        data = _LOGIC[one.parts[0]](*(value.data for value in given))
        m.write(target, Value(PREDICATE, data, summed(value.degree for value in given)))
    elif kind in FLOATS and one.parts[0] in FUNCTIONS:
        m.write(target, m.floats.compute(one.parts[:-1], kind, _reads(m, one)))
    elif kind in _HALVES and one.parts[0] in FUNCTIONS:
        both = zip(*(split(value, 2, 16) for value in _reads(m, one)), strict=True)
        half = _HALVES[kind]
        parts = tuple(m.floats.compute(one.parts[:-1], half, list(given)) for given in both)
        m.write(target, packed(parts))
    else:
        m.write(target, _of_integers(m, one, _reads(m, one)))


def _of_integers(m: Machine, one: Instruction, given: list[Value]) -> Value:
    operation, kind = ".".join(one.parts[:-1]), one.type
    compute = _ON_INTEGERS.get(operation)
    if compute is None:
        raise NotModelled("not modelled")
    values = [as_integer(value) for value in given]
    found = integer(compute(kind, *(value.data for value in values)), *values)
    if operation in ("div", "rem"):
        divisor = np.broadcast_to(integers.fit(values[1].data, integers.width_of(kind)), (m.count,))
        if (divisor[m.active] == 0).any():
            raise NotModelled("a division by zero")
    return replace(found, base=_base(operation, values))


def _base(operation: str, values: list[Value]) -> int | None:
    """Of a sum of one address and numbers, what the address points into."""
    bases = [at for at, value in enumerate(values) if value.base is not None]
    if len(bases) != 1:
        return None
    moved = operation == "add" or operation == "sub" and bases == [0]
    return values[bases[0]].base if moved or operation[:4] == "mad." and bases == [2] else None


def _lookup(m: Machine, one: Instruction) -> None:
    *given, chosen = (as_integer(value) for value in _reads(m, one))
    if one.type != "b32" or len(given) != 3 or chosen.data.size != 1:
        raise NotModelled("not modelled")
    data = bits.looked_up(int(chosen.data[0]), *(value.data for value in given))
    m.write(one.operands[0], integer(data, *given))


def _permute(m: Machine, one: Instruction) -> None:
    """Of two halves each, those that are chosen whole; else bytes of integers."""
    low, high, chosen = _reads(m, one)
    if low.kind == high.kind == INTEGER:
        m.write(one.operands[0], _of_integers(m, one, [low, high, chosen]))
        return
    selectors = as_integer(chosen)
    pairs = {0x10: 0, 0x32: 1, 0x54: 2, 0x76: 3}
    if one.parts != ("prmt", "b32") or selectors.data.size != 1:
        raise NotModelled("not modelled")
    number = int(selectors.data[0]) & 0xFFFF
    halves = [*split(low, 2, 16), *split(high, 2, 16)]
    at = [pairs.get(one_of) for one_of in (number & 0xFF, number >> 8)]
    if None in at:
        raise NotModelled("a part of a float")
    m.write(one.operands[0], packed(tuple(halves[place] for place in at if place is not None), 16))


# --- comparisons and choices --------------------------------------------------------------------------------


def _compare(m: Machine, one: Instruction) -> None:
    words = [word for word in one.parts[1:-1] if word != "ftz"]
    target, *rest = one.operands
    x, y, *more = (m.read(operand) for operand in rest)
    found = _compared(m, words[0], one.type, x, y)
    if len(words) > 2 or len(words) - 1 != len(more) or words[1:] and words[1] not in ("and", "or", "xor"):
        raise NotModelled("not modelled")
    negated = replace(found, data=~found.data, compared=None)
    targets = target.items if isinstance(target, Group) else (target,)
    for register, value in zip(targets, (found, negated), strict=False):
        if more:
            also = as_predicate(more[0])
            data = _LOGIC[words[1]](value.data, also.data)
            value = Value(PREDICATE, data, summed([value.degree, also.degree]))
        m.write(register, value)


def _compared(m: Machine, word: str, kind: str, x: Value, y: Value) -> Value:
    if kind in FLOATS:
        return m.floats.compare(word, kind, [x, y])
    word = integers.UNSIGNED.get(word, word)
    compute = integers.COMPARISONS.get(word)
    if compute is None:
        raise NotModelled(f"the comparison {word}")
    x, y = as_integer(x), as_integer(y)
    data = compute(integers.typed(x.data, kind), integers.typed(y.data, kind))
    return Value(PREDICATE, data, summed([x.degree, y.degree]))


def _select(m: Machine, one: Instruction) -> None:
    yes, no, condition = _reads(m, one)
    if len(one.parts) != 2:
        raise NotModelled("not modelled")
    condition = as_predicate(condition)
    kind = one.type if one.type in FLOATS else next((v.kind for v in (yes, no) if is_float(v)), None)
    if kind is not None:
        values = [m.floats.of(value, kind) for value in (yes, no)]
        m.write(one.operands[0], m.floats.select(values[0], values[1], condition, m.active))
        return
    yes, no = as_integer(yes), as_integer(no)
    degree = summed([widest([yes.degree, no.degree]), condition.degree])
    data = np.where(condition.data, yes.data, no.data)
    base = yes.base if yes.base == no.base else None
    m.write(one.operands[0], Value(INTEGER, data, degree, base, literal=yes.literal and no.literal))


def _test(m: Machine, one: Instruction) -> None:
    _, name, kind = one.parts
    if kind not in FLOATS:
        raise NotModelled("not modelled")
    m.write(one.operands[0], m.floats.test(name, m.floats.of(m.read(one.operands[1]), kind)))


# --- moves and conversions ----------------------------------------------------------------------------------


def _move(m: Machine, one: Instruction) -> None:
    target, source = one.operands
    if len(one.parts) != 2:
        raise NotModelled("not modelled")
    if isinstance(target, Group):
        count = len(target.items)
        for register, part in zip(
            target.items, split(m.read(source), count, integers.width_of(one.type) // count), strict=True
        ):
            m.write(register, part)
    elif isinstance(source, Group):
        parts = tuple(m.read(item) for item in source.items)
        m.write(target, packed(parts, integers.width_of(one.type) // len(parts)))
    else:
        value = m.read(source)
        if one.type in FLOATS:
            value = m.floats.of(value, one.type)
        if one.type == "pred" and isinstance(source, Integer):
            value = Value(PREDICATE, value.data != 0)
        m.write(target, value)


def _to_address(m: Machine, one: Instruction) -> None:
    m.write(one.operands[0], m.read(one.operands[1]))


def _convert(m: Machine, one: Instruction) -> None:
    *words, to, source = one.parts[1:]
    given = _reads(m, one)
    if to in _HALVES and source == "f32" and len(given) == 2:
        halves = tuple(
            m.floats.convert(tuple(words), _HALVES[to], m.floats.of(value, source)) for value in given
        )
        m.write(one.operands[0], packed(halves[::-1]))
        return
    [value] = given
    if to == "tf32" and source == "f32" and words in (["rna"], ["rn"]):
        single = m.floats.of(value, source)
        found = replace(single, data=m.floats.in_tf32(single.data, nearest=True), literal=False)
        m.floats.functions.add("cast")
    elif source in FLOATS and to in FLOATS:
        found = m.floats.convert(tuple(words), to, m.floats.of(value, source))
    elif to in FLOATS:
        whole = as_integer(value)
        found = m.floats.from_integers(tuple(words), to, integers.typed(whole.data, source), whole)
    elif source in FLOATS:
        raise NotModelled("an integer of a float")
    else:
        if words:
            raise NotModelled("not modelled")
        whole = as_integer(value)
        data = integers.untyped(integers.typed(whole.data, source), integers.width_of(to))
        found = integer(data, whole)
        same = integers.width_of(to) == integers.width_of(source) == 64
        if same or whole.base is not None and whole.base <= SHARED:
            found = replace(found, base=whole.base)
    m.write(one.operands[0], found)


# --- barriers and calls ---------------------------------------------------------------------------


def _barrier(m: Machine, one: Instruction) -> None:
    words = [word for word in one.parts[1:] if word not in ("cta", "aligned")]
    known = words == ["sync"] and isinstance(one.operands[0], Integer) or words == ["warp", "sync"]
    if not known or len(one.operands) != 1:
        raise NotModelled("not modelled")


def _nothing(m: Machine, one: Instruction) -> None:
    """A fence: threads are ordered by barriers only here."""


def _call(m: Machine, one: Instruction) -> None:
    groups = [operand for operand in one.operands if isinstance(operand, Group)]
    [name] = [operand.name for operand in one.operands if isinstance(operand, Symbol)]
    if not name.startswith("__nv_") or len(groups) != 2 or len(groups[0].items) != 1:
        raise NotModelled(f"the function {name}")
    given = [_argument(m, operand) for operand in groups[1].items]
    target = groups[0].items[0]
    known = integers.LIBRARY.get(name)
    if known is not None:
        operation, kind = known
        found = _of_integers(m, Instruction((*operation.split("."), kind), ()), given)
    else:
        kinds = [value.kind for value in given if is_float(value)]
        tested = m.floats.tested(name, given) if len(kinds) == len(given) == 1 else None
        if tested is not None:
            data = np.where(tested.data, np.uint64(1), np.uint64(0))
            found = Value(INTEGER, data, tested.degree)
        elif len(kinds) == len(given) and len(set(kinds)) == 1:
            found = m.floats.library(name, given, kinds[0])
        else:
            raise NotModelled(f"the function {name}")
    m.parameters[_parameter(target), 0] = found if m.all_active else replace(found, defined=m.active)


def _argument(m: Machine, operand: Operand) -> Value:
    found = m.parameters.get((_parameter(operand), 0))
    if found is None or found.defined is not None and not found.defined[m.active].all():
        raise NotModelled("an argument that is not set")
    return found


def _parameter(operand: Operand) -> str:
    if not isinstance(operand, Register | Symbol):
        raise NotModelled("an argument that is not a parameter")
    return operand.name


_ARITHMETIC = dict.fromkeys((*FUNCTIONS, *(name.partition(".")[0] for name in _ON_INTEGERS)), _arithmetic)
_STEPS: dict[str, Step] = {
    **_ARITHMETIC, **ACCESSES, **ATOMICS, **OF_WARPS, **OF_MATRICES, **COPIES, "prmt": _permute,
    "lop3": _lookup, "setp": _compare, "selp": _select, "testp": _test,
    "mov": _move, "cvta": _to_address, "cvt": _convert, "bar": _barrier,
    "barrier": _barrier, "membar": _nothing, "fence": _nothing, "call": _call,
}  # fmt: skip
