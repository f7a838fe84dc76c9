"""Races for all sizes: tiles that never meet are proved, others are seen at the smallest sizes."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.findings import Proved, Unproven, Violated
from tests.unit.sanitizer.all_sizes.test_kernels import gather, judged, matmul, sizes_of, softmax


@triton.jit
def tiles(c, M, N, BM: tl.constexpr, BN: tl.constexpr):
    across = tl.cdiv(N, BN)
    rows = tl.program_id(0) // across * BM + tl.arange(0, BM)
    cols = tl.program_id(0) % across * BN + tl.arange(0, BN)
    value = tl.program_id(0).to(tl.float32)
    tl.store(c + rows[:, None] * N + cols[None, :], value, (rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def tiles_without_a_mask(c, M, N, BM: tl.constexpr, BN: tl.constexpr):
    across = tl.cdiv(N, BN)
    rows = tl.program_id(0) // across * BM + tl.arange(0, BM)
    cols = tl.program_id(0) % across * BN + tl.arange(0, BN)
    value = tl.program_id(0).to(tl.float32)
    tl.store(c + rows[:, None] * N + cols[None, :], value, rows[:, None] * N + cols[None, :] < M * N)


@triton.jit
def overlapping(c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * (BLOCK - 1) + tl.arange(0, BLOCK)
    tl.store(c + at, tl.program_id(0).to(tl.float32), at < n)


@triton.jit
def next_ones(c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(c + at + 1, at + 1 < n, 0.0), at < n)


@triton.jit
def one_flag(c, n, BLOCK: tl.constexpr):
    tl.store(c, 1.0)


@triton.jit
def counted(c, n, BLOCK: tl.constexpr):
    tl.atomic_add(c, 1.0)


@triton.jit
def lanes_that_meet(c, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + lanes % n
    tl.store(c + at, lanes.to(tl.float32))


@triton.jit
def scattered(c, index, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    to = tl.load(index + at, at < n)
    tl.store(c + to, at.to(tl.float32), at < n)


_FLAT = {"c": "*fp32", "n": "i32"}
_TWO = {"c": "*fp32", "M": "i32", "N": "i32"}
_ROWS = {"x": "*fp32", "out": "*fp32", "stride": "i32", "n": "i32"}
_PRODUCT = {
    "a": "*fp32", "b": "*fp32", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32",
    "row_a": "i32", "row_b": "i32", "row_c": "i32",
}  # fmt: skip


def races(report: Any) -> list[Any]:
    return [one.verdict for one in report.settled if one.check == "race"]


def test_rows_do_not_meet_unless_they_are_longer_than_their_stride() -> None:
    shapes = {"x": "f32[1000, n]", "out": "f32[1000, n]"}
    right = judged(softmax, _ROWS, {"BLOCK": 128}, ["n=1..128,stride=n"], ["1000"], **shapes)
    assert all(isinstance(one, Proved) for one in races(right))
    wrong = judged(softmax, _ROWS, {"BLOCK": 128}, ["n=1..128,stride=n-1"], ["1000"], **shapes)
    [loads, stores] = races(wrong)
    assert isinstance(loads, Proved)
    assert isinstance(stores, Violated)
    assert [sizes for sizes, _ in sizes_of(wrong, "race")] == [{"n": 2}]


def test_tiles_of_a_matrix_do_not_meet() -> None:
    stated = "M=1..4096,N=1..4096,K=1..4096,row_a=K,row_b=N,row_c=N"
    report = judged(
        matmul, _PRODUCT, {"BM": 16, "BK": 16, "BUG": 0}, [stated], ["cdiv(M,BM)", "cdiv(N,BM)"],
        a="f32[M,K]", b="f32[K,N]", c="f32[M,N]",
    )  # fmt: skip
    assert all(isinstance(one, Proved) for one in races(report))


@pytest.mark.long
def test_tiles_by_quotient_and_remainder_do_not_meet() -> None:
    sizes = {"BM": 16, "BN": 32}
    grid = ["cdiv(M,BM)*cdiv(N,BN)"]
    right = judged(tiles, _TWO, sizes, ["M=1..4096,N=1..4096"], grid, c="f32[M,N]")
    assert [type(one) for one in races(right)] == [Proved]


@pytest.mark.long
def test_tiles_whose_rows_run_into_the_next_meet() -> None:
    sizes = {"BM": 16, "BN": 32}
    grid = ["cdiv(M,BM)*cdiv(N,BN)"]
    report = judged(tiles_without_a_mask, _TWO, sizes, ["M=1..64,N=1..64"], grid, c="f32[M,N]")
    assert [type(one) for one in races(report)] == [Violated]


@pytest.mark.parametrize(("kernel", "count"), [(overlapping, 1), (next_ones, 2)])
def test_the_smallest_size_at_which_programs_meet(kernel: Any, count: int) -> None:
    report = judged(kernel, _FLAT, {"BLOCK": 32}, ["n=1..2**20"], ["cdiv(n, BLOCK)"], c="f32[n]")
    assert sizes_of(report, "race") == [({"n": 33}, True)] * count


def test_equal_stores_to_one_place_are_unproven_and_atomics_are_right() -> None:
    report = judged(one_flag, _FLAT, {"BLOCK": 32}, ["n=1..4096"], ["n"], c="f32[n]")
    [verdict] = races(report)
    assert isinstance(verdict, Unproven)
    assert "they store the same value, with n = 2" in verdict.reason
    report = judged(counted, _FLAT, {"BLOCK": 32}, ["n=1..4096"], ["n"], c="f32[n]")
    assert [type(one) for one in races(report)] == [Proved]


def test_lanes_of_one_store_meet_below_their_number() -> None:
    report = judged(lanes_that_meet, _FLAT, {"BLOCK": 32}, ["n=1..4096"], ["7"], c="f32[7*n]")
    assert sizes_of(report, "race") == [({"n": 1}, True)]
    report = judged(lanes_that_meet, _FLAT, {"BLOCK": 32}, ["n=32..4096"], ["1"], c="f32[n]")
    assert [type(one) for one in races(report)] == [Proved]


def test_a_place_that_memory_gives_is_never_proved() -> None:
    names = {"c": "*fp32", "index": "*i32", "n": "i32"}
    for stated in ("n=1..4096", "n=1..4096,index=0..n-1"):
        report = judged(
            scattered, names, {"BLOCK": 32}, [stated], ["cdiv(n, BLOCK)"], c="f32[n]", index="i32[n]"
        )
        assert not isinstance(races(report)[-1], Proved)


def test_rows_that_an_index_chooses_are_only_read() -> None:
    names = {"source": "*fp32", "index": "*i32", "out": "*fp32", "n": "i32", "m": "i32", "width": "i32"}
    report = judged(
        gather, names, {"BLOCK": 64}, ["n=1..1000,m=1..1000,width=1..1000,index=0..m-1"], ["n"],
        source="f32[m,width]", index="i32[n]", out="f32[n,width]",
    )  # fmt: skip
    assert all(isinstance(one, Proved) for one in races(report))
