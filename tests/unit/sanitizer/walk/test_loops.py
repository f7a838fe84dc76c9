"""What a loop-carried value is in iteration k, for loops of every kind; asserted on the addresses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.symbolic.evaluate import evaluate
from kerncap.sanitizer.symbolic.expr import Expr, Variable
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.walk import walk
from kerncap.sanitizer.walk.access import Access, Walked
from tests.unit.sanitizer.compiled import launch_of


def walked(kernel: Any, grid: tuple[int, ...], signature: dict[str, str], **values: Any) -> Walked:
    constants = {name: values.pop(name) for name in list(values) if name.isupper()}
    launch = launch_of(kernel, grid, signature, constants, **values)
    module = read_module(launch.ttir)
    return walk(module, module.kernel, launch, Solver())


def offsets(access: Access, target: int = 0, most: int = 400) -> list[tuple[tuple[int, ...], int]]:
    """((program, lane 0), offset) of every point that the access really touches, by brute force.

    ``most``: numbers of a variable that are looked at.
    """
    place = access.targets[target]
    conditions = (access.path, access.mask, place.guard)
    variables = sorted(
        frozenset().union(*(e.variables for e in (*conditions, place.offset_bytes))), key=lambda v: v.name
    )
    found = []
    for numbers in itertools.product(*(range(v.low, min(v.high, v.low + most) + 1) for v in variables)):
        point = dict(zip(variables, numbers, strict=True))
        if all(bool(_value(c, point)) for c in conditions):
            named = {v.name: n for v, n in point.items()}
            found.append(
                ((named.get("program_id(0)", 0), named.get("lane0", 0)), _value(place.offset_bytes, point))
            )
    return sorted(found)


def _value(e: Expr, point: dict[Variable, int]) -> int:
    return int(evaluate([e], point, None)[0])


def only(found: Walked, kind: str, index: int = 0) -> Access:
    return [access for access in found.accesses if access.kind == kind][index]


@triton.jit
def bumped(x_ptr, n, BLOCK: tl.constexpr):
    pointers = x_ptr + tl.program_id(0) * n + tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        tl.store(pointers, start, mask=start + tl.arange(0, BLOCK) < n)
        pointers += BLOCK


def test_a_bumped_pointer_is_its_start_and_a_multiple_of_the_step() -> None:
    found = walked(bumped, (3,), {"x_ptr": "*i32", "n": "i32"}, BLOCK=4, x_ptr=(30,), n=10)
    touched = [offset for _, offset in offsets(only(found, "store"))]
    assert sorted(touched) == [4 * i for i in range(30)]  # the last update of the pointer is not an access


@pytest.mark.parametrize("n", [10, 100_000_000])
def test_the_cost_does_not_grow_with_the_trip_count(n: int) -> None:
    found = walked(bumped, (3,), {"x_ptr": "*i32", "n": "i32"}, BLOCK=4, x_ptr=(30,), n=n)
    assert len(found.accesses) == 1


@triton.jit
def persistent(x_ptr, tiles, PROGRAMS: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, PROGRAMS):
        tl.store(x_ptr + tile, 1)


def test_trip_counts_that_differ_between_programs() -> None:
    found = walked(persistent, (4,), {"x_ptr": "*i32", "tiles": "i32"}, PROGRAMS=4, x_ptr=(30,), tiles=10)
    expected = sorted(((p, 0), 4 * t) for p in range(4) for t in range(p, 10, 4))
    assert offsets(only(found, "store")) == expected


@triton.jit
def counted_while(x_ptr, n):
    i = tl.program_id(0) * 4
    p = x_ptr + i * 2
    while i < n:
        tl.store(p, i)
        i += 3
        p += 6
    tl.store(x_ptr + i, 0)


def test_a_while_loop_that_counts() -> None:
    found = walked(counted_while, (4,), {"x_ptr": "*i32", "n": "i32"}, x_ptr=(30,), n=9)
    expected = sorted(((p, 0), 8 * i) for p in range(4) for i in range(4 * p, 9, 3))
    assert offsets(only(found, "store", 0)) == expected
    ends = {((p, 0), 4 * next(i for i in itertools.count(4 * p, 3) if i >= 9)) for p in range(4)}
    assert set(offsets(only(found, "store", 1))) == ends


@triton.jit
def quotients_while(x_ptr, n, each):
    step = tl.program_id(0) * each
    last = step + each
    while step < last:
        tl.store(x_ptr + step // n * n + step % n, step)
        step += 1


def test_how_often_a_while_loop_runs_is_known_from_its_condition() -> None:
    found = walked(
        quotients_while, (4,), {"x_ptr": "*i32", "n": "i32", "each": "i32"}, x_ptr=(30,), n=5, each=3
    )
    (loop,) = only(found, "store").loops
    assert loop.counter.high <= 3  # not the longest that there may be
    assert [o for _, o in offsets(only(found, "store"))] == [4 * i for i in range(12)]


@triton.jit
def groups(x_ptr, n):
    tile = tl.program_id(0)
    for group in range(n):
        while tile >= group and tile < group + 1:
            tl.store(x_ptr + group * 10 + tile, 1)
            tile += tl.num_programs(0)


def test_a_while_loop_inside_of_another_runs_another_number_of_times_in_each_iteration() -> None:
    """Program 0 has the tiles 0 and 2, which are one step apart in iterations 0 and 2: no sum of k."""
    found = walked(groups, (2,), {"x_ptr": "*i32", "n": "i32"}, x_ptr=(40,), n=3)
    touched = {point for access in found.accesses for point in offsets(access, most=3)}
    assert {((0, 0), 0), ((1, 0), 44), ((0, 0), 88)} <= touched


@triton.jit
def ring(x_ptr, n, BLOCK: tl.constexpr):
    slot = 0
    for i in range(n):
        tl.store(x_ptr + slot * BLOCK + tl.arange(0, BLOCK), i)
        slot = (slot + 1) % 4


def test_an_invariant_bounds_what_has_no_closed_form() -> None:
    found = walked(ring, (1,), {"x_ptr": "*i32", "n": "i32"}, BLOCK=8, x_ptr=(32,), n=100_000)
    offset = only(found, "store").targets[0].offset_bytes
    assert (offset.low, offset.high) == (0, 4 * 31)
    assert only(found, "store").unknowns  # it is a bound, not the address


@triton.jit
def triangle(x_ptr, n):
    p = x_ptr
    for i in range(n):
        tl.store(p, i)
        p += i
    tl.store(p, 1)


def test_a_step_that_grows() -> None:
    found = walked(triangle, (1,), {"x_ptr": "*i32", "n": "i32"}, x_ptr=(200,), n=10)
    assert [o for _, o in offsets(only(found, "store", 0))] == [4 * (i * (i - 1) // 2) for i in range(10)]
    assert [o for _, o in offsets(only(found, "store", 1))] == [4 * 45]


@triton.jit
def swapped(x_ptr, y_ptr, n):
    a = x_ptr
    b = y_ptr
    for i in range(n):
        tl.store(a + i, i)
        a, b = b, a


def test_a_short_loop_without_a_closed_form_is_unrolled() -> None:
    found = walked(swapped, (1,), {"x_ptr": "*i32", "y_ptr": "*i32", "n": "i32"}, x_ptr=(9,), y_ptr=(9,), n=5)
    touched = [(access.targets[0].argument, offsets(access)[0][1]) for access in found.accesses]
    assert touched == [(0, 0), (1, 4), (0, 8), (1, 12), (0, 16)]


@triton.jit
def nested(x_ptr, rows, columns, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    if program == 1:
        return
    lanes = tl.arange(0, BLOCK)
    for row in range(rows):
        p = x_ptr + row * columns
        for start in range(0, columns, BLOCK):
            mask = lanes + start < columns
            if row > 0:
                tl.store(p + lanes - columns, start, mask=mask)
            p += BLOCK


def test_nested_loops_branches_and_early_returns() -> None:
    signature = {"x_ptr": "*i32", "rows": "i32", "columns": "i32"}
    found = walked(nested, (3,), signature, BLOCK=4, x_ptr=(60,), rows=4, columns=6)
    touched = offsets(only(found, "store"))
    assert {program for (program, _), _ in touched} == {0, 2}
    assert {offset for _, offset in touched} == {4 * (row * 6 + c) for row in range(3) for c in range(6)}


@triton.jit
def wrapping(x_ptr, n):
    i = 2147483000
    for _ in range(n):
        i += 300
    tl.store(x_ptr + i, 1)


def test_wrap_around_is_kept_in_a_closed_form() -> None:
    found = walked(wrapping, (1,), {"x_ptr": "*i32", "n": "i32"}, x_ptr=(9,), n=7)
    assert [o for _, o in offsets(only(found, "store"))] == [4 * (2147483000 + 2100 - (1 << 32))]


@triton.jit
def accumulated(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + start + lanes, mask=start + lanes < n)
    tl.store(y_ptr + lanes, total)


def test_an_undefined_lane_lives_on_in_an_accumulator() -> None:
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    clean = walked(accumulated, (1,), signature, BLOCK=4, x_ptr=(8,), y_ptr=(4,), n=8)
    assert isinstance(
        Solver().satisfiable(only(clean, "store").undefined), type(Solver().satisfiable(_false()))
    )
    tail = only(walked(accumulated, (1,), signature, BLOCK=4, x_ptr=(9,), y_ptr=(4,), n=9), "store")
    lanes = {point["lane0"] for point in _points(tail.by_habit)}
    assert lanes == {1, 2, 3}


def _false() -> Expr:
    from kerncap.sanitizer.symbolic.expr import FALSE

    return FALSE


def _points(condition: Expr) -> list[dict[str, int]]:
    variables = sorted(condition.variables, key=lambda v: v.name)
    points = itertools.product(*(range(v.low, v.high + 1) for v in variables))
    return [
        {v.name: n for v, n in zip(variables, numbers, strict=True)}
        for numbers in points
        if _value(condition, dict(zip(variables, numbers, strict=True)))
    ]
