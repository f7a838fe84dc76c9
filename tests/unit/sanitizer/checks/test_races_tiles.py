"""Tiles of different programs, as kernels really lay them out: disjoint ones, and ones that overlap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kerncap.sanitizer.findings import Proved, Settled, Violated
from kerncap.sanitizer.launch import TensorArgument
from tests.counted_work import calls_of
from tests.unit.sanitizer.checks.race_runs import TWO, F, check, findings, launched, line, outcomes
from tests.unit.sanitizer.checks.tile_kernels import (
    add,
    block_pointers,
    copied,
    early_return,
    everybody,
    from_the_end,
    guarded,
    heads,
    interleaved,
    matmul,
    overlapping,
    persistent,
    row_norm,
    rows_of_a_program,
    split_k,
    statistics,
    stencil,
    sub_word,
    three_axes,
    turned,
    xor_swizzle,
)

MATMUL = {"a": "*fp16", "b": "*fp16", "c": F, "M": "i32", "N": "i32", "K": "i32", "stride": "i32"}


def _matmul(stride: int, M: int = 1000, N: int = 700, K: int = 96) -> list[Settled]:
    grid = (-(-M // 64) * -(-N // 64),)
    return check(launched(
        matmul, grid, MATMUL, a=(M, K), b=(K, N), c=(M, N), M=M, N=N, K=K, stride=stride, B=64, BK=32,
        GROUP=8,
    ))  # fmt: skip


def _heads(sb: int, sm: int, sh: int) -> list[Settled]:
    signature = {"q": F, "o": F, **dict.fromkeys(("H", "M", "sb", "sm", "sh"), "i32")}
    return check(launched(
        heads, (4, 6), signature, q=(2, 200, 3, 32), o=(2, 200, 3, 32), H=3, M=200, sb=sb, sm=sm, sh=sh,
        D=32, B=64,
    ))  # fmt: skip


def _persistent(M: int, N: int, sms: int) -> list[Settled]:
    signature = {"x": F, "o": F, "M": "i32", "N": "i32"}
    return check(launched(persistent, (132,), signature, x=(M, N), o=(M, N), M=M, N=N, SMS=sms, B=32))


def run(*launch: Any, **values: Any) -> Callable[[], list[Settled]]:
    return lambda: check(launched(*launch, **values))


CLEAN: dict[str, Callable[[], list[Settled]]] = {
    "vector": run(
        add, (98,), {"x": F, "y": F, "o": F, "n": "i32"}, x=(10**5,), y=(10**5,), o=(10**5,), n=10**5,
        B=1024,
    ),
    "in place": run(stencil, (98,), {"x": F, "n": "i32"}, x=(10**5,), n=10**5, OFF=0, B=1024),
    "grouped tiles": lambda: _matmul(700),
    "grouped tiles, last group short": lambda: _matmul(700, M=704),
    "persistent": lambda: _persistent(3000, 700, 132),
    "persistent, odd number of columns": lambda: _persistent(3000, 220, 132),
    "heads outside": lambda: _heads(200 * 96, 32, 200 * 32),
    "heads inside": lambda: _heads(200 * 96, 96, 32),
    "split k": run(
        split_k, (4, 3), {"x": F, "part": F, "M": "i32", "S": "i32"}, x=(3, 200), part=(3, 200), M=200,
        S=200, B=64,
    ),
    "guarded": run(guarded, (7,), {"o": "*i32", "n": "i32"}, o=(2,), n=3, WHO=6),
    "early return": run(early_return, (100,), {"x": "*i32", "n": "i32"}, x=(900,), n=900, B=64),
    "bytes": run(sub_word, (10,), {"o": "*i8", "n": "i32"}, o=(1000,), n=1000, B=128),
    "from the end": run(from_the_end, (8,), TWO, x=(1000,), o=(1000,), n=1000, B=128),
    "interleaved": run(interleaved, (8,), TWO, x=(1000,), o=(2000,), n=1000, B=128),
    "rows in turn": run(
        row_norm, (40,), {"x": F, "o": F, "stride": "i32", "n": "i32", "rows": "i32"}, x=(1000, 300),
        o=(1000, 300), stride=300, n=300, rows=1000, STEP=40, B=128,
    ),
    "rows in a run": run(
        rows_of_a_program, (8,), {"x": F, "o": F, "rows": "i32", "n": "i32"}, x=(100, 300), o=(100, 300),
        rows=100, n=300, PER=13, B=512,
    ),
    "descriptors": run(
        block_pointers, (4, 5), {"x": F, "o": F, "M": "i32", "N": "i32"}, x=(100, 148), o=(100, 148), M=100,
        N=148, B=32,
    ),
    "three axes": run(
        three_axes, (3, 5, 7), {"o": "*i32", "X": "i32", "Y": "i32", "Z": "i32"}, o=(7, 5, 150), X=150, Y=5,
        Z=7, B=64,
    ),
}  # fmt: skip
RACY: dict[str, Callable[[], list[Settled]]] = {
    "tiles overlap": run(overlapping, (10,), TWO, x=(1000,), o=(1000,), n=1000, STEP=100, B=128),
    "reads the neighbour's tile": run(
        stencil, (98,), {"x": F, "n": "i32"}, x=(10**5,), n=10**5, OFF=1, B=1024,
    ),
    "reads far ahead": run(stencil, (98,), {"x": F, "n": "i32"}, x=(10**5,), n=10**5, OFF=5000, B=1024),
    "row stride too short": lambda: _matmul(695),
    "persistent stride too short": lambda: _persistent(3000, 700, 131),
    "head stride too short": lambda: _heads(200 * 96, 96, 31),
    "parts overlap": run(
        split_k, (4, 3), {"x": F, "part": F, "M": "i32", "S": "i32"}, x=(3, 200), part=(3, 200), M=200,
        S=199, B=64,
    ),
    "two programs pass": run(guarded, (7,), {"o": "*i32", "n": "i32"}, o=(2,), n=3, WHO=5),
    "no program id": run(everybody, (9,), TWO, x=(576,), o=(64,), n=60, B=64),
    "rows overlap": run(
        row_norm, (40,), {"x": F, "o": F, "stride": "i32", "n": "i32", "rows": "i32"}, x=(1000, 300),
        o=(1000, 300), stride=290, n=300, rows=1000, STEP=40, B=128,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_disjoint_tiles_are_proved(name: str) -> None:
    settled = CLEAN[name]()
    assert outcomes(settled) == {"proved"}, findings(settled)
    # Not by going through all points: that would cost more the larger the grid.
    assert all(isinstance(s.verdict, Proved) and s.verdict.how in ("interval", "affine") for s in settled)


@pytest.mark.parametrize("name", RACY)
def test_tiles_that_overlap_are_found(name: str) -> None:
    settled = RACY[name]()
    assert "violated" in outcomes(settled)
    assert "unproven" not in outcomes(settled)
    for finding in findings(settled):
        assert finding.other is not None
        here, there = finding.place, finding.other.place
        assert here.program_id != there.program_id
        assert here.offset_bytes is not None and there.offset_bytes is not None
        assert abs(here.offset_bytes - there.offset_bytes) < finding.width_bytes


def test_the_witness_names_both_programs_and_lines() -> None:
    settled = RACY["reads the neighbour's tile"]()
    by_kind = {one.access: one for one in settled}
    for kind, other, text in (("load", "store", "right = tl.load"), ("store", "load", "tl.store(x + i")):
        verdict = by_kind[kind].verdict  # type: ignore[index]
        assert isinstance(verdict, Violated)
        (finding,) = verdict.findings
        assert finding.location.frames[0].line == line(stencil, text)
        assert finding.argument == "x"
        assert finding.other is not None and finding.other.access == other
    assert (
        "program (0, 0, 0), lane 1023 loads x + 1024 (byte 4,096), and program (1, 0, 0), lane 0 stores to it"
        in [f.message for f in findings(settled)][0]
    )


def test_a_store_without_a_program_id() -> None:
    (finding,) = findings(RACY["no program id"]())
    assert finding.message.startswith("programs (0, 0, 0) and (1, 0, 0) both store to o + 0 in lanes 0 and 0")
    assert finding.message.endswith("their values differ for some contents of memory")


def test_one_program_has_nobody_to_race_with() -> None:
    assert check(launched(everybody, (1,), TWO, x=(64,), o=(64,), n=60, B=64)) == []
    assert check(launched(turned, (1,), {"o": "*i32"}, o=(128,), B=64)) == []


def test_a_swizzle_that_algebra_does_not_see_through_is_looked_up() -> None:
    clean = check(launched(xor_swizzle, (64,), {"o": "*i32"}, o=(64, 32), B=32, TWIST=1))
    (settled,) = clean
    assert settled.verdict == Proved("enumerated")
    assert outcomes(check(launched(xor_swizzle, (64,), {"o": "*i32"}, o=(64, 32), B=32, TWIST=3))) == {
        "proved"
    }


def test_what_all_programs_compute_alike_is_a_note() -> None:
    settled = check(launched(
        statistics, (6, 4), {"x": F, "o": F, "mean": F, "n": "i32"}, x=(6, 50), o=(6, 50), mean=(6,), n=50,
        B=64,
    ))  # fmt: skip
    (note,) = findings(settled)
    assert note.note and note.location.frames[0].line == line(statistics, "tl.store(mean")
    assert "they store the same value" in note.message


def test_what_differs_between_programs_is_a_finding() -> None:
    settled = check(launched(guarded, (7,), {"o": "*i32", "n": "i32"}, o=(2,), n=3, WHO=5))
    (finding,) = findings(settled)
    assert "their values differ" in finding.message


def _aliased(launch: Any, first: str, second: str, shift_bytes: int) -> Any:
    """The second argument becomes a view of the first one's storage."""
    by_name = {a.name: a for a in launch.arguments}
    base, view = by_name[first], by_name[second]
    assert isinstance(base, TensorArgument)
    moved = replace(view, storage=base.storage, address=base.address + shift_bytes)
    return replace(launch, arguments=tuple(moved if a is view else a for a in launch.arguments))


