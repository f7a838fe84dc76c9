"""A suggested mask is in the kernel's own names, and is one that mends the access."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks import bounds
from kerncap.sanitizer.diagnose.value_names import named_values, scalar_name, written_as
from kerncap.sanitizer.findings import Violated
from tests.unit.sanitizer.compiled import analysis_of, launch_of


@triton.jit
def fill(x, n, m, BLOCK: tl.constexpr, BUG: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if BUG == "before":
        tl.store(x + offs - 3, 0.0, mask=offs < n)
    elif BUG == "both":
        back = offs - 3
        tl.store(x + back, 0.0)
    elif BUG == "reversed":
        turned = n - 1 - offs
        tl.store(x + turned, 0.0)
    else:
        tl.store(x + offs % (n + 1), 0.0)


@triton.jit
def tiles(x, M, N, BM: tl.constexpr, BN: tl.constexpr):
    offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
    offs_n = tl.program_id(1) * BN + tl.arange(0, BN)
    ptrs = x + offs_m[:, None] * N + offs_n[None, :]
    for _ in range(3):
        tl.store(ptrs, 0.0, mask=offs_n[None, :] < N)
        ptrs += M * N


@triton.jit
def k_tail(a, out, K, N, BK: tl.constexpr, BN: tl.constexpr):
    offs_k = tl.arange(0, BK)
    offs_n = tl.arange(0, BN)
    ptrs = a + offs_k[:, None] * N + offs_n[None, :]
    total = tl.zeros((BN,), tl.float32)
    for k in range(tl.cdiv(K, BK)):  # noqa: B007 -- its name is what the test is about
        total += tl.sum(tl.load(ptrs), 0)
        ptrs += BK * N
    tl.store(out + offs_n, total)


@triton.jit
def last_columns(x, N, M, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.arange(0, BM)
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    batch = tl.program_id(1) * M * N
    tl.store(x + batch + rows[:, None] * N + cols[None, :], 0.0)


def filled(bug: str, n: int = 1000, m: int = 7) -> Analysis:
    signature = {"x": "*fp32", "n": "i32", "m": "i32"}
    return analysis_of(launch_of(fill, (4,), signature, {"BLOCK": 256, "BUG": bug}, x=(n,), n=n, m=m))


def suggestions(analysis: Analysis) -> list[str | None]:
    verdict = bounds.check(analysis, analysis.walked.accesses[-1])
    assert isinstance(verdict, Violated)
    return [finding.suggestion for finding in verdict.findings]


def test_each_side_has_its_own() -> None:
    assert suggestions(filled("both")) == ["mask=back >= 0", "mask=back < n"]
    assert suggestions(filled("reversed")) == ["mask=turned >= 0"]


def test_none_where_no_value_of_the_kernel_says_it() -> None:
    assert suggestions(filled("before")) == [None]
    assert suggestions(filled("remainder")) == [None]


@pytest.mark.parametrize(("m", "text"), [(7, "mask=back < n"), (1000, "mask=back < 1000")])
def test_a_limit_has_a_name_only_if_one_argument_has_its_value(m: int, text: str) -> None:
    analysis = filled("both", m=m)
    assert suggestions(analysis)[1] == text
    assert scalar_name(analysis, 1000) == ("n" if m == 7 else None)


def test_a_pointer_that_a_loop_carries() -> None:
    signature = {"x": "*fp32", "M": "i32", "N": "i32"}
    sizes: dict[str, Any] = {"x": (3, 100, 90)}
    analysis = analysis_of(launch_of(tiles, (4, 2), signature, {"BM": 32, "BN": 64}, M=100, N=90, **sizes))
    assert suggestions(analysis) == ["add to the mask: offs_m[:, None] < M"]


def test_the_tail_of_a_loop_that_moves_a_pointer() -> None:
    signature = {"a": "*fp32", "out": "*fp32", "K": "i32", "N": "i32"}
    analysis = analysis_of(
        launch_of(k_tail, (1,), signature, {"BK": 32, "BN": 64}, a=(100, 64), out=(64,), K=100, N=64)
    )
    verdict = bounds.check(analysis, analysis.walked.accesses[0])
    assert isinstance(verdict, Violated)
    assert [one.suggestion for one in verdict.findings] == ["mask=offs_k[:, None] < K - k * 32"]


def test_what_is_in_bounds_by_chance_may_be_masked_out() -> None:
    """All columns too many but those of the last row fall into the next one."""
    signature = {"x": "*fp32", "N": "i32", "M": "i32"}
    constants = {"BM": 16, "BN": 64}
    analysis = analysis_of(launch_of(last_columns, (2, 3), signature, constants, x=(3, 16, 90), N=90, M=16))
    assert suggestions(analysis) == ["mask=cols[None, :] < N"]


def test_names_are_those_of_variables_not_of_their_parts() -> None:
    analysis = filled("both")
    access = analysis.walked.accesses[-1]
    named = {one.text: one.expression for one in named_values(analysis, access)}
    assert set(named) == {"back", "offs"}
    assert written_as(analysis, access, named["offs"]) is not None
    text, location = written_as(analysis, access, named["back"]) or ("", None)
    assert text == "back = offs - 3"
    assert location is not None
    assert location.frames[0].file.endswith("test_suggest.py")
