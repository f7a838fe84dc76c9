"""What two programs store to one place: equal for all data, for these, or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Unproven
from kerncap.sanitizer.options import Options
from tests.unit.sanitizer.checks.race_runs import (
    TWO,
    F,
    check,
    findings,
    kind_of,
    launched,
    line,
    outcomes,
    zeros,
)


@triton.jit
def creeping(o, COUNT: tl.constexpr, STOP: tl.constexpr):
    """Every program stores each number to the same place as the others; the last ones all to one."""
    at = tl.program_id(0) * 0
    for k in range(COUNT):
        tl.store(o + at, k * 1.0)
        at = tl.minimum(at + 4, STOP)


@pytest.mark.parametrize(("count", "stop", "expected"), [(4, 12, "note"), (6, 9, "violated")])
def test_values_of_two_iterations_differ_though_one_line_stores_them(
    count: int, stop: int, expected: str
) -> None:
    launch = launched(creeping, (5,), {"o": F}, o=(16,), COUNT=count, STOP=stop)
    settled = [one for one in sanitize(launch).settled if one.check == "race"]
    assert outcomes(settled) == {expected}


@triton.jit
def last_of_rows(x, o, n, ROWS: tl.constexpr, B: tl.constexpr):
    """Programs of one row modulo ROWS all store its sum, of the row itself or of one that is their own."""
    row = tl.program_id(0) % ROWS
    lanes = tl.arange(0, B)
    tl.store(o + row, tl.sum(tl.load(x + row * B + lanes)))
    tl.store(o + ROWS + row, tl.sum(tl.load(x + tl.program_id(0) * B + lanes)))


def test_what_two_programs_store_to_one_place() -> None:
    own = line(last_of_rows, "o + ROWS + row")
    outcome = {}
    for name, x in (
        ("random", np.random.default_rng(0).random(8 * 32)),
        ("equal", np.ones(8 * 32)),
        ("equal at the first place alone", np.repeat([1, 2, 1, 3, 1, 2, 1, 2], 32)),
        ("unknown", None),
    ):
        contents = (None if x is None else x.astype(np.float32), zeros(4))
        launch = launched(
            last_of_rows, (8,), TWO, contents, x=(8 * 32,), o=(4,), n=8, ROWS=2, B=32,
        )  # fmt: skip
        for one in sanitize(launch).settled:
            if one.check == "race" and one.access == "store":
                at = "own row" if one.location.frames[0].line == own else "row"
                found = findings([one])
                outcome[at, name] = (
                    kind_of(one.verdict),
                    found[0].message.rpartition("; ")[2] if found else "",
                )
    assert {kind for (at, _), (kind, _) in outcome.items() if at == "row"} == {"note"}
    assert outcome["own row", "random"] == ("violated", "their values differ")
    assert outcome["own row", "equal"] == ("unproven", "")
    assert outcome["own row", "equal at the first place alone"] == ("violated", "their values differ")
    assert outcome["own row", "unknown"] == ("violated", "their values differ for some contents of memory")


@triton.jit
def twice(x, o, SUMS: tl.constexpr, SHIFT: tl.constexpr, B: tl.constexpr):
    """Each program copies (or adds up) its own tile and the next one's, of which it may take others."""
    for k in range(2):
        to = (tl.program_id(0) + k) * B + tl.arange(0, B)
        value = tl.load(x + to + SHIFT * tl.program_id(0))
        tl.store(o + to, tl.cumsum(value, 0) if SUMS else value)


