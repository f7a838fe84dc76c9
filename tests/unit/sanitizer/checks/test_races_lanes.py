"""Lanes of one program that store to one place: a finding if their values are seen to differ, else open."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer import engine
from kerncap.sanitizer.checks.races import lanes_of_one_store
from kerncap.sanitizer.concrete.run import Limits
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Finding, LaunchReport, Unproven
from kerncap.sanitizer.walk import Unsupported
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


@triton.jit
def scatter_clamped(index, x, o, n, B: tl.constexpr):
    """Most lanes store 1."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + tl.load(index + i), tl.minimum(tl.load(x + i), 1.0), mask=i < n)


@triton.jit
def scatter_left_out(index, x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + tl.load(index + i), tl.exp(tl.load(x + i, mask=i < n)))


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


def _open(report: LaunchReport) -> str:
    """Why the race check of the only store is unproven."""
    assert not report.findings
    (reason,) = [
        one.verdict.reason
        for one in report.settled
        if one.check == "race" and one.access == "store" and isinstance(one.verdict, Unproven)
    ]
    return reason


def test_values_that_are_not_known_are_unproven() -> None:
    assert "whether they store the same is not known: " in _open(_report(scatter, TWICE, known=False))


def test_a_place_that_a_gpu_may_round_is_unproven() -> None:
    """To 2 or 3, each lane."""
    assert "which a GPU may round" in _open(_report(scatter_by_floats, TWICE))


@pytest.mark.parametrize("known", [True, False])
def test_values_that_are_equal_by_chance_are_unproven(known: bool) -> None:
    index = np.arange(16, dtype=np.int32)
    index[5] = 12
    reason = _open(_report(scatter_clamped, index, known=known))
    assert reason == lanes_of_one_store.EQUAL_LANES if known else "is not known" in reason


def test_a_value_that_is_undefined_is_unproven() -> None:
    """Beside the finding that it is stored."""
    report = _report(scatter_left_out, TWICE, n=5)
    assert {one.check for one in report.findings} == {"uninit"}
    assert [one.verdict for one in report.settled if one.check == "race"] == [
        Unproven(lanes_of_one_store.UNDEFINED_LANES)
    ]


@pytest.mark.parametrize("limit", ["programs", "operations"])
def test_what_the_search_does_not_reach_is_unproven(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = np.arange(16, dtype=np.int32)
    index[13] = 12
    (finding,) = _lanes(_report(scatter, index, programs=4))
    assert finding.place.program_id == (3, 0, 0)
    if limit == "programs":
        monkeypatch.setattr(lanes_of_one_store, "_MAX_PROGRAMS", 3)
    else:
        monkeypatch.setattr(lanes_of_one_store, "_LIMITS", Limits(10, 60.0))
    reason = _open(_report(scatter, index, programs=4))
    assert reason.startswith(
        "whether two lanes store different values to one place is not decided: too large"
    )
    index[1] = 0  # in the first program
    assert bool(_lanes(_report(scatter, index, programs=4))) is (limit == "programs")


@triton.jit
def rows_of_a_descriptor(index, x, o, n, ROWS: tl.constexpr):
    d = tl.make_tensor_descriptor(o, [n, 8], [8, 1], [1, 8])
    rows = tl.load(index + tl.arange(0, ROWS))
    d.scatter(tl.load(x + tl.arange(0, ROWS)[:, None] * 8 + tl.arange(0, 8)[None, :]), rows, 0)


@triton.jit
def tile_of_a_descriptor(o, PITCH: tl.constexpr):
    d = tl.make_tensor_descriptor(o, [4, 8], [PITCH, 1], [4, 8])
    d.store([0, 0], tl.arange(0, 32).reshape(4, 8))


@pytest.mark.parametrize(("last", "found"), [(7, 0), (2, 1), (9, 0)])
def test_rows_that_a_descriptor_scatters_to_one_place(last: int, found: int) -> None:
    """A row outside of the descriptor's shape is not stored."""
    index = np.arange(8, dtype=np.int32)
    index[7] = last
    launch = launched(
        rows_of_a_descriptor, (1,), {"index": W, "x": F, "o": F, "n": "i32"},
        [index, np.arange(64, dtype=np.float32), zeros(64)], index=(8,), x=(64,), o=(64,), n=8, ROWS=8,
    )  # fmt: skip
    assert len(_lanes(sanitize(launch))) == found


@pytest.mark.parametrize(("pitch", "found"), [(8, 0), (4, 1)])
def test_rows_of_a_descriptor_that_overlap(pitch: int, found: int) -> None:
    launch = launched(tile_of_a_descriptor, (1,), {"o": W}, [zeros(32, "int32")], o=(32,), PITCH=pitch)
    assert len(_lanes(sanitize(launch))) == found


def test_a_kernel_that_the_walk_gives_up_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: object) -> None:
        raise Unsupported("it is too large")

    monkeypatch.setattr(engine, "walk", gives_up)
    assert len(_lanes(_report(scatter, TWICE))) == 1
    assert not _report(scatter, np.arange(16, dtype=np.int32)).findings


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
    "kind", ["apart", "wrapped, one each", "wrapped, masked", "a number", "a number for each row", "a sum"]
)
def test_lanes_that_are_apart_or_store_one_value(kind: str) -> None:
    assert not _affine(kind).findings


