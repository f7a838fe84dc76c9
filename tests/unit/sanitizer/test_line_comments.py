"""What comments say of a line's value: how they are read, and that they are checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import triton
import triton.language as tl

import kerncap
from kerncap.errors import UsageError
from kerncap.sanitizer import engine
from kerncap.sanitizer.all_sizes.captured_sizes import check_contents
from kerncap.sanitizer.all_sizes.stated_sizes import parse
from kerncap.sanitizer.findings import LaunchReport, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.line_comments import FORM, comments_of
from tests.unit.sanitizer.checks.memory_runs import with_memory
from tests.unit.sanitizer.compiled import launch_of


@pytest.mark.parametrize(
    ("text", "name", "low", "high"),
    [
        ("0 <= i < n", "i", "0", "n-1"),
        ("n > i >= -1", "i", "-1", "n-1"),
        ("0 < i <= 2 * n", "i", "1", "2 * n"),
        ("i < n + 1", "i", None, "(n + 1)-1"),
        ("3 < i", "i", "4", None),
        ("i", "", None, None),
        ("0 <= i > n", "", None, None),
        ("0 <= i + 1 < n", "", None, None),
        ("i is fine", "", None, None),
        ("i < " + "-" * 9999 + "n", "", None, None),
    ],
)
def test_forms(text: str, name: str, low: str | None, high: str | None) -> None:
    [found] = comments_of(
        "k.py", {"k.py": f"i = 1  # kerncap: {text}\n# kerncap: BLOCK=32\ns = '# kerncap: 1'\n"}
    )
    assert (found.line, found.name, found.low, found.high) == (1, name, low, high)


@pytest.mark.parametrize(
    ("text", "kernel"), [("    def k(\n        n,{}\n    ):", "k"), ("    i = 1{}\n    j = = 2", "")]
)
def test_a_part_of_a_file_is_read_as_well(text: str, kernel: str) -> None:
    name = "n" if kernel else "i"
    body = "\n        return" if kernel else ""
    found = comments_of("k.py", {"k.py": f"\n{text.format(f'  # kerncap: 0 < {name}')}{body}\n"})
    assert [(one.name, one.kernel) for one in found] == [(name, kernel)]


@triton.jit
def rows(x, index, out, n, m, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # kerncap: 0 <= at < cdiv(m, BLOCK) * BLOCK
    row = tl.load(index + at, mask=at < m, other=-1)  # kerncap: 0 <= row < n
    tl.store(out + at, tl.load(x + row, mask=at < m), mask=at < m)


@triton.jit
@kerncap.invariant("n <= 40", "0 < BLOCK <= 4")
def of_parameters(
    x, index, out,
    n,  # kerncap: 0 < n <= m * 9
    m,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < m), mask=at < m)


@triton.jit
def not_understood(x, index, out, n, m, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)  # kerncap: at is small
    row = tl.load(index + at)  # kerncap: 0 <= row < rows
    value = tl.load(x + row)  # kerncap: 0 <= value
    tl.store(out + at, value)


SIGNATURE = {"x": "*fp32", "index": "*i32", "out": "*fp32", "n": "i32", "m": "i32"}


def _launch(index: list[int], n: int = 40, m: int = 5, grid: int = 2) -> Launch:
    constants = {"BLOCK": 4}
    launch = launch_of(rows, (grid,), SIGNATURE, constants, x=(40,), index=(5,), out=(5,), n=n, m=m)
    launch = replace(launch, configuration={"BLOCK": "4"})
    return with_memory(launch, {"index": np.array(index, np.int32)})


def _of_comments(report: LaunchReport) -> list[Verdict]:
    return [one.verdict for one in report.settled if one.check == "promise" and one.order < -1]


def test_a_comment_is_checked_for_all_lanes_that_are_loaded() -> None:
    assert all(isinstance(one, Proved) for one in _of_comments(engine.sanitize(_launch([3, 0, 39, 7, 5]))))
    found = [
        one
        for one in _of_comments(engine.sanitize(_launch([3, 0, 9, 7, 5], n=9)))
        if isinstance(one, Violated)
    ]
    [finding] = found[0].findings
    assert finding.message == "row is 9, and the source says 0 <= row < n"
    assert finding.location.frame is not None
    assert finding.place is not None
    assert finding.place.lane == (2,)


def test_a_comment_on_what_is_computed() -> None:
    [finding] = [
        finding
        for one in _of_comments(engine.sanitize(_launch([0] * 5, grid=3)))
        if isinstance(one, Violated)
        for finding in one.findings
    ]
    assert finding.message == "at is 8, and the source says 0 <= at < cdiv(m, BLOCK) * BLOCK"


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (40, None),
        (41, "n is 41, and the source says n <= 40"),
        (0, "n is 0, and the source says 0 < n <= m * 9"),
    ],
)
def test_what_is_said_of_parameters_is_checked_for_the_launch(n: int, message: str | None) -> None:
    report = engine.sanitize(_of_parameters({"BLOCK": "4"}, n))
    found = [f for one in _of_comments(report) if isinstance(one, Violated) for f in one.findings]
    assert [one.message for one in found] == ([] if message is None else [message])
    assert len(_of_comments(report)) == 3


def test_a_parameter_that_is_one_is_known_though_the_compiled_kernel_lacks_it() -> None:
    launch = _of_parameters({"BLOCK": "4"}, 1)
    assert "n is not known" in str(engine.sanitize(launch).settled)
    known = engine.sanitize(replace(launch, ones=frozenset(("n",))))
    assert [type(one) for one in _of_comments(known)] == [Proved] * 3


def _of_parameters(configuration: dict[str, str], n: int) -> Launch:
    constants, signature = {"BLOCK": 4}, SIGNATURE
    if n == 1:
        constants, signature = {**constants, "n": 1}, {k: v for k, v in SIGNATURE.items() if k != "n"}
    given = {} if n == 1 else {"n": n}
    launch = launch_of(of_parameters, (1,), signature, constants, x=(40,), index=(5,), out=(5,), m=5, **given)
    return with_memory(replace(launch, configuration=configuration), {"index": np.zeros(5, np.int32)})


def test_a_comment_that_says_nothing_leaves_the_launch_open() -> None:
    launch = launch_of(
        not_understood, (1,), SIGNATURE, {"BLOCK": 4}, x=(40,), index=(4,), out=(4,), n=40, m=4
    )
    report = engine.sanitize(with_memory(launch, {"index": np.zeros(4, np.int32)}))
    reasons = [one.verdict.reason for one in report.settled if isinstance(one.verdict, Unproven)]
    assert [one for one in reasons if one.endswith(FORM)] == [
        f"'at is small' is not understood; {FORM}",
        f"rows is not known, only n, m; {FORM}",
        f"value is not an integer of this line in the TTIR; {FORM}",
    ]


def test_what_is_stated_of_memory_was_so_in_the_captured_launch() -> None:
    launch, values = _launch([3, 0, 39, 7, 5]), {"n": 40}
    check_contents(parse(["n=1..99,index=0..n-1"], ["n", "m"], ["index"]), launch, values)
    with pytest.raises(
        UsageError, match=r"index is stated to hold 0\.\.n-2 and held 39 in the captured launch"
    ):
        check_contents(parse(["n=1..99,index=0..n-2"], ["n", "m"], ["index"]), launch, values)
