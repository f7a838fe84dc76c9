from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncap.sanitizer.checks import overflow
from kerncap.sanitizer.diagnose.confirm import Confirmation
from kerncap.sanitizer.findings import Finding, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.symbolic.expr import (
    Buffer,
    Expr,
    add,
    bit_and,
    bit_xor,
    const,
    div_trunc,
    evaluate,
    maximum,
    mul,
    read,
    rem_trunc,
    shift_right_logical,
    sub,
    unsigned,
    var,
    wrap,
)
from tests.unit.sanitizer.checks.hand_made import Scene, access, lane

ROWS, COLUMNS = 70_000, 40_000  # 2.8e9 elements


@pytest.fixture(autouse=True)
def _believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overflow, "confirm", lambda *_: Confirmation(True, "expressions"))


def only(verdict: Verdict) -> Finding:
    assert isinstance(verdict, Violated), verdict
    (finding,) = verdict.findings
    return finding


def int32(e: Expr) -> Expr:
    return wrap(e, 32)


def matrix() -> tuple[Scene, int]:
    scene = Scene((ROWS, 1, 1))
    return scene, scene.tensor("x", (ROWS, COLUMNS), dtype="int8")


def test_a_product_that_leaves_32_bits() -> None:
    scene, x = matrix()
    i = lane(1024)
    offset = int32(int32(scene.pid * COLUMNS) + var(i))
    one = access(x, offset, lanes=[i], width=1)
    found = only(overflow.check(scene.analysis(one), one))
    row = 2**31 // COLUMNS + 1  # the last that begins below 2**31 ends there too
    assert found.check == "overflow"
    assert found.place.program_id == (row, 0, 0)
    assert "integer overflow in the address of the load of 1 byte at x - " in found.message
    assert f"{row * COLUMNS:,}, which wraps around to {row * COLUMNS - 2**32:,}" in found.message


def test_the_same_in_64_bits() -> None:
    scene, x = matrix()
    i = lane(1024)
    one = access(x, scene.pid * COLUMNS + var(i), lanes=[i], width=1)
    assert overflow.check(scene.analysis(one), one) == Proved("interval")


def test_only_where_the_access_is_performed() -> None:
    scene, x = matrix()
    row = 2**31 // COLUMNS
    one = access(x, int32(scene.pid * COLUMNS), width=1, mask=scene.pid < row)
    assert isinstance(overflow.check(scene.analysis(one), one), Proved)
    wider = access(x, int32(scene.pid * COLUMNS), width=1, mask=scene.pid < row + 2)
    assert only(overflow.check(scene.analysis(wider), wider)).place.program_id == (row + 1, 0, 0)


def test_a_cast_to_64_bits_that_comes_too_late() -> None:
    scene, x = matrix()
    halves = int32(scene.pid * COLUMNS) * 2
    one = access(x, halves, width=1)
    assert isinstance(overflow.check(scene.analysis(one), one), Violated)


def test_a_wrap_that_is_undone_does_no_harm() -> None:
    scene, x = matrix()
    # The last sum brings it back into 32 bits: the same as if nothing had wrapped.
    near = int32(int32(scene.pid * COLUMNS) - (ROWS - 1) * COLUMNS)
    fine = access(x, near, width=1, path=scene.pid >= ROWS - 1)
    assert isinstance(overflow.check(scene.analysis(fine), fine), Proved)


def test_division_passes_it_on() -> None:
    scene, x = matrix()
    one = access(x, div_trunc(int32(scene.pid * COLUMNS), const(16)), width=1)
    assert isinstance(overflow.check(scene.analysis(one), one), Violated)


HASH = 2654435761
KEY = 40_503_001


