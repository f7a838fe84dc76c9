"""Atomic instructions in global and shared memory: sums, maxima and bits, in any order.

What one gives back depends on the order of threads, so no one may use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.equality.numbers import Array, NotModelled
from kerncap.sanitizer.equality.ptx import integers
from kerncap.sanitizer.equality.ptx.accesses import IGNORED, address_of
from kerncap.sanitizer.equality.ptx.code import Instruction
from kerncap.sanitizer.equality.ptx.machine import Machine
from kerncap.sanitizer.equality.ptx.reader import size_of
from kerncap.sanitizer.equality.ptx.values import FLOATS, INTEGER, SHARED, Value, as_integer, of_active, split

_OF_FLOATS = {"add": "add", "max": "maxnum", "min": "minnum"}
# Of integers those that leave the same in any order.
_OF_INTEGERS = ("add", "min", "max", "and", "or", "xor")
_HALVES = {"f16x2": "f16", "bf16x2": "bf16"}
_SPACES = ("global", "shared", "shared_cta")


def _atomic(m: Machine, one: Instruction) -> None:
    words = [word for word in one.parts[1:-1] if word not in (*IGNORED, *_SPACES, "noftz")]
    space = next((word for word in one.parts if word in _SPACES), "").partition("_")[0]
    *target, place, source = one.operands
    known = one.type in FLOATS or one.type in _HALVES
    if len(words) != 1 or words[0] not in (_OF_FLOATS if known else _OF_INTEGERS) or len(target) > 1:
        raise NotModelled("not modelled")
    base, addresses = address_of(m, place, space, size_of(one.type))
    given = m.read(source)
    if one.type in _HALVES:
        values = [m.floats.of(half, _HALVES[one.type]) for half in split(given, 2, 16)]
    else:
        values = [m.floats.of(given, one.type) if known else as_integer(given)]
    width = size_of(one.type) // len(values)
    for at, value in enumerate(values):
        _combined(m, base, addresses + np.uint64(at * width), words[0], one.type, value, width)
    if target:
        why = f"what {one.name} gives back depends on the order of threads"
        m.write(target[0], Value(INTEGER, np.zeros(1, np.uint64), unknown=why))


def _combined(
    m: Machine, base: int, addresses: Array, word: str, type_: str, value: Value, width: int
) -> None:
    if value.kind == INTEGER:
        name = f"{word} of {type_}"
        operation = integers.OPERATIONS[word]
        mask = np.uint64((1 << 8 * width) - 1)
        value = replace(value, data=value.data & mask, base=None)

        def of_integers(old: Array, new: Array) -> Array:
            return np.asarray(operation(type_, old, new) & mask)

        compute: Callable[[Array, Array], Array] = of_integers
    else:
        name = _OF_FLOATS[word]
        m.floats.functions.add(name)

        def of_floats(old: Array, new: Array) -> Array:
            return m.floats.numbers.apply(name, old, new)

        compute = of_floats
    mine, threads = of_active(m.active, value), m.numbers[m.active]
    if base <= SHARED:
        m.shared.combine(m.range_of(base), m.block[m.active], addresses, name, compute, mine, width, threads)
    else:
        m.memory.combine(base, addresses, name, compute, mine, width, threads)


ATOMICS = {"atom": _atomic, "red": _atomic}
