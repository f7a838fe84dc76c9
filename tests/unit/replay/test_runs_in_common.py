"""How many launches a verdict takes on the host, and that one which is shared shows as much as two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kerncap.api.verify import VerifyOptions, verify
from kerncap.format import Reproducer
from kerncap.replay.byte_effects import load
from kerncap.replay.connection import Connection
from kerncap.replay.engine import Engine
from kerncap.replay.measure_write_set import measure
from kerncap.replay.verdict import judge
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.protocol import Backend

from .build import Launch
from .resident import candidate, resident

DOUBLE = """
@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + x, mask=i < n)
"""
# What is beyond n is read, and changes what is written.
FROM_REST = DOUBLE.replace("x + x", "x + tl.load(x_ptr + n + i, mask=i < n)")

LAST = 256


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is launched from here on."""
    made: list[str] = []
    request = Connection.request

    def counted(self: Connection, limit: float, operation: Any, *args: Any, **kwargs: Any) -> Any:
        if operation is Backend.launch:
            made.append(args[0])
        return request(self, limit, operation, *args, **kwargs)

    monkeypatch.setattr(Connection, "request", counted)
    return made


def _launch(kernel: str = DOUBLE, after: Any = None) -> Launch:
    x = np.arange(1, LAST + 1, dtype=np.int32)
    if after is None:
        after = np.concatenate([2 * x[:100], x[100:]])
    return Launch(kernel, "double").tensor("x_ptr", x, after).argument("n", 100).constexpr("BLOCK", 256)


def test_six_launches_measure_and_judge_and_one_judges(tmp_path: Path, launches: list[str]) -> None:
    path = _launch().seal(tmp_path)
    first = verify(path)
    assert first.verdict.line == "Result: PASS (1,024 bytes identical, 0 written bytes poisoned)"
    # As it is, poisoned twice, what is written, then the rest twice, of which the last is what is judged.
    assert launches == ["original"] * 6
    with Reproducer.open(path) as reproducer:
        kept = load(reproducer)
    assert kept is not None
    assert kept.in_place(0) == bitmap.span(1024, 0, 400)
    assert kept.idle(0) == bitmap.span(1024, 400, 1024)
    launches.clear()
    again = verify(path)
    assert (again.verdict.line, launches) == (first.verdict.line, ["original"])
    assert [stage.shown for stage in again.stages] == [stage.shown for stage in first.stages]


def test_a_candidate_is_run_as_often_as_before(tmp_path: Path, launches: list[str]) -> None:
    path = _launch().seal(tmp_path)
    verify(path)
    launches.clear()
    options = VerifyOptions(candidate=candidate(tmp_path, DOUBLE), stages=("smoke", "oracle"))
    assert verify(path, options).passed
    assert launches.count("candidate") >= 3  # smoke, the second on the same contents, on other values


def test_what_the_result_depends_on_is_not_taken_for_idle(tmp_path: Path) -> None:
    x = np.arange(1, LAST + 1, dtype=np.int32)
    after = np.concatenate([x[:100] + x[100:200], x[100:]])
    with resident(_launch(FROM_REST, after), tmp_path) as opened:
        idle = opened.measured.idle(0)
        assert not (idle & bitmap.span(1024, 0, 800)).any()
        assert opened.judge().line == "Result: PASS (1,024 bytes identical, 0 written bytes poisoned)"


def test_idle_memory_is_confirmed_one_by_one_where_it_is_not_together(tmp_path: Path) -> None:
    """Of two tensors only one has bytes that nothing depends on."""
    kernel = """
@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n) + tl.load(y_ptr + n + i, mask=i < n)
    tl.store(x_ptr + i, x + x, mask=i < n)
    tl.store(y_ptr + i, y, mask=i < n)
"""
    x = np.arange(1, LAST + 1, dtype=np.int32)
    launch = Launch(kernel, "double").tensor("x_ptr", x, np.concatenate([2 * x[:100], x[100:]]))
    launch.tensor("y_ptr", x, np.concatenate([x[:100] + x[100:200], x[100:]]))
    launch.argument("n", 100).constexpr("BLOCK", 256)
    with resident(launch, tmp_path) as opened:
        assert opened.measured.idle(0) == bitmap.span(1024, 400, 1024)
        assert not opened.measured.idle(1).any()
        assert opened.judge().passed


def test_a_write_set_that_is_wrong_fails_nothing(tmp_path: Path) -> None:
    """Poison where an index is read ends the launch badly, and not the kernel's plain run."""
    gather = """
@triton.jit
def gather(x_ptr, i_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.device_assert(tl.load(i_ptr + i) < BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + tl.load(i_ptr + i)))
"""
    x, at = np.arange(64, dtype=np.int32), np.arange(64, dtype=np.int64)[::-1].copy()
    launch = Launch(gather, "gather").tensor("x_ptr", x).tensor("i_ptr", at)
    launch.tensor("out_ptr", np.zeros_like(x), x[::-1].copy()).constexpr("BLOCK", 64)
    path = launch.seal(tmp_path)
    assert verify(path).passed
    with Reproducer.open(path) as reproducer:
        kept = load(reproducer)
        assert kept is not None
        kept.leave(1, bitmap.span(512, 0, 512))
        checks = reproducer.checks()
        assert checks is not None
        stored = kept.as_write_set().save(reproducer)
        reproducer.write_checks(msgspec.structs.replace(checks, write_set=stored))
    result = verify(path)
    assert {stage.name: stage.result for stage in result.stages} == {"smoke": "pass", "oracle": "pass"}
    assert any(note.startswith("nothing was poisoned: ") for note in result.verdict.notes)


def test_a_run_is_shared_once_and_only_where_nothing_came_after_it(
    tmp_path: Path, launches: list[str]
) -> None:
    path = _launch().seal(tmp_path)
    with Reproducer.open(path) as reproducer, Engine(reproducer) as engine:
        measured = measure(engine)
        launches.clear()
        assert judge(engine, measured).passed and launches == []
        assert judge(engine, measured).passed and launches == ["original"]
        launches.clear()
        engine.restore()
        assert judge(engine, measured).passed and launches == ["original"]
        launches.clear()
        assert engine.plain().ok and engine.plain().ok and launches == ["original"] * 2
        assert engine.plain(shared=True).ok and launches == ["original"] * 2
        assert engine.plain(shared=True).ok and launches == ["original"] * 3
        engine.restore()
        assert engine.plain(shared=True).ok and launches == ["original"] * 4


def test_a_result_that_differs_from_the_capture_has_its_noise_measured(
    tmp_path: Path, launches: list[str]
) -> None:
    x = np.arange(1, LAST + 1, dtype=np.int32)
    after = np.concatenate([2 * x[:100] - (x[:100] == 1), x[100:]])
    path = _launch(DOUBLE, after).seal(tmp_path)
    with Reproducer.open(path) as reproducer, Engine(reproducer) as engine:
        measure(engine)
    assert len(launches) == 7  # one more than without a difference