@pytest.mark.parametrize("kind", ["apart", "wrapped, masked", "a number", "wrapped, one each"])
def test_what_the_expressions_show_is_not_evaluated(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_of_one_store, "evaluate", lambda *_, **__: pytest.fail("it was evaluated"))
    monkeypatch.setenv("KERNCAP_SANITIZER_STRICT", "1")
    _affine(kind)


@triton.jit
def packed_rows(starts, o, B: tl.constexpr):
    """Each program has the rows from one start to the next."""
    first = tl.load(starts + tl.program_id(0))
    for row in range(tl.load(starts + tl.program_id(0) + 1) - first):
        tl.store(o + (first + row) * B + tl.arange(0, B), tl.arange(0, B).to(tl.float32))


def test_a_place_from_memory_that_all_lanes_share_is_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_of_one_store, "evaluate", lambda *_, **__: pytest.fail("it was evaluated"))
    monkeypatch.setenv("KERNCAP_SANITIZER_STRICT", "1")
    starts = np.array([0, 1, 1, 4], np.int64)
    given = {"starts": "*i64", "o": F}
    launch = launched(packed_rows, (3,), given, [starts, zeros(64)], starts=(4,), o=(64,), B=16)
    assert not sanitize(launch).findings


@triton.jit
def chunk_of_a_table(table, o, PITCH: tl.constexpr, B: tl.constexpr):
    """Rows of a chunk whose number, of 64 bits, is in a table."""
    rows = tl.load(table + tl.program_id(0)) * B + tl.arange(0, B)
    i = tl.arange(0, B)
    tl.store(o + rows[:, None] * PITCH + i[None, :], i[:, None] * B + i[None, :])


@pytest.mark.parametrize(("pitch", "found"), [(4, 0), (2, 1)])
def test_a_place_from_memory_that_is_multiplied(
    pitch: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nothing is known of the number, the products may wrap around in 64 bits: in all lanes alike."""
    if not found:
        monkeypatch.setattr(lanes_of_one_store, "evaluate", lambda *_, **__: pytest.fail("it was evaluated"))
        monkeypatch.setenv("KERNCAP_SANITIZER_STRICT", "1")
    given = {"table": "*i64", "o": "*i64"}
    contents = [np.array([1, 0], np.int64) if found else None, zeros(32, "int64")]
    launch = launched(chunk_of_a_table, (2,), given, contents, table=(2,), o=(32,), PITCH=pitch, B=4)
    assert len(_lanes(sanitize(launch))) == found


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


@triton.jit
def sums_of_pairs(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i // 2, tl.sum(tl.load(x + i[:, None] * 4 + tl.arange(0, 4)[None, :]), 1))


@pytest.mark.parametrize(("apart", "found"), [(1.001, 0), (1.1, 1)])
def test_sums_that_differ_by_what_they_may_be_rounded_by_are_unproven(apart: float, found: int) -> None:
    data = np.repeat(np.array([1.0, apart] * 2, dtype=np.float32), 4)
    report = sanitize(launched(sums_of_pairs, (1,), {"x": F, "o": F}, [data, zeros(2)], x=(16,), o=(2,), B=4))
    assert len(_lanes(report)) == found
    assert found or _open(report) == lanes_of_one_store.ROUNDED_LANES
