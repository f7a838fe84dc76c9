"""Tiles of different programs, as kernels really lay them out: disjoint ones, and ones that overlap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.analysis import Options
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Proved, Settled, Unproven, Violated
from kerncap.sanitizer.launch import TensorArgument
from tests.unit.sanitizer.checks.race_runs import check, findings, kind_of, launched, line, outcomes, zeros
from tests.work import calls_of


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def overlapping(x, o, n, STEP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * STEP + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.program_id(0), mask=i < n)


@triton.jit
def copied(x, o, n, STEP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * STEP + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def stencil(x, n, OFF: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    right = tl.load(x + i + OFF, mask=i + OFF < n)
    tl.store(x + i, right * 2, mask=i < n)


@triton.jit
def matmul(a, b, c, M, N, K, stride, B: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, B)
    num_n = tl.cdiv(N, B)
    width = GROUP * num_n
    group = pid // width
    first = group * GROUP
    size = min(num_m - first, GROUP)
    pm = first + (pid % width) % size
    pn = (pid % width) // size
    rows = (pm * B + tl.arange(0, B)) % M
    cols = (pn * B + tl.arange(0, B)) % N
    k = tl.arange(0, BK)
    pa = a + rows[:, None] * K + k[None, :]
    pb = b + k[:, None] * N + cols[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = tl.load(pa, mask=k[None, :] < K - step * BK, other=0.0)
        right = tl.load(pb, mask=k[:, None] < K - step * BK, other=0.0)
        acc = tl.dot(left, right, acc)
        pa += BK
        pb += BK * N
    m = pm * B + tl.arange(0, B)
    n = pn * B + tl.arange(0, B)
    tl.store(c + m[:, None] * stride + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def persistent(x, o, M, N, SMS: tl.constexpr, B: tl.constexpr):
    num_n = tl.cdiv(N, B)
    for tile in range(tl.program_id(0), tl.cdiv(M, B) * num_n, SMS):
        m = tile // num_n * B + tl.arange(0, B)
        n = tile % num_n * B + tl.arange(0, B)
        place = m[:, None] * N + n[None, :]
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(o + place, tl.load(x + place, inside) + tl.program_id(0), inside)


@triton.jit
def xor_swizzle(o, B: tl.constexpr, TWIST: tl.constexpr):
    pid = tl.program_id(0)
    row = pid // 8
    column = (pid % 8) ^ (row * TWIST % 8)
    i = tl.arange(0, B)
    tl.store(o + (row * 8 + column) * B + i, i)


@triton.jit
def heads(q, o, H, M, sb, sm, sh, D: tl.constexpr, B: tl.constexpr):
    start = tl.program_id(0) * B
    batch = tl.program_id(1) // H
    head = tl.program_id(1) % H
    m = start + tl.arange(0, B)
    d = tl.arange(0, D)
    place = batch * sb + head * sh + m[:, None] * sm + d[None, :]
    tl.store(o + place, tl.load(q + place, m[:, None] < M) + head, m[:, None] < M)


@triton.jit
def split_k(x, part, M, S, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    s = tl.program_id(1)
    value = tl.load(x + s * M + m, m < M)
    tl.store(part + s * S + m, value, m < M)


@triton.jit
def guarded(o, n, WHO: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(o, n)
    if pid >= WHO:
        tl.store(o + 1, pid)


@triton.jit
def everybody(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + tl.program_id(0) * B + i), mask=i < n)


@triton.jit
def early_return(x, n, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid * B >= n:
        return
    i = pid * B + tl.arange(0, B)
    tl.store(x + i, i, mask=i < n)


@triton.jit
def sub_word(o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, (i % 7).to(tl.int8), mask=i < n)


@triton.jit
def from_the_end(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + (n - 1 - i), tl.load(x + i, i < n), i < n)


@triton.jit
def interleaved(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + 2 * i, tl.load(x + i, i < n), i < n)
    tl.store(o + 2 * i + 1, tl.load(x + i, i < n), i < n)


@triton.jit
def row_norm(x, o, stride, n, rows, STEP: tl.constexpr, B: tl.constexpr):
    for row in range(tl.program_id(0), rows, STEP):
        total = 0.0
        for start in range(0, n, B):
            i = start + tl.arange(0, B)
            total += tl.sum(tl.load(x + row * stride + i, i < n, other=0.0))
        for start in range(0, n, B):
            i = start + tl.arange(0, B)
            value = tl.load(x + row * stride + i, i < n)
            tl.store(o + row * stride + i, value / total, i < n)


@triton.jit
def block_pointers(x, o, M, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    target = tl.make_tensor_descriptor(o, [M, N], [N, 1], [B, B])
    m, n = tl.program_id(0) * B, tl.program_id(1) * B
    target.store([m, n], source.load([m, n]))


@triton.jit
def three_axes(o, X, Y, Z, B: tl.constexpr):
    x = tl.program_id(0) * B + tl.arange(0, B)
    y, z = tl.program_id(1), tl.program_id(2)
    tl.store(o + (z * Y + y) * X + x, x, x < X)


@triton.jit
def statistics(x, o, mean, n, B: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, B)
    average = tl.sum(tl.load(x + row * n + i, mask=i < n, other=0.0)) / n
    tl.store(mean + row, average)
    j = part * 16 + tl.arange(0, 16)
    tl.store(o + row * n + j, tl.load(x + row * n + j, mask=j < n) - average, mask=j < n)


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
def rows_of_a_program(x, o, rows, n, PER: tl.constexpr, B: tl.constexpr):
    """As many rows in a run for each program; the last one has what is left."""
    first = tl.program_id(0) * PER
    i = tl.arange(0, B)
    for row in range(first, min(first + PER, rows)):
        tl.store(o + row * n + i, tl.load(x + row * n + i, i < n), i < n)


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


F = "*fp32"
TWO = {"x": F, "o": F, "n": "i32"}
MATMUL = {"a": "*fp16", "b": "*fp16", "c": F, "M": "i32", "N": "i32", "K": "i32", "stride": "i32"}


def _matmul(stride: int, M: int = 1000, N: int = 700, K: int = 96) -> list[Settled]:
    grid = (-(-M // 64) * -(-N // 64),)
    return check(
        launched(
            matmul,
            grid,
            MATMUL,
            a=(M, K),
            b=(K, N),
            c=(M, N),
            M=M,
            N=N,
            K=K,
            stride=stride,
            B=64,
            BK=32,
            GROUP=8,
        )
    )


def _heads(sb: int, sm: int, sh: int) -> list[Settled]:
    signature = {"q": F, "o": F, **dict.fromkeys(("H", "M", "sb", "sm", "sh"), "i32")}
    return check(
        launched(
            heads,
            (4, 6),
            signature,
            q=(2, 200, 3, 32),
            o=(2, 200, 3, 32),
            H=3,
            M=200,
            sb=sb,
            sm=sm,
            sh=sh,
            D=32,
            B=64,
        )
    )


def _persistent(M: int, N: int, sms: int) -> list[Settled]:
    signature = {"x": F, "o": F, "M": "i32", "N": "i32"}
    return check(launched(persistent, (132,), signature, x=(M, N), o=(M, N), M=M, N=N, SMS=sms, B=32))


CLEAN: dict[str, Any] = {
    "vector": lambda: check(
        launched(
            add,
            (98,),
            {"x": F, "y": F, "o": F, "n": "i32"},
            x=(10**5,),
            y=(10**5,),
            o=(10**5,),
            n=10**5,
            B=1024,
        )
    ),
    "in place": lambda: check(
        launched(stencil, (98,), {"x": F, "n": "i32"}, x=(10**5,), n=10**5, OFF=0, B=1024)
    ),
    "grouped tiles": lambda: _matmul(700),
    "grouped tiles, last group short": lambda: _matmul(700, M=704),
    "persistent": lambda: _persistent(3000, 700, 132),
    "persistent, odd number of columns": lambda: _persistent(3000, 220, 132),
    "heads outside": lambda: _heads(200 * 96, 32, 200 * 32),
    "heads inside": lambda: _heads(200 * 96, 96, 32),
    "split k": lambda: check(
        launched(
            split_k,
            (4, 3),
            {"x": F, "part": F, "M": "i32", "S": "i32"},
            x=(3, 200),
            part=(3, 200),
            M=200,
            S=200,
            B=64,
        )
    ),
    "guarded": lambda: check(launched(guarded, (7,), {"o": "*i32", "n": "i32"}, o=(2,), n=3, WHO=6)),
    "early return": lambda: check(
        launched(early_return, (100,), {"x": "*i32", "n": "i32"}, x=(900,), n=900, B=64)
    ),
    "bytes": lambda: check(launched(sub_word, (10,), {"o": "*i8", "n": "i32"}, o=(1000,), n=1000, B=128)),
    "from the end": lambda: check(launched(from_the_end, (8,), TWO, x=(1000,), o=(1000,), n=1000, B=128)),
    "interleaved": lambda: check(launched(interleaved, (8,), TWO, x=(1000,), o=(2000,), n=1000, B=128)),
    "rows in turn": lambda: check(
        launched(
            row_norm,
            (40,),
            {"x": F, "o": F, "stride": "i32", "n": "i32", "rows": "i32"},
            x=(1000, 300),
            o=(1000, 300),
            stride=300,
            n=300,
            rows=1000,
            STEP=40,
            B=128,
        )
    ),
    "rows in a run": lambda: check(
        launched(
            rows_of_a_program,
            (8,),
            {"x": F, "o": F, "rows": "i32", "n": "i32"},
            x=(100, 300),
            o=(100, 300),
            rows=100,
            n=300,
            PER=13,
            B=512,
        )
    ),
    "descriptors": lambda: check(
        launched(
            block_pointers,
            (4, 5),
            {"x": F, "o": F, "M": "i32", "N": "i32"},
            x=(100, 148),
            o=(100, 148),
            M=100,
            N=148,
            B=32,
        )
    ),
    "three axes": lambda: check(
        launched(
            three_axes,
            (3, 5, 7),
            {"o": "*i32", "X": "i32", "Y": "i32", "Z": "i32"},
            o=(7, 5, 150),
            X=150,
            Y=5,
            Z=7,
            B=64,
        )
    ),
}

RACY: dict[str, Any] = {
    "tiles overlap": lambda: check(
        launched(overlapping, (10,), TWO, x=(1000,), o=(1000,), n=1000, STEP=100, B=128)
    ),
    "reads the neighbour's tile": lambda: check(
        launched(stencil, (98,), {"x": F, "n": "i32"}, x=(10**5,), n=10**5, OFF=1, B=1024)
    ),
    "reads far ahead": lambda: check(
        launched(stencil, (98,), {"x": F, "n": "i32"}, x=(10**5,), n=10**5, OFF=5000, B=1024)
    ),
    "row stride too short": lambda: _matmul(695),
    "persistent stride too short": lambda: _persistent(3000, 700, 131),
    "head stride too short": lambda: _heads(200 * 96, 96, 31),
    "parts overlap": lambda: check(
        launched(
            split_k,
            (4, 3),
            {"x": F, "part": F, "M": "i32", "S": "i32"},
            x=(3, 200),
            part=(3, 200),
            M=200,
            S=199,
            B=64,
        )
    ),
    "two programs pass": lambda: check(
        launched(guarded, (7,), {"o": "*i32", "n": "i32"}, o=(2,), n=3, WHO=5)
    ),
    "no program id": lambda: check(launched(everybody, (9,), TWO, x=(576,), o=(64,), n=60, B=64)),
    "rows overlap": lambda: check(
        launched(
            row_norm,
            (40,),
            {"x": F, "o": F, "stride": "i32", "n": "i32", "rows": "i32"},
            x=(1000, 300),
            o=(1000, 300),
            stride=290,
            n=300,
            rows=1000,
            STEP=40,
            B=128,
        )
    ),
}


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


def test_a_swizzle_that_algebra_does_not_see_through_is_looked_up() -> None:
    clean = check(launched(xor_swizzle, (64,), {"o": "*i32"}, o=(64, 32), B=32, TWIST=1))
    (settled,) = clean
    assert settled.verdict == Proved("enumerated")
    assert outcomes(check(launched(xor_swizzle, (64,), {"o": "*i32"}, o=(64, 32), B=32, TWIST=3))) == {
        "proved"
    }


def test_what_all_programs_compute_alike_is_a_note() -> None:
    settled = check(
        launched(
            statistics,
            (6, 4),
            {"x": F, "o": F, "mean": F, "n": "i32"},
            x=(6, 50),
            o=(6, 50),
            mean=(6,),
            n=50,
            B=64,
        )
    )
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
        add,
        (98,),
        {"x": F, "y": F, "o": F, "n": "i32"},
        x=(2 * 10**5,),
        y=(10**5,),
        o=(10**5,),
        n=10**5,
        B=1024,
    )
    settled = check(_aliased(launch, "x", "o", shift_bytes))
    assert outcomes(settled) == expected
    names = {(f.argument, f.other.place.argument) for f in findings(settled) if f.other is not None}
    assert names == ({("x", "o"), ("o", "x")} if "violated" in expected else set())


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