@triton.jit
def sums_of_rows(x, o, n, S: tl.constexpr, B: tl.constexpr):
    """Programs of three share a row, whose number comes of two."""
    p = tl.program_id(0)
    row = (p // 3 % 2) * S + p // 6
    total = 0.0
    for k in range(0, n, B):
        k += tl.arange(0, B)
        total += tl.sum(tl.load(x + row * 64 + k, mask=k < n, other=0.0))
        if total > 4.0:
            total = -total
    tl.store(o + row, total)


@triton.jit
def by_assembly(o, CODE: tl.constexpr, PURE: tl.constexpr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    value = tl.inline_asm_elementwise(CODE, "=r", [], dtype=tl.int32, is_pure=PURE, pack=1)
    tl.store(o + lanes, value + lanes)


@triton.jit
def torn(x, o, B: tl.constexpr):
    """Four bytes at every second byte."""
    place = o + tl.program_id(0) * 2
    tl.store(place.to(tl.pointer_type(tl.int32)), tl.load(x + tl.program_id(0) % 1))


def _race_of_stores(launch: Any) -> tuple[str, str]:
    """The kind of verdict on a launch's store, and its reason or what is said of the values."""
    (store,) = [one for one in sanitize(launch).settled if one.check == "race" and one.access == "store"]
    if isinstance(store.verdict, Unproven):
        return "unproven", store.verdict.reason
    found = findings([store])
    return kind_of(store.verdict), found[0].message.rpartition("; ")[2] if found else ""


def test_values_that_no_contents_show_to_differ_are_no_finding() -> None:
    differ, same = (
        _race_of_stores(
            launched(twice, (3,), {"x": F, "o": F}, x=(160,), o=(160,), SUMS=True, SHIFT=shift, B=32)
        )
        for shift in (1, 0)
    )
    assert differ == ("violated", "their values differ for some contents of memory")
    assert same[0] == "unproven"
    assert "whether they store the same is not known: contents of x are not available" in same[1]


def test_what_is_loaded_from_equal_places_is_equal_for_all_contents() -> None:
    launch = launched(twice, (3,), {"x": F, "o": F}, x=(160,), o=(160,), SUMS=False, SHIFT=0, B=32)
    assert _race_of_stores(launch) == ("note", "they store the same value")


@pytest.mark.parametrize("step", [2, 1])
def test_what_a_loop_makes_of_one_row_is_equal_for_all_contents(step: int) -> None:
    """Where the row is one number (of two that may differ, too), not where only the place is."""
    launch = launched(
        sums_of_rows, (12,), {"x": F, "o": F, "n": "i32"}, x=(4, 64), o=(4,), n=64, S=step, B=16
    )
    assert _race_of_stores(launch) == ("note", "they store the same value")


@pytest.mark.parametrize(
    ("code", "pure", "expected"),
    [
        ("mov.u32 $0, 7;", True, "note"),
        ("mov.u32 $0, 7;", False, "unproven"),
        ("mov.u32 $0, %smid;", True, "unproven"),
    ],
)
def test_assembly_gives_the_same_only_if_it_says_so(code: str, pure: bool, expected: str) -> None:
    launch = launched(by_assembly, (3,), {"o": "*i32"}, o=(32,), CODE=code, PURE=pure, B=32)
    kind, reason = _race_of_stores(launch)
    assert kind == expected
    if kind == "unproven":
        assert "whether they store the same is not known" in reason
        assert "tt.elementwise_inline_asm" in reason


def test_values_that_are_not_known_and_overlap_in_part_are_a_finding() -> None:
    launch = launched(torn, (3,), {"x": "*i32", "o": "*i8"}, x=(4,), o=(16,), B=32)
    assert _race_of_stores(launch) == ("violated", "their values differ for some contents of memory")
    sums = launched(assembled_in_part, (3,), {"o": "*i8"}, o=(16,))
    assert _race_of_stores(sums) == ("violated", "the bytes that they store overlap in part")


@triton.jit
def assembled_in_part(o):
    value = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.store((o + tl.program_id(0) * 2).to(tl.pointer_type(tl.int32)), value)


def test_values_that_take_too_long_are_no_finding() -> None:
    """With no time to evaluate all programs; the two of the witness store the same."""
    x = np.repeat([1, 1, 1, 3, 1, 2, 1, 2], 32).astype(np.float32)
    launch = launched(
        last_of_rows, (8,), TWO, (x, zeros(4)), x=(8 * 32,), o=(4,), n=8, ROWS=2, B=32,
    )  # fmt: skip
    own = line(last_of_rows, "o + ROWS + row")
    for limit, expected in ((10**6, "violated"), (1000, "unproven")):
        settled = sanitize(launch, Options(evaluation_limit=limit)).settled
        (store,) = [
            one
            for one in settled
            if one.check == "race" and one.access == "store" and one.location.frames[0].line == own
        ]
        assert kind_of(store.verdict) == expected


@triton.jit(noinline=True)
def put(o, value):
    tl.store(o, value * 1.0)


@triton.jit
def puts(o):
    put(o, tl.program_id(0))


def test_what_a_function_is_given_may_differ_between_programs() -> None:
    (finding,) = findings(check(launched(puts, (5,), {"o": F}, o=(16,))))
    assert not finding.note
