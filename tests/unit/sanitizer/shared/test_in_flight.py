"""Boxes, barriers and integers of the check of shared memory, each against its definition."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from kerncap.sanitizer.shared.in_flight import Barrier, Thread
from kerncap.sanitizer.shared.operands import has
from kerncap.sanitizer.shared.scalars import computed
from kerncap.sanitizer.shared.views import Box, inside, memory_type, outside, overlap
from kerncap.sanitizer.ttir.ir import IntType, OpaqueType, Operation, Value

_AXIS = st.tuples(st.integers(0, 4), st.integers(1, 3)).map(lambda one: (one[0], one[0] + one[1]))
_BOX = st.tuples(_AXIS, _AXIS)


def cells(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(low, high) for low, high in box)))


@given(_BOX, st.lists(_BOX, max_size=4))
def test_what_parts_leave_of_a_box(box: Box, parts: list[Box]) -> None:
    rest = cells(box) - set().union(*map(cells, parts))
    found = outside(box, parts)
    assert (found is None) == (not rest)
    assert found is None or cells(found) <= cells(box)
    for part in parts:
        assert overlap(box, part) == bool(cells(box) & cells(part))
        assert inside(box, part) == (cells(box) <= cells(part))


def test_a_phase_ends_with_its_arrivals_and_its_bytes() -> None:
    barrier, one, other = Barrier("full", 2, 2), Thread("one"), Thread("other")
    one.tick()
    barrier.expect(one, 64)
    assert barrier.bring(other, 64) == (barrier, 0)
    assert barrier.phase == 0 and barrier.lacks() == "1 of 2 arrivals"
    barrier.arrive(other)
    assert barrier.phase == 1 and barrier.ended[0][one] == 1
    # Bytes that nobody announced are the next phase's.
    assert barrier.bring(one, 32) == (barrier, 1)
    barrier.arrive(one, 2)
    assert barrier.phase == 1 and barrier.lacks() == "an announcement of 32 bytes that copies bring"


def test_a_flag_of_an_operation() -> None:
    there = [
        has(Operation("copy", attributes={"multicast": value}), "multicast") for value in (None, True, 1)
    ]
    absent = [has(Operation("copy", attributes=a), "multicast") for a in ({"multicast": False}, {})]
    assert all(there) and not any(absent)


def test_the_type_of_a_memory_descriptor() -> None:
    found = memory_type(OpaqueType("!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable, 4x128x64>"))
    assert found is not None and (found.shape, found.size_bytes) == ((3, 128, 64), 3 * 128 * 64 * 2)
    assert memory_type(OpaqueType("!ttg.async.token")) is None
    assert memory_type(OpaqueType("!ttg.memdesc<99999999x99999999xf16, #shared, #smem>")) is None


def _towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_U = 1 << 32
_EXACT: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": _towards_zero,
    "remsi": lambda a, b: a - b * _towards_zero(a, b),
    "divui": lambda a, b: a % _U // (b % _U),
    "remui": lambda a, b: a % _U % (b % _U),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "shrui": lambda a, b: a % _U >> b,
    "maxui": lambda a, b: max(a % _U, b % _U),
    "minsi": min,
}


@given(st.sampled_from(sorted(_EXACT)), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_numbers_and_arrays_agree_and_wrap(name: str, a: int, b: int) -> None:
    kind = IntType(32)
    operation = Operation(f"arith.{name}", (Value("%a", kind), Value("%b", kind)), (Value("%r", kind),))
    if name == "shrui":
        b %= 32
    assume(b != 0)
    one = computed(operation, [a, b])
    many = computed(operation, [np.array([a], np.int64), b])
    assert isinstance(one, int) and isinstance(many, np.ndarray) and int(many[0]) == one
    assert (one - _EXACT[name](a, b)) % _U == 0 and -(2**31) <= one < 2**31
