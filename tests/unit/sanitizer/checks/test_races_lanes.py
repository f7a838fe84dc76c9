"""Lanes of one program that store to one place: a finding only where their values are seen to differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.checks.races import lanes
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Finding, LaunchReport
from tests.unit.sanitizer.checks.race_runs import launched, line, zeros

F, W = "*fp32", "*i32"


@triton.jit
def scatter(index, x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + tl.load(index + i), tl.load(x + i), mask=i < n)


@triton.jit
def scatter_added(index, x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o + tl.load(index + i), tl.load(x + i), mask=i < n)


@triton.jit
def scatter_place(index, x, o, n, B: tl.constexpr):
    """What is stored follows from where."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    place = tl.load(index + i)
    tl.store(o + place, place * 2.0, mask=i < n)


@triton.jit
def scatter_by_floats(index, x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    place = (tl.exp(tl.load(x + i) * 0.0) * 3.0).to(tl.int32)
    tl.store(o + place, tl.load(index + i).to(tl.float32), mask=i < n)


def _report(
    kernel: Any, index: npt.NDArray[np.int32], *, programs: int = 1, n: int | None = None, known: bool = True
) -> LaunchReport:
    size = len(index)
    data = np.arange(size, dtype=np.float32)
    contents: list[npt.NDArray[Any] | None] = [index, data if known else None, zeros(size)]
    shape = (size,)
    signature = {"index": W, "x": F, "o": F, "n": "i32"}
    launch = launched(
        kernel, (programs,), signature, contents, index=shape, x=shape, o=shape, n=size if n is None else n,
        B=size // programs,
    )  # fmt: skip
    return sanitize(launch)


def _lanes(report: LaunchReport) -> list[Finding]:
    return [one for one in report.findings if one.message.startswith("lanes ")]


TWICE = np.arange(16, dtype=np.int32)
TWICE[5] = 2


@pytest.mark.parametrize("programs", [1, 2])
def test_two_lanes_that_store_different_values_to_one_place(programs: int) -> None:
    (finding,) = _lanes(_report(scatter, TWICE, programs=programs))
    assert (finding.check, finding.access, finding.argument) == ("race", "store", "o")
    assert finding.location.frames[0].line == line(scatter, "tl.store")
    assert finding.place.element == 2 and finding.place.lane == (2,) and finding.contents
    assert finding.other is not None and finding.other.place.lane == (5,)
    assert finding.place.program_id == finding.other.place.program_id == (0, 0, 0)
    assert "lanes 2 and 5 of program (0, 0, 0) both store to o + 2" in finding.message
    assert "2.0 and 5.0" in finding.message


def test_values_that_no_sum_is_behind_differ_however_near_they_are() -> None:
    index = np.arange(128, dtype=np.int32)
    index[121] = 120
    (finding,) = _lanes(_report(scatter, index))
    assert "120.0 and 121.0" in finding.message


def test_it_stands_beside_a_race_of_programs() -> None:
    index = TWICE.copy()
    index[12] = 2
    report = _report(scatter, index, programs=2)
    assert len(_lanes(report)) == 1 and len(report.findings) == 2


def test_lanes_that_store_nothing_or_the_same_or_by_atomics_are_none() -> None:
    for report in (
        _report(scatter, TWICE, n=5),  # lane 5 is masked off
        _report(scatter, np.arange(16, dtype=np.int32)[::-1].copy()),
        _report(scatter_place, TWICE),
        _report(scatter_added, TWICE),
    ):
        assert not report.findings
        assert "race" not in {one.check for one in report.settled}


def test_what_is_not_known_is_none() -> None:
    assert not _lanes(_report(scatter, TWICE, known=False))
    assert not _lanes(_report(scatter_by_floats, TWICE))  # to 2 or 3, each lane


@triton.jit
def thirds(o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + (i.to(tl.float32) / 3.0).to(tl.int32), i)


def test_lanes_that_every_rounding_sends_to_one_place() -> None:
    report = sanitize(launched(thirds, (1,), {"o": W}, [zeros(16, "int32")], o=(16,), B=16))
    (finding,) = _lanes(report)
    assert finding.other is not None
    assert (finding.place.lane, finding.other.place.lane) == ((0,), (1,))


@triton.jit
def affine(o, KIND: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if KIND == "halved":
        tl.store(o + i // 2, i)
    elif KIND == "wrapped":
        tl.store(o + i % 8, i)
    elif KIND == "wrapped, one each":
        tl.store(o + i % 8, i % 8)
    elif KIND == "wrapped, masked":
        tl.store(o + i % 8, i, mask=i < 8)
    elif KIND == "a number":
        tl.store(o + i * 0, 7)
    elif KIND == "a number for each row":
        tl.store(o + i[:, None] + i[None, :] * 0, i[:, None] + i[None, :] * 0)
    elif KIND == "a sum":
        tl.store(o + i * 0, tl.sum(i * i, 0) + i * 0)
    else:
        tl.store(o + i, i)


def _affine(kind: str) -> LaunchReport:
    return sanitize(launched(affine, (1,), {"o": W}, [zeros(16, "int32")], o=(16,), KIND=kind, B=16))


@pytest.mark.parametrize("kind", ["halved", "wrapped"])
def test_lanes_that_meet_by_their_numbers(kind: str) -> None:
    (finding,) = _lanes(_affine(kind))
    assert finding.other is not None
    pair = finding.place.lane[0], finding.other.place.lane[0]
    assert pair == ((0, 1) if kind == "halved" else (0, 8))


@pytest.mark.parametrize(
    "kind",
    ["apart", "wrapped, one each", "wrapped, masked", "a number", "a number for each row", "a sum"],
)
def test_lanes_that_are_apart_or_store_one_value(kind: str) -> None:
    assert not _affine(kind).findings


@pytest.mark.parametrize("kind", ["apart", "wrapped, masked", "a number", "wrapped, one each"])
def test_what_the_expressions_show_is_not_evaluated(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "evaluate", lambda *_, **__: pytest.fail("it was evaluated"))
    monkeypatch.setenv("KERNCAP_SANITIZER_STRICT", "1")
    _affine(kind)


@triton.jit
def rows_once_more(x, o, n, B: tl.constexpr):
    """Rows past the end are the last row again, with the last row's sum."""
    row = tl.minimum(tl.arange(0, B), n - 1)
    tile = tl.load(x + row[:, None] * 16 + tl.arange(0, 16)[None, :])
    tl.store(o + row, tl.sum(tl.dot(tile, tile.trans()), 1))


def test_products_of_equal_rows_are_one_value() -> None:
    random = np.random.default_rng(0)
    data = random.standard_normal((5, 16), dtype=np.float32)
    launch = launched(
        rows_once_more, (1,), {"x": F, "o": F, "n": "i32"}, [data, zeros(5)], x=(5, 16), o=(5,), n=5, B=16
    )
    assert not sanitize(launch).findings