@pytest.mark.parametrize(
    "slot",
    [
        lambda k: int32(unsigned(k * HASH, 32) % 1024),
        lambda k: bit_and(int32(k * KEY), const(1023), 32),
        lambda k: shift_right_logical(int32(k * KEY), const(22), 32),
        lambda k: rem_trunc(int32(k * KEY), const(1024)),
        lambda k: bit_and(bit_xor(int32(k * KEY), k, 32), const(1023), 32),
    ],
    ids=["unsigned remainder", "and", "shift right", "signed remainder", "xor"],
)
def test_hashes_are_meant_to_wrap(slot: object) -> None:
    scene = Scene((10_000, 1, 1))
    x = scene.tensor("x", (1024,))
    one = access(x, slot(scene.pid) * 4)  # type: ignore[operator]
    assert overflow.check(scene.analysis(one), one) == Proved("interval")


def test_a_random_number_in_the_mask() -> None:
    scene = Scene((10_000, 1, 1))
    x = scene.tensor("x", (10_000,))
    drawn = int32(scene.pid * 1664525 + 1013904223)
    one = access(x, scene.pid * 4, mask=drawn < 1000)
    assert overflow.check(scene.analysis(one), one) == Proved("interval")


def test_an_offset_in_the_mask() -> None:
    """The address is 64 bits wide, the mask is not: the last blocks pass it."""
    scene = Scene((2**22, 1, 1))
    x = scene.tensor("x", (2**31 - 500,), dtype="int8")
    i = lane(1024)
    exact = scene.pid * 1024 + var(i)
    mask = int32(exact) < 2**31 - 500
    one = access(x, exact, lanes=[i], width=1, mask=mask)
    found = only(overflow.check(scene.analysis(one), one))
    assert found.place.program_id == (2**21, 0, 0)
    kept = access(x, exact, lanes=[i], width=1, mask=mask & (scene.pid < 2**21))
    assert isinstance(overflow.check(scene.analysis(kept), kept), Proved)


def test_indices_from_memory_that_is_not_to_be_had() -> None:
    scene, x = matrix()
    scene.tensor("index", (100,), dtype="int32")
    index = read(Buffer(1, 32), const(0))
    one = access(x, int32(index * COLUMNS), width=1)
    assert isinstance(overflow.check(scene.analysis(one), one), Unproven)


def test_a_witness_that_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overflow, "confirm", lambda *_: Confirmation(False, "evaluator", "it is not reached"))
    scene, x = matrix()
    one = access(x, int32(scene.pid * COLUMNS), width=1)
    assert isinstance(overflow.check(scene.analysis(one), one), Unproven)


def test_without_wraps_keeps_what_is_meant_to_wrap() -> None:
    scene, _ = matrix()
    product = scene.pid * HASH
    hashed = bit_and(int32(product), const(7), 32)
    assert overflow.without_wraps(int32(product) + hashed) is (product + hashed)
    assert overflow.wraps_that_matter(hashed) == []


@given(st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_verdicts_are_those_of_unlimited_integers(data: Any) -> None:
    """8-bit arithmetic beside the same without limits, at every point."""
    draw = data.draw
    scene = Scene((draw(st.integers(1, 9)), 1, 1))
    x = scene.tensor("x", (1,))
    i = lane(draw(st.sampled_from([4, 16])))
    narrow = exact = var(i)
    for _ in range(draw(st.integers(1, 4))):
        other = draw(st.sampled_from([scene.pid, const(draw(st.integers(-40, 40)))]))
        operation = draw(st.sampled_from([add, sub, mul, maximum, div_trunc]))
        if operation is div_trunc:
            other = const(draw(st.sampled_from([2, 3])))
        result = operation(narrow, other)
        if result.value is not None:
            break  # numbers are folded: see test_numbers_of_the_launch_that_overflow
        narrow, exact = wrap(result, 8), operation(exact, other)
    mask = var(i) + scene.pid < draw(st.integers(0, 20))
    one = access(x, narrow, lanes=[i], mask=mask, width=1)
    grid = {v: np.arange(v.low, v.high + 1) for v in (scene.programs[0], i)}
    point = {scene.programs[0]: grid[scene.programs[0]][:, None], i: grid[i][None, :]}
    held, actual, ideal = evaluate([mask, narrow, exact], point)
    wrong = bool(np.any(np.broadcast_to(held & (actual != ideal), (grid[scene.programs[0]].size, i.points))))
    assert isinstance(overflow.check(scene.analysis(one), one), Violated if wrong else Proved)
