"""Places that come from memory: whether programs meet depends on what is in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.findings import Proved, Settled
from tests.unit.sanitizer.checks.race_runs import F, check, findings, launched, outcomes, zeros


@triton.jit
def scatter(index, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + tl.load(index + i), i)


@triton.jit
def histogram(index, o, B: tl.constexpr, ATOMIC: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    bin = tl.load(index + i)
    if ATOMIC:
        tl.atomic_add(o + bin, 1)
    else:
        tl.store(o + bin, tl.load(o + bin) + 1)


@triton.jit
def experts(table, x, o, tokens, n, B: tl.constexpr):
    """Rows in the order of a table, which is padded with the number of tokens."""
    token = tl.load(table + tl.program_id(0) * B + tl.arange(0, B))
    column = tl.program_id(1) * B + tl.arange(0, B)
    place = token[:, None] * n + column[None, :]
    inside = (token < tokens)[:, None] & (column < n)[None, :]
    tl.store(o + place, tl.load(x + place, inside), inside)


@triton.jit
def gradient_in_place(x, label, n, IGNORED: tl.constexpr, B: tl.constexpr):
    """A cross entropy that writes its gradient over its input."""
    row = x + tl.program_id(0).to(tl.int64) * n
    y = tl.load(label + tl.program_id(0))
    if y == IGNORED:
        return
    own = tl.load(row + y)
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        tl.store(row + i, tl.load(row + i, i < n) - own, i < n)
    tl.store(row + y, own)


def test_scattered_stores_are_decided_by_contents() -> None:
    order = np.random.default_rng(0).permutation(192).astype(np.int32)
    twice = order.copy()
    twice[100] = twice[5]
    for index, expected in ((order, "proved"), (twice, "violated")):
        launch = launched(
            scatter,
            (6,),
            {"index": "*i32", "o": "*i32"},
            [index, zeros(192, "int32")],
            index=(192,),
            o=(192,),
            B=32,
        )
        store = check(launch)[-1]
        assert outcomes([store]) == {expected}
        if isinstance(store.verdict, Proved):
            assert store.verdict.contents
    (finding,) = findings(check(launch))
    assert finding.contents and finding.place.element == int(twice[5])
    assert finding.message.endswith("their values differ")


def _experts(table: Any) -> list[Settled]:
    values = dict.fromkeys(("tokens", "n"), "i32")
    launch = launched(
        experts, (8, 4), {"table": "*i32", "x": F, "o": F, **values}, [table, zeros(25000), zeros(25000)],
        table=(256,), x=(250, 100), o=(250, 100), tokens=250, n=100, B=32,
    )  # fmt: skip
    return check(launch)


def test_rows_by_a_table_are_apart_if_the_table_says_so() -> None:
    table = np.full(256, 250, dtype=np.int32)
    table[:240] = np.random.default_rng(0).permutation(240)
    settled = _experts(table)
    assert outcomes(settled) == {"proved"}
    assert settled[-1].verdict == Proved("affine", contents=True)
    table[100] = table[7]
    (store,) = [one for one in _experts(table) if one.access == "store"]
    assert outcomes([store]) == {"note"}  # what both of them store is one row of x


def test_a_label_picks_from_the_own_row() -> None:
    label = np.random.default_rng(0).integers(0, 300, 50)
    label[::7] = -100
    values = {"x": F, "label": "*i64", "n": "i32"}
    launch = launched(
        gradient_in_place, (50,), values, [zeros(15000), label],
        x=(50, 300), label=(50,), n=300, IGNORED=-100, B=128,
    )  # fmt: skip
    assert outcomes(check(launch)) == {"proved"}
    label[3] = 301  # the next program's row
    assert "violated" in outcomes(check(launch))


@pytest.mark.parametrize(("atomic", "expected"), [(True, {"proved"}), (False, {"proved", "violated"})])
def test_a_histogram_has_to_be_atomic(atomic: bool, expected: set[str]) -> None:
    index = np.arange(192, dtype=np.int32) % 10
    signature = {"index": "*i32", "o": "*i32"}
    launch = launched(
        histogram, (6,), signature, [index, zeros(10, "int32")], index=(192,), o=(10,), B=32, ATOMIC=atomic
    )
    assert outcomes(check(launch)) == expected
