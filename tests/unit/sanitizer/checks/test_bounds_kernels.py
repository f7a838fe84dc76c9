"""Kernels as people write them, from their source to the verdict, with every witness run again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kerncap.sanitizer.checks import bounds, overflow
from kerncap.sanitizer.findings import Finding, Proved, Verdict, Violated
from kerncap.sanitizer.launch import Launch
from tests.unit.sanitizer.checks import kernels
from tests.unit.sanitizer.checks.hand_made import Held
from tests.unit.sanitizer.compiled import analysis_of, launch_of


def verdicts(launch: Launch, check: Any = bounds.check, mode: Any = "storage") -> list[Verdict]:
    """Of each access in the order of the text."""
    analysis = analysis_of(launch, bounds=mode)
    assert analysis.walked.notes == ()
    return [check(analysis, access) for access in analysis.walked.accesses]


def findings(launch: Launch, check: Any = bounds.check, mode: Any = "storage") -> list[Finding]:
    return [
        finding
        for verdict in verdicts(launch, check, mode)
        if isinstance(verdict, Violated)
        for finding in verdict.findings
        if not finding.note
    ]


def proved(launch: Launch, check: Any = bounds.check, mode: Any = "storage") -> bool:
    return all(isinstance(verdict, Proved) for verdict in verdicts(launch, check, mode))


def the(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def add(bug: str) -> Launch:
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    sizes = dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), (1000,))
    return launch_of(kernels.add, (4,), signature, {"BLOCK": 256, "BUG": bug}, n=1000, **sizes)


def test_add() -> None:
    assert proved(add(""))
    found = findings(add("off by one"))
    assert [(f.argument, f.place.element, f.access) for f in found] == [
        ("x_ptr", 1000, "load"),
        ("y_ptr", 1000, "load"),
        ("out_ptr", 1000, "store"),
    ]
    assert found[0].suggestion == "mask=mask & (offs < n)"
    one = the(findings(add("no mask")))
    assert one.message == (
        "store of 4 bytes at out_ptr + 1000 (byte 4,000): just past the end of out_ptr "
        "(float32[1000], 4,000 bytes); program (3, 0, 0), lane 232"
    )
    assert one.suggestion == "mask=offs < n"
    assert one.location.frames[0].file.endswith("kernels.py")


def copy_2d(bug: str) -> Launch:
    signature = {"src": "*fp16", "dst": "*fp16", "M": "i32", "N": "i32", "stride": "i32"}
    constants = {"BM": 32, "BN": 64, "BUG": bug}
    return launch_of(
        kernels.copy_2d, (4, 2), signature, constants, src=(100, 128), dst=(100, 90), M=100, N=90, stride=128
    )


@pytest.mark.parametrize(
    ("bug", "suggestion"),
    [
        ("rows", "add to the mask: rows[:, None] < M"),
        ("both", "mask=(rows[:, None] < M) & (cols[None, :] < N)"),
        ("stride", None),
    ],
)
def test_two_axes(bug: str, suggestion: str | None) -> None:
    found = the(findings(copy_2d(bug)))
    assert (found.argument, found.place.program_id[0], found.suggestion) == ("dst", 3, suggestion)


def test_two_axes_clean() -> None:
    assert proved(copy_2d(""))
    assert proved(copy_2d(""), mode="view")


def test_the_tail_of_a_loop() -> None:
    def launch(bug: bool, n: int) -> Launch:
        signature = {"x": "*fp32", "out": "*fp32", "n": "i32"}
        constants = {"BLOCK": 128, "BUG": bug}
        return launch_of(kernels.row_sum, (50,), signature, constants, x=(50, n), out=(50,), n=n)

    assert proved(launch(False, 1000))
    assert proved(launch(True, 1024))
    found = the(findings(launch(True, 1000)))
    assert (found.place.program_id, found.place.lane, found.place.iterations) == (
        (49, 0, 0),
        (104,),
        (("k", 896),),
    )
    assert found.suggestion == "mask=offs < n"


def test_before_the_start() -> None:
    def launch(bug: bool) -> Launch:
        signature = {"x": "*fp32", "out": "*fp32", "n": "i32"}
        return launch_of(
            kernels.shifted, (4,), signature, {"BLOCK": 64, "BUG": bug}, x=(256,), out=(256,), n=256
        )

    assert proved(launch(False))
    found = the(findings(launch(True)))
    assert (found.beyond_bytes, found.place.program_id, found.place.lane) == (-4, (0, 0, 0), (0,))
    assert "4 bytes before the start of x" in found.message


def large_rows(bug: bool, rows: int) -> Launch:
    signature = {"x": "*i8", "n_rows": "i32", "n_cols": "i32"}
    constants = {"BLOCK": 4096, "BUG": bug}
    return launch_of(
        kernels.large_rows, (rows,), signature, constants, x=(rows, 3000), n_rows=rows, n_cols=3000
    )


def test_int32_overflow() -> None:
    assert proved(large_rows(True, 700_000), overflow.check)
    assert proved(large_rows(False, 800_000), overflow.check)
    assert proved(large_rows(False, 800_000))
    found = the(findings(large_rows(True, 800_000), overflow.check))
    assert found.place.program_id == (715_828, 0, 0)
    assert "integer overflow in the address of the store of 1 byte" in found.message
    assert "which wraps around to -" in found.message
    outside = the(findings(large_rows(True, 800_000)))
    assert "only where an integer overflows" in outside.message and outside.suggestion is None


@pytest.mark.parametrize(("row", "start"), [(60_000, 2_400_000_000), (3_221_225, 2**32 + 129_032_704)])
def test_numbers_of_the_launch_that_overflow(row: int, start: int) -> None:
    """Row and stride are numbers, not expressions; the second wraps around to an offset in bounds."""

    def launch(bug: bool) -> Launch:
        signature = {"x": "*i8", "out": "*i8", "row": "i32", "stride": "i32"}
        constants = {"BLOCK": 1024, "BUG": bug}
        return launch_of(
            kernels.one_row, (1,), signature, constants,
            x=(row + 1, start // row), out=(1024,), row=row, stride=start // row,
        )  # fmt: skip

    assert proved(launch(False))
    assert proved(launch(False), overflow.check)
    stride = start // row
    found = the(findings(launch(True), overflow.check))
    assert found.argument == "x"
    wrapped = (row * stride + 2**31) % 2**32 - 2**31
    assert "start = row * stride (line " in found.message
    assert f") is {row * stride:,}, which wraps around to {wrapped:,}" in found.message
    assert all("only where an integer overflows" in one.message for one in findings(launch(True)))


@pytest.mark.parametrize("way", ["plain", "remainder", "choice"])
@pytest.mark.parametrize(
    ("scale", "programs", "wraps"), [(1 << 16, 4, True), (1 << 16, 1, False), (64, 4, False)]
)
def test_a_cast_that_loses_all_that_differs(scale: int, programs: int, wraps: bool, way: str) -> None:
    """What is left is 0, for every program; a remainder or a choice on the way hides nothing."""
    signature = {"x": "*fp32", "out": "*fp32"}
    constants = {"SCALE": scale, "BLOCK": 64, "WAY": way}
    launch = launch_of(kernels.lost_row, (programs,), signature, constants, x=(256,), out=(256,))
    if wraps:
        found = the(findings(launch, overflow.check))
        assert found.argument == "x" and found.place.program_id == (1, 0, 0)
        row = 3 if way == "choice" else 1
        assert f" is {row * scale:,}, which wraps around to 0" in found.message
    else:
        assert proved(launch, overflow.check)


def test_hashes_and_random_numbers_are_meant_to_wrap() -> None:
    def table(bug: bool) -> Launch:
        signature = {"keys": "*i32", "table": "*i32", "n": "i32"}
        constants = {"SIZE": 1000, "BLOCK": 256, "BUG": bug}
        return launch_of(
            kernels.hash_table, (40,), signature, constants, keys=(10_000,), table=(1000,), n=10_000
        )

    assert proved(table(False))
    assert proved(table(False), overflow.check)
    assert the(findings(table(True))).place.element == 1000
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "p": "fp32", "seed": "i32"}
    sizes: dict[str, Any] = {"x": (1000,), "out": (1000,)}
    dropout = launch_of(
        kernels.philox_dropout, (4,), signature, {"BLOCK": 256}, n=1000, p=0.5, seed=7, **sizes
    )
    assert proved(dropout)
    assert proved(dropout, overflow.check)


def test_either_pointer() -> None:
    def launch(bug: bool) -> Launch:
        signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32"}
        constants = {"BLOCK": 64, "BUG": bug}
        return launch_of(kernels.either, (6,), signature, constants, x=(64,), y=(32,), out=(64,))

    assert proved(launch(False))
    found = the(findings(launch(True)))
    assert (found.argument, found.place.program_id, found.place.lane) == ("y", (1, 0, 0), (32,))


def test_an_early_return() -> None:
    def launch(bug: bool) -> Launch:
        signature = {"x": "*fp32", "n": "i32", "limit": "i32"}
        constants = {"BLOCK": 64, "BUG": bug}
        return launch_of(kernels.leaves_early, (10,), signature, constants, x=(512,), n=512, limit=8)

    assert proved(launch(False))
    assert the(findings(launch(True))).place.program_id == (8, 0, 0)


def test_a_device_descriptor() -> None:
    def launch(rows: int) -> Launch:
        signature = {"x": "*fp32", "out": "*fp32", "M": "i32", "N": "i32", "rows": "i32"}
        constants = {"BM": 32, "BN": 32}
        return launch_of(
            kernels.described, (4, 2), signature, constants,
            x=(100, 64), out=(32, 32), M=100, N=64, rows=rows,
        )  # fmt: skip

    assert proved(launch(100))
    found = the(findings(launch(101)))
    assert (found.argument, found.place.program_id, found.place.element) == ("x", (3, 0, 0), 6400)


def test_pointers_in_a_table() -> None:
    signature = {"table": "*i64", "out": "*fp32", "x": "*fp32", "y": "*fp32"}
    launch = launch_of(
        kernels.through_table, (2,), {k: signature[k] for k in ("table", "out")}, {"BLOCK": 64},
        table=(2,), out=(128,),
    )  # fmt: skip

    def with_sources(*sizes: int) -> Launch:
        from kerncap.sanitizer.launch import Storage

        addresses = [(5 + i) << 36 for i in range(len(sizes))]
        more = tuple(
            Storage(a, n * 4, a, n * 4, f"s{i}")
            for i, (a, n) in enumerate(zip(addresses, sizes, strict=True))
        )
        held = Held([np.array(addresses, np.int64), None])
        return replace(launch, storages=(*launch.storages, *more), contents=held)

    assert proved(with_sources(64, 64))
    found = the(findings(with_sources(64, 60)))
    assert (found.argument, found.place.program_id, found.place.lane) == ("s1", (1, 0, 0), (60,))


def test_nested_loops() -> None:
    def launch(bug: bool) -> Launch:
        signature = {"x": "*fp32", "n": "i32"}
        constants = {"INNER": 40, "BUG": bug}
        return launch_of(kernels.nested, (1,), signature, constants, x=(2000,), n=50)

    assert proved(launch(False))
    assert the(findings(launch(True))).place.iterations == (("i", 49), ("j", 39))
