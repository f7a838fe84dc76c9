"""Which conditions of a kernel went one way on all contents that it was evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

from kerncap.api.verify.one_way_conditions import unlike
from kerncap.sanitizer.concrete.machine import Limits
from kerncap.sanitizer.launch import Argument, ScalarArgument
from kerncap.sanitizer.one_way_conditions import Condition, Conditions, Form

from .checks.memory_launches import ArrayContents
from .compiled import launch_of

N = 12


@triton.jit
def conditions(x_ptr, out, n, limit, CASE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if CASE == "left out":
        x = tl.load(x_ptr + i, i < n, other=1e9)
        y = tl.where(x > 1e8, 1.0, x)
    else:
        x = tl.load(x_ptr + i, i < n)
        y = x
    if CASE == "argument":
        y = tl.where(limit > 7.0, x, 1.0)
    elif CASE == "size":
        if n > 12:
            y = x * 2
    elif CASE == "grid":
        if tl.num_programs(0) != 2:
            y = x * 2
    elif CASE == "program":
        if tl.program_id(0) > n:
            y = x * 2
    elif CASE == "place":
        y = tl.where(i < 12, x, 2 * x)
    elif CASE == "last place":
        y = tl.load(x_ptr + tl.minimum(i, 11), i < n)
    elif CASE == "block of a place":
        y = x * (1 + i // 12)
    elif CASE == "place in two dimensions":
        row = tl.program_id(0) * 4 + tl.arange(0, 4)
        j = row[:, None] * 2 + tl.arange(0, 2)[None, :]
        tl.store(out + j, tl.where((row < 6)[:, None], 1.0, 2.0), j < n)
    elif CASE == "sum of places":
        y = tl.sum(tl.where(i < 12, x, 0.0), axis=0) + x
    elif CASE == "places in halves":
        y = tl.where(i < 6, x, 2 * x)
    elif CASE == "places before an argument":
        y = tl.where(i < n, x, 2 * x)
    elif CASE == "places from 0":
        y = tl.where(i >= 0, x, 2 * x)
    elif CASE == "places of the tile":
        y = tl.where(i < B + 4, x, 2 * x)
    elif CASE == "claims":
        tl.assume(n > 0)
        tl.assume(tl.max(x, axis=0) < 1000.0)
    elif CASE == "square":
        y = tl.where(x * x != 9.0, x, 1.0)
    elif CASE == "above":
        y = tl.where(x > 3.0, 1.0, x)
    elif CASE == "not above":
        y = tl.where(3.0 >= x, x, 1.0)  # noqa: SIM300
    elif CASE == "stored above":
        tl.store(out + i, x, (x > 3.0) & (i < n))
    elif CASE == "below":
        y = tl.where(x < -3.0, 1.0, x)
    elif CASE == "both":
        y = tl.where((x > 1.0) & (x < 1.5), 1.0, x)
    elif CASE == "least":
        y = tl.minimum(x, 3.0)
    elif CASE == "whole":
        y = x + tl.floor(x / 4)
    elif CASE == "bits":
        y = tl.where(x.to(tl.int32, bitcast=True) & 0x7FFFFFFF == 0x40400000, 1.0, x)
    elif CASE == "branch":
        if tl.sum(x, axis=0) > 20.0:
            y = tl.where(x == 77.0, 1.0, x)
    elif CASE == "loop":
        y = tl.full((B,), -float("inf"), tl.float32)
        for _ in range(1):
            y = tl.maximum(y, x)
    elif CASE == "infinite":
        y = tl.where(x == float("inf"), 0.0, tl.where(x != x, 1.0, x))
    elif CASE == "overflow":
        y = tl.where(x * 1e38 == float("inf"), 1.0, x)
    elif CASE == "exponential":
        y = x + tl.exp(x - 150.0)
    elif CASE == "absorbed":
        y = x + ((1e9 + x) - 1e9)
    elif CASE == "absorbs":
        y = x - tl.exp(x - 50.0)
    elif CASE == "underflow":
        y = x * 1e-25 * 1e-25
    elif CASE == "narrow":
        y = (x * 1e-9).to(tl.float16)
    elif CASE == "vanishing":
        y = x * (1 - libdevice.fast_expf(x - 50.0))
    elif CASE == "plain":
        y = tl.exp(x - tl.max(x, axis=0)) / tl.sum(x, axis=0) + 1e-30
    elif CASE == "online":
        y = tl.full((B,), -float("inf"), tl.float32)
        total = tl.zeros((B,), tl.float32)
        for _ in range(1):
            new = tl.maximum(y, x)
            total = total * tl.exp(y - new) + tl.exp(x - new)
            y = new
        y += total
    tl.store(out + i, y, i < n)


def judged(case: str, *contents: Sequence[float], limits: Limits = Limits()) -> tuple[Conditions, str]:  # noqa: B008
    signature = {"x_ptr": "*fp32", "out": "*fp32", "n": "i32", "limit": "fp32"}
    values: Any = {"x_ptr": (N,), "out": (N,), "n": N, "limit": 1.0}
    launch = launch_of(conditions, (2,), signature, {"CASE": case, "B": 8}, **values)
    found, why = Conditions(launch), ""
    for each in contents or ([0, 1, 2],):
        arrays = np.resize(np.array(each, np.float32), N), np.zeros(N, np.float32)
        why = found.evaluate(replace(launch, contents=ArrayContents(arrays)), limits)
    return found, why


def ways(found: Sequence[Condition]) -> list[set[float]]:
    return [one.ways for one in found]


@pytest.mark.parametrize(
    ("case", "way", "turning"),
    [
        ("square", 1, [1, -3]),
        ("both", 0, [1.25, 2]),
        ("whole", 0, [0, 5]),
        ("bits", 0, [3, 2]),
        ("left out", 0, [2e8, 1]),
        ("overflow", 0, [5, 1]),
    ],
)
def test_one_that_went_one_way_is_open_until_it_goes_the_other(
    case: str, way: int, turning: list[float]
) -> None:
    assert ways(judged(case)[0].open) == [{way}]
    assert judged(case, [0, 1, 2], turning)[0].open == []


@pytest.mark.parametrize(
    ("case", "turning"),
    [
        ("exponential", [151]),
        ("absorbed", [100]),
        ("absorbs", [49]),
        ("underflow", [1e10]),
        ("narrow", [100]),
        ("vanishing", [48]),
    ],
)
def test_arithmetic_is_open_while_nothing_is_left_of_its_operand(case: str, turning: list[float]) -> None:
    first = judged(case)[0].open
    assert first and {one.form for one in first} == {Form.ARITHMETIC}
    assert ways(first) == [{1}] * len(first)
    assert judged(case, [0, 1, 2], turning)[0].open == []


@pytest.mark.parametrize("case", ["plain", "online"])
def test_arithmetic_of_every_day_is_not_open(case: str) -> None:
    assert judged(case)[0].open == []


def test_a_choice_is_open_while_one_operand_is_never_taken() -> None:
    [one] = judged("least")[0].open
    assert one.form is Form.CHOICE and one.ways == {1} and one.numbers == {3}
    assert judged("least", [1, 4])[0].open == []


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("above", "not above", True),
        ("above", "least", True),
        ("above", "below", False),
        ("above", "square", False),
    ],
)
def test_two_kernels_may_have_one_condition(first: str, second: str, alike: bool) -> None:
    [one], [other] = (judged(case)[0].open for case in (first, second))
    assert one.is_like(other) == alike


def test_what_a_condition_decides() -> None:
    [chosen], [stored] = (judged(case)[0].open[:1] for case in ("above", "stored above"))
    assert chosen.is_like(stored)
    assert chosen.uses == {"arith.select"} and stored.uses == {"tt.store"}


@pytest.mark.parametrize(
    ("candidate", "added", "dropped"),
    [("not above", 0, 0), ("stored above", 1, 1), ("below", 1, 1), ("argument", 1, 1)],
)
def test_what_a_candidate_adds_and_what_it_drops(candidate: str, added: int, dropped: int) -> None:
    mine, theirs = judged(candidate)[0], judged("above")[0]
    assert (len(unlike(mine.open, theirs.open)), len(unlike(theirs.open, mine.open))) == (added, dropped)


def test_what_is_behind_a_branch_that_is_not_taken_is_not_named() -> None:
    assert [one.numbers for one in judged("branch")[0].open] == [{20}]
    assert [one.numbers for one in judged("branch", [0], [9])[0].open] == [{77}]


@pytest.mark.parametrize(("case", "way"), [("argument", 0), ("size", 0), ("grid", 0)])
def test_one_number_of_the_launch_is_a_condition(case: str, way: int) -> None:
    found, _ = judged(case)
    assert ways(found.open) == [{way}]
    launch = found.launch
    found.evaluate(replace(launch, grid=(3, 1, 1), arguments=tuple(map(larger, launch.arguments))), Limits())
    assert found.open == []


def larger(argument: Argument) -> Argument:
    return replace(argument, value=argument.value + 7) if isinstance(argument, ScalarArgument) else argument


@pytest.mark.parametrize(
    ("case", "number", "way"),
    [
        ("place", 12, 1),
        ("last place", 11, 1),
        ("block of a place", 12, 0),
        ("place in two dimensions", 6, 1),
        ("sum of places", 12, 1),
    ],
)
def test_places_are_those_that_are_accessed(case: str, number: int, way: int) -> None:
    """The lanes behind the end go the other way, and nobody sees it."""
    [one] = judged(case)[0].open
    assert one.lanes is not None
    assert one.numbers == {number} and one.ways == {way}


@pytest.mark.parametrize("case", ["places in halves", "places before an argument", "places from 0"])
def test_places_that_no_size_of_the_launch_hides(case: str) -> None:
    assert judged(case)[0].open == []


def test_a_number_that_the_kernel_was_compiled_with_is_no_case() -> None:
    launch = judged("places of the tile")[0].launch
    for constexprs, count in (((8,), 1), ((8, 12), 0), ((11.0,), 0)):
        found = Conditions(launch, constexprs)
        found.evaluate(launch, Limits())
        assert len(found.open) == count


@pytest.mark.parametrize("case", ["program", "claims", "loop"])
def test_what_says_nothing_of_values_is_no_condition(case: str) -> None:
    assert judged(case)[0].open == []


def test_tests_for_infinities_and_nan_are_apart() -> None:
    found, _ = judged("infinite")
    assert found.open == [] and ways(found.of_infinities) == [{0}, {0}]


def test_what_is_too_large_is_looked_at_in_part() -> None:
    found, why = judged("square", limits=Limits(element_operations=100))
    assert why == "too large: more than 100 element operations"
