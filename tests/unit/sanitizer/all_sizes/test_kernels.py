"""Kernels for all sizes: right ones are proved, wrong ones fail at the smallest sizes that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.all_sizes.launches import all_sizes
from kerncap.sanitizer.all_sizes.sizes_engine import sanitize_all_sizes
from kerncap.sanitizer.all_sizes.stated_sizes import parse
from kerncap.sanitizer.findings import LaunchReport, Proved, Unproven, Violated
from kerncap.sanitizer.options import Options
from tests.unit.sanitizer.checks import kernels
from tests.unit.sanitizer.compiled import ttir_of


@triton.jit
def softmax(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + cols, mask=cols < n, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * stride + cols, value / tl.sum(value, 0), mask=cols < n)


@triton.jit
def matmul(a, b, c, M, N, K, row_a, row_b, row_c, BM: tl.constexpr, BK: tl.constexpr, BUG: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BM + tl.arange(0, BM)
    total = tl.zeros((BM, BM), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        in_k = k < K + 1 if BUG else k < K
        left = tl.load(a + rows[:, None] * row_a + k[None, :], (rows[:, None] < M) & in_k[None, :], 0.0)
        right = tl.load(b + k[:, None] * row_b + cols[None, :], (k[:, None] < K) & (cols[None, :] < N), 0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * row_c + cols[None, :], total, (rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def gather(source, index, out, n, m, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    chosen = tl.load(index + row)
    for start in range(0, width, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        value = tl.load(source + chosen * width + cols, mask=cols < width)
        tl.store(out + row * width + cols, value, mask=cols < width)


def judged(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    stated: Sequence[str],
    grid: Sequence[str],
    **arguments: str,
) -> LaunchReport:
    pointers = [name for name, kind in signature.items() if kind.startswith("*")]
    integers = [name for name in signature if name not in pointers]
    text = ttir_of(kernel, signature, constants)
    numbers = {name: value for name, value in constants.items() if type(value) is int}
    problem = all_sizes(text, parse(stated, integers, pointers), grid, arguments, numbers, "kernel.ttir")
    return sanitize_all_sizes(problem, Options())


def of(report: LaunchReport, check: str) -> list[type]:
    """What became of each operation, in order."""
    return [type(one.verdict) for one in report.settled if one.check == check]


def sizes_of(report: LaunchReport, check: str) -> list[tuple[dict[str, int], bool]]:
    """The sizes of each violation, and whether these are the smallest."""
    verdicts = [one.verdict for one in report.settled if one.check == check]
    firsts = [one.findings[0] for one in verdicts if isinstance(one, Violated)]
    return [(dict(one.sizes), one.smallest) for one in firsts]


VECTORS = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}


@pytest.mark.parametrize("bug", ["", "off by one", "no mask"])
def test_vectors(bug: str) -> None:
    report = judged(
        kernels.add, VECTORS, {"BLOCK": 128, "BUG": bug}, ["n=1..2**31-1"], ["cdiv(n, BLOCK)"],
        x_ptr="f32[n]", y_ptr="f32[n]", out_ptr="f32[n]",
    )  # fmt: skip
    assert of(report, "overflow") == [Proved] * 3
    if not bug:
        assert of(report, "oob") == [Proved] * 3
    else:
        assert of(report, "oob")[-1] is Violated
        assert sizes_of(report, "oob")[-1] == ({"n": 1}, True)


def test_an_interval_in_steps_leaves_out_the_sizes_between() -> None:
    """Without a mask, whole blocks are right."""
    report = judged(
        kernels.add, VECTORS, {"BLOCK": 128, "BUG": "no mask"}, ["n=128..2**31-128:128"], ["cdiv(n, BLOCK)"],
        x_ptr="f32[n]", y_ptr="f32[n]", out_ptr="f32[n]",
    )  # fmt: skip
    assert of(report, "oob") == of(report, "overflow") == [Proved] * 3


ROWS = {"x": "*fp32", "out": "*fp32", "n": "i32"}


def test_the_smallest_size_whose_rows_overflow() -> None:
    """Row 99 begins at 99 * n, which leaves 32 bits from n = 21,691,755 on."""
    assert 99 * 21_691_754 < 2**31 <= 99 * 21_691_755
    text = {"x": "f32[100, n]", "out": "f32[100]"}
    report = judged(kernels.row_sum, ROWS, {"BLOCK": 64, "BUG": 0}, ["n=1..2**31-1"], ["100"], **text)
    assert sizes_of(report, "overflow") == sizes_of(report, "oob") == [({"n": 21_691_755}, True)]
    below = judged(kernels.row_sum, ROWS, {"BLOCK": 64, "BUG": 0}, ["n=1..21691754"], ["100"], **text)
    assert of(below, "overflow") == of(below, "oob") == [Proved] * 2


def test_a_loop_that_counts_past_its_bits() -> None:
    """From 2**31 - 63 on the counter reaches 2**31 - 64, and 64 more is no 32-bit number."""
    report = judged(
        kernels.row_sum, ROWS, {"BLOCK": 64, "BUG": 0}, ["n=1..2**31-1"], ["1"], x="f32[1, n]", out="f32[1]"
    )
    found = report.settled[0].verdict
    assert isinstance(found, Unproven)
    assert found.reason == f"the loop over k counts past its 32 bits and goes on, from n = {2**31 - 63} on"


def test_rows_whose_stride_follows() -> None:
    signature = {"x": "*fp32", "out": "*fp32", "stride": "i32", "n": "i32"}
    text = {"x": "f32[2000, n]", "out": "f32[2000, n]"}
    for relation, expected in (("stride=n", [Proved, Proved]), ("stride=n+1", [Violated, Violated])):
        report = judged(softmax, signature, {"BLOCK": 1024}, [f"n=1..1024,{relation}"], ["2000"], **text)
        assert of(report, "oob") == expected


@pytest.mark.parametrize("bug", [0, 1])
def test_matrices(bug: int) -> None:
    names = dict.fromkeys(("M", "N", "K", "row_a", "row_b", "row_c"), "i32")
    report = judged(
        matmul, {"a": "*fp32", "b": "*fp32", "c": "*fp32", **names}, {"BM": 16, "BK": 16, "BUG": bug},
        ["M=1..8192,N=1..8192,K=1..8192,row_a=K,row_b=N", "row_c=N"], ["cdiv(M, BM)", "cdiv(N, BM)"],
        a="f32[M, K]", b="f32[K, N]", c="f32[M, N]",
    )  # fmt: skip
    assert of(report, "overflow") == [Proved] * 3
    assert of(report, "oob") == [Violated if bug else Proved, Proved, Proved]
    assert sizes_of(report, "oob") == ([({"M": 1, "N": 1, "K": 1}, True)] if bug else [])


def test_indices_within_what_is_stated() -> None:
    signature = {"source": "*fp32", "index": "*i64", "out": "*fp32", "n": "i32", "m": "i32", "width": "i32"}

    def of_stated(*stated: str) -> LaunchReport:
        return judged(
            gather, signature, {"BLOCK": 128}, ["n=1..9999,m=1..9999,width=1..4096", *stated], ["m"],
            source="f32[n, width]", index="i64[m]", out="f32[m, width]",
        )  # fmt: skip

    assert of(of_stated("index=0..n-1"), "oob") == [Proved] * 3
    beyond = of_stated("index=0..n")
    assert of(beyond, "oob") == [Proved, Violated, Proved]
    assert sizes_of(beyond, "oob") == [({"n": 1, "m": 1, "width": 1}, True)]
    [open_one] = [one.verdict for one in of_stated().settled if one.check == "oob" and one.order == 16]
    assert open_one == Unproven(
        "it rests on what index holds; state that: --for-all index=0..n-1, the largest range that proves "
        "this, or a comment on the line that loads it, # kerncap: 0 <= NAME < n"
    )


@triton.jit
def commented_gather(source, index, out, n, m, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)  # kerncap: 0 <= row < m
    chosen = tl.load(index + row)  # kerncap: 0 <= chosen < n
    cols = tl.arange(0, BLOCK)
    value = tl.load(source + chosen * width + cols, mask=cols < width)
    tl.store(out + row * width + cols, value, mask=cols < width)


@pytest.mark.long
def test_comments_are_preconditions_of_memory_and_claims_of_all_else() -> None:
    signature = {"source": "*fp32", "index": "*i64", "out": "*fp32", "n": "i32", "m": "i32", "width": "i32"}

    def of_grid(grid: str, rows: str) -> LaunchReport:
        return judged(
            commented_gather, signature, {"BLOCK": 128}, ["n=2..9999,m=1..9999,width=1..128"], [grid],
            source=f"f32[{rows}, width]", index="i64[m+1]", out="f32[m+1, width]",
        )  # fmt: skip

    right = of_grid("m", "n")
    assert (of(right, "oob"), of(right, "promise")) == ([Proved] * 3, [Proved] * 2)
    assert right.for_all is not None
    assert "every value of index is in 0..n-1" in right.for_all.assumed
    wrong, smallest = of_grid("m+1", "n-1"), [({"n": 2, "m": 1, "width": 1}, True)]
    assert (sizes_of(wrong, "oob"), sizes_of(wrong, "promise")) == (smallest, smallest)
