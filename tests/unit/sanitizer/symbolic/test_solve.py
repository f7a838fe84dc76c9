"""What everyday kernels ask, and that it is answered without z3 and whatever the ranges are."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncap.sanitizer.symbolic import z3_solver
from kerncap.sanitizer.symbolic.evaluate import evaluate
from kerncap.sanitizer.symbolic.expr import (
    FALSE,
    TRUE,
    Buffer,
    Expr,
    Variable,
    add,
    bit_xor,
    const,
    div_trunc,
    eq,
    forgetting,
    ite,
    leaves,
    lor,
    maximum,
    minimum,
    ne,
    read,
    rem_trunc,
    shift_right_logical,
    substitute,
    unknown,
    var,
    wrap,
)
from kerncap.sanitizer.symbolic.node import Interval
from kerncap.sanitizer.symbolic.solve import Answer, Sat, Solver, Unknown, Unsat


def c(number: int) -> Expr:
    return const(number)


p = Variable("p", "program", 0, 100_000)
q = Variable("q", "program", 0, 5_000)
i = Variable("i", "lane", 0, 63)
j = Variable("j", "lane", 0, 127)
k = Variable("k", "loop", 0, 1_000_000)
P, Q, I, J, K = (var(v) for v in (p, q, i, j, k))  # noqa: E741


class Memory:
    def __init__(self, *storages: npt.NDArray[Any]) -> None:
        self.storages = storages

    def values(self, buffer: Buffer, offsets: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        data = self.storages[buffer.storage]
        return data[np.clip(offsets // data.itemsize, 0, len(data) - 1)]  # type: ignore[no-any-return]

    def bounds(self, buffer: Buffer, offsets: Interval = (None, None)) -> tuple[int, int]:
        data = self.storages[buffer.storage]
        return int(data.min()), int(data.max())


@pytest.fixture
def no_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(z3_solver, "available", lambda: False)


def ask(*conditions: Expr, memory: Memory | None = None) -> Answer:
    answer = Solver(memory).satisfiable(*conditions)
    if isinstance(answer, Sat):
        assert all(evaluate([x], answer.assignment, memory)[0] for x in conditions)
        assert all(v.low <= n <= v.high for v, n in answer.assignment.items())
    return answer


def outside(address: Expr, size: int) -> Expr:
    return (address < c(0)) | (address >= c(size))


ROW = P * c(128) + J
COLUMN = Q * c(64) + I
TAIL = I + K * c(64)


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param((c(5000011) > ROW, outside(ROW, 5_000_011)), id="masked-vector"),
        pytest.param(
            (c(70001) > ROW, c(3001) > COLUMN, outside(ROW * c(4096) + COLUMN, 70_000 * 4_096 + 3_001)),
            id="masked-tile",
        ),
        pytest.param(
            (c(70001) > ROW, c(999) > TAIL, outside(ROW * c(1000) + TAIL, 70_000 * 1_000 + 999)),
            id="masked-k-tail",
        ),
        pytest.param(
            (c(999) > TAIL, outside(ROW % c(70001) * c(1000) + TAIL, 70_000 * 1_000 + 999)),
            id="rows-modulo-m",
        ),
        pytest.param(
            (
                wrap(ROW, 32) < c(9999),
                outside(wrap(wrap(ROW, 32) * c(200000), 32) * c(2), 9_999 * 200_000 * 2),
            ),
            id="wraps-that-masks-make-harmless",
        ),
        pytest.param((TAIL <= ROW, c(4000) > ROW, c(4000) <= TAIL), id="causal"),
        pytest.param((minimum(ROW, c(77)) >= c(78),), id="clamp"),
        pytest.param((maximum(K - c(5), c(0)) < c(0),), id="clamp-below"),
        pytest.param((ite(c(50) > ROW, ROW, c(0)) >= c(50),), id="where"),
        pytest.param((c(1) <= K, c(9) >= K, div_trunc(c(20) - K * c(2), K) * K > c(20)), id="division-by-k"),
    ],
)
def test_everyday_accesses_are_proved_without_z3(conditions: tuple[Expr, ...], no_z3: None) -> None:
    assert isinstance(ask(*conditions), Unsat)


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param((outside(ROW, 5_000_011),), id="no-mask"),
        pytest.param((c(5000011) >= ROW, outside(ROW, 5_000_011)), id="mask-off-by-one"),
        pytest.param(
            (c(70001) > ROW, outside(ROW * c(4096) + COLUMN, 70_000 * 4_096 + 3_001)), id="column-unmasked"
        ),
        pytest.param((c(16) > K, outside(TAIL, 1_000)), id="k-tail-unmasked"),
        pytest.param((leaves(wrap(ROW * c(40000), 32)), c(100000) > ROW), id="overflow"),
        pytest.param((wrap(ROW * c(40000), 32) < c(0), c(100000) > ROW), id="wrapped-negative"),
        pytest.param((ne(P, c(0)), eq(P % c(16), c(5)), c(99980) <= P), id="congruence"),
    ],
)
def test_everyday_violations_are_found_without_z3(conditions: tuple[Expr, ...], no_z3: None) -> None:
    assert isinstance(ask(*conditions), Sat)


def swizzled(pid: Expr, rows: int, columns: int, group: int) -> tuple[Expr, Expr]:
    """The tile of a program, as grouped matrix multiplications have it."""
    inside = rem_trunc(pid, c(group * columns))
    first = div_trunc(pid, c(group * columns)) * c(group)
    size = minimum(c(rows) - first, c(group))
    return first + rem_trunc(inside, size), div_trunc(inside, size)


@pytest.mark.parametrize(("rows", "columns", "group"), [(32, 24, 8), (30, 24, 7), (203, 150, 8)])
def test_a_swizzled_grid(rows: int, columns: int, group: int, no_z3: None) -> None:
    pid = Variable("pid", "program", 0, rows * columns - 1)
    m, n = swizzled(var(pid), rows, columns, group)
    lane = Variable("lane", "lane", 0, 127)
    address = (m * c(128) + J) * c(columns * 128) + n * c(128) + var(lane)
    size = rows * columns * 128 * 128
    assert isinstance(ask(outside(address, size)), Unsat)
    assert isinstance(ask(outside(address, size - 1)), Sat)


def copy(e: Expr, renamed: dict[Variable, Variable]) -> Expr:
    return substitute(e, {old: var(new) for old, new in renamed.items()})


def overlap(address: Expr, renamed: dict[Variable, Variable], width: int) -> Expr:
    difference = address - copy(address, renamed)
    return (difference < c(width)) & (difference > c(-width))


def primed(*variables: Variable) -> dict[Variable, Variable]:
    return {v: Variable(v.name + "'", v.kind, v.low, v.high) for v in variables}


def test_programs_of_a_grid_of_tiles_are_apart(no_z3: None) -> None:
    others = primed(p, q, i, j)
    differ = lor(*(ne(var(v), var(others[v])) for v in (p, q)))
    stride = 64 * 5_001
    address = (ROW * c(stride) + COLUMN) * c(4)
    assert isinstance(ask(differ, overlap(address, others, 4)), Unsat)
    # One column fewer, and the last of a row is the first of the next.
    short = (ROW * c(stride - 1) + COLUMN) * c(4)
    answer = ask(differ, overlap(short, others, 4))
    assert isinstance(answer, Sat)
    # Twice the width: each access reaches into its neighbour.
    assert isinstance(ask(differ, overlap(address, others, 8)), Sat)


def test_programs_of_a_swizzled_grid_are_apart(no_z3: None) -> None:
    pid = Variable("pid", "program", 0, 30 * 24 - 1)
    lane = Variable("lane", "lane", 0, 127)
    m, n = swizzled(var(pid), 30, 24, 7)
    address = (m * c(128) + J) * c(24 * 128) + n * c(128) + var(lane)
    others = primed(pid, lane, j)
    answer = ask(ne(var(pid), var(others[pid])), overlap(address, others, 1))
    assert isinstance(answer, Unsat)
    folded = var(pid) // c(2) * c(128) + var(lane)
    assert isinstance(ask(ne(var(pid), var(others[pid])), overlap(folded, others, 1)), Sat)


INDICES = Buffer(0, 32)


def test_what_memory_holds_bounds_an_address(no_z3: None) -> None:
    chance = np.random.default_rng(0)
    data = chance.integers(0, 500, 20_000, np.int32)
    offset = var(Variable("pid", "program", 0, 199)) * c(128) + J
    address = read(INDICES, offset * c(4)) * c(512) + I
    mask = offset < c(20000)
    proved = ask(mask, outside(address, 500 * 512), memory=Memory(data))
    assert isinstance(proved, Unsat)
    assert proved.contents
    bad = data.copy()
    bad[12_345] = 500
    found = ask(mask, outside(address, 500 * 512), memory=Memory(bad))
    assert isinstance(found, Sat)
    assert found.contents
    # The element is there, but the mask is off where it is.
    beyond = np.concatenate([data, np.full(100, 10**6, np.int32)])
    unharmed = ask(mask, outside(address, 500 * 512), memory=Memory(beyond))
    assert isinstance(unharmed, Unsat)
    assert unharmed.contents
    without = ask(mask, outside(address, 500 * 512))
    assert isinstance(without, Unknown)


def test_what_does_not_depend_on_memory_needs_none(no_z3: None) -> None:
    address = read(INDICES, P * c(4)) % c(64)
    answer = ask(outside(address, 64))
    assert isinstance(answer, Unsat)
    assert not answer.contents
    guarded = read(INDICES, P * c(4))
    assert isinstance(ask(guarded >= c(0), guarded < c(64), outside(guarded, 64)), Unsat)


def test_segments_of_unequal_length(no_z3: None) -> None:
    lengths = np.random.default_rng(1).integers(0, 2_000, 300)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    segment = Variable("segment", "program", 0, 299)
    block = Variable("block", "loop", 0, 15)
    start, end = (read(INDICES, (var(segment) + c(n)) * c(4)) for n in (0, 1))
    position = start + var(block) * c(128) + J
    memory = Memory(ends)
    assert isinstance(ask(position < end, outside(position, int(ends[-1])), memory=memory), Unsat)
    assert isinstance(ask(position < end, outside(position, int(ends[-1]) - 1), memory=memory), Sat)
    assert isinstance(ask(outside(position, int(ends[-1])), memory=memory), Sat)


def test_unknowns_are_never_silently_safe() -> None:
    u = unknown("an external call", "f", (), 0, 100)
    answer = ask(outside(u + I, 100))
    assert isinstance(answer, Unknown)
    assert "external call" in answer.reason
    assert isinstance(ask(outside(u + I, 164)), Unsat)
    # Whatever it is, the lane alone goes too far.
    assert isinstance(ask((u > c(200)) | (c(60) <= I)), Sat)


def test_bit_patterns_go_to_z3() -> None:
    pytest.importorskip("z3")
    x = Variable("x", "free", 0, 2**31 - 1)
    mixed = bit_xor(var(x), shift_right_logical(var(x), c(3), 32), 32)
    assert isinstance(ask(mixed < c(0)), Unsat)
    assert isinstance(ask(eq(mixed, c(1_234_567_890)), var(x) > c(5)), Sat)


def test_without_z3_the_reason_names_the_extra(no_z3: None) -> None:
    x, y = Variable("x", "free", 1, 10**9), Variable("y", "free", 1, 10**9)
    answer = ask(eq(var(x) * var(y), c(10**12 + 39)), var(x) > c(1000), var(y) > c(1000))
    assert isinstance(answer, Unknown)
    assert "kerncap[sanitizer]" in answer.reason


def test_time_runs_out_as_unknown() -> None:
    pytest.importorskip("z3")
    x, y, z = (Variable(name, "free", 2, 10**9) for name in "xyz")
    cubes = [var(v) * (var(v) * var(v)) for v in (x, y, z)]
    answer = Solver(timeout_s=0.05).satisfiable(eq(add(*cubes), c(10**20 + 42)))
    assert isinstance(answer, Unknown)
    assert answer.reason


def _answers() -> list[Answer]:
    """A short search, one that splits into many cases, and what z3 gives up on."""
    with forgetting():
        x, y, z = (Variable(name, "free", 2, 10**9) for name in "xyz")
        steps = [ne((c(k) * var(x) + var(y)) % c(7), c(k % 7)) for k in range(1, 9)]
        cubes = [var(v) * (var(v) * var(v)) for v in (x, y, z)]
        questions = [
            (var(x) + var(y) <= c(3),),
            (*steps, eq(var(x) + var(y), c(10**6))),
            (eq(add(*cubes), c(10**20 + 42)),),
        ]
        answers = [Solver(timeout_s=0.05).satisfiable(*conditions) for conditions in questions]
    return [Sat({}, one.how, one.contents) if isinstance(one, Sat) else one for one in answers]


def test_a_busy_machine_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("z3")
    calm = _answers()
    assert [type(one) for one in calm] == [Unsat, Unsat, Unknown]
    clock = itertools.count(step=3600)  # an hour passes between any two looks
    for name in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(time, name, lambda: float(next(clock)))
    assert _answers() == calm


def test_work_is_what_ends_a_question() -> None:
    pytest.importorskip("z3")
    x, y, z = (Variable(name, "free", 2, 10**9) for name in "xyz")
    condition = eq(add(*(var(v) * (var(v) * var(v)) for v in (x, y, z))), c(10**20 + 42))
    solver = Solver(timeout_s=0.05)
    assert solver.satisfiable(condition) == Unknown("z3: no answer in the work of 0.05 s")
    assert solver.z3_limits_spent >= 1
    query = z3_solver.Query(condition, {}, 0.05)
    assert isinstance(query.ask(), z3_solver.NoAnswer)
    spent = query.spent
    assert isinstance(query.ask(), z3_solver.NoAnswer)  # nothing is left: not asked
    assert query.spent == spent


@pytest.mark.parametrize("form", [add, lambda a, b: bit_xor(a, b, 32)], ids=["integers", "bits"])
def test_what_needs_no_work_has_an_answer(form: Any) -> None:
    pytest.importorskip("z3")
    x, y = (var(Variable(name, "free", 0, 1000)) for name in "xy")
    query = z3_solver.Query(eq(form(x, y), c(5)), {}, 1.0)
    query.require(FALSE)
    assert query.ask() == z3_solver.Impossible()
    assert 0 <= query.spent < 1


def test_constants_and_dropped_variables() -> None:
    assert isinstance(ask(FALSE), Unsat)
    assert isinstance(ask(TRUE), Sat)
    answer = ask(c(0) <= I, c(7) < P)
    assert isinstance(answer, Sat)
    dropped = ask(eq((I - I) * P, c(0)), c(7) < Q)
    assert isinstance(dropped, Sat)
    assert dropped.assignment[q] > 7


def test_a_short_proof_needs_no_memory(no_z3: None) -> None:
    solver = Solver()
    place = read(Buffer(0, 32), P * c(4))
    assert solver.refuted(place < I, place > I + c(1))
    assert not solver.refuted(place < I)
    assert not solver.refuted(TRUE)
    assert solver.refuted(FALSE)


def test_bounds_under_a_condition() -> None:
    solver = Solver()
    assert solver.bounds(ROW) == (0, 12_800_127)
    assert solver.bounds(ROW, c(1000) > ROW) == (0, 999)
    assert solver.bounds(ROW * c(10) + I, c(1000) > ROW) == (0, 9_990 + 63)
    assert solver.bounds(P, c(1000) > ROW) == (0, 7)
    assert solver.bounds(wrap(ROW * c(40000), 32), c(1000) > ROW) == (0, 999 * 40_000)