@pytest.mark.parametrize(
    ("shift_bytes", "expected"), [(0, {"proved"}), (4, {"proved", "violated"}), (400_000, {"proved"})]
)
def test_arguments_that_share_memory_meet_by_address(shift_bytes: int, expected: set[str]) -> None:
    launch = launched(
        add, (98,), {"x": F, "y": F, "o": F, "n": "i32"}, x=(2 * 10**5,), y=(10**5,), o=(10**5,), n=10**5,
        B=1024,
    )  # fmt: skip
    settled = check(_aliased(launch, "x", "o", shift_bytes))
    assert outcomes(settled) == expected
    names = {(f.argument, f.other.place.argument) for f in findings(settled) if f.other is not None}
    assert names == ({("x", "o"), ("o", "x")} if "violated" in expected else set())


def test_cost_is_flat_in_the_grid() -> None:
    few, many = (_work_of_a_proof(programs) for programs in (10, 10**6))
    assert many < 1.5 * few


def _work_of_a_proof(programs: int) -> int:
    n = programs * 1024 - 5
    launch = launched(
        add, (programs,), {"x": F, "y": F, "o": F, "n": "i32"}, x=(n,), y=(n,), o=(n,), n=n, B=1024
    )
    assert outcomes(check(launch)) == {"proved"}  # what is worked out once is kept from here on
    return calls_of(lambda: check(launch))


def test_tiles_that_overlap_and_copy_the_same_are_a_note() -> None:
    settled = check(launched(copied, (10,), TWO, x=(1000,), o=(1000,), n=1000, STEP=100, B=128))
    assert outcomes(settled) == {"proved", "note"}
