"""A process that is started before it is known what it will run: it becomes what fits, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kerncap.format import Reproducer
from kerncap.replay.choose import Choice
from kerncap.replay.engine import Engine
from kerncap.replay.surroundings import environment_of
from kerncap.replay.tuning.standbys import Standbys
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.compile_messages import Compilation, CompilationEnded, Compiling
from kerncap.replay.worker.protocol import Config
from kerncap.replay.worker_process import Standby, bury
from tests.unit.replay.build import Launch, add

SOURCE = """
@triton.jit
def double(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)
"""
_LOADED_S = 120.0


@contextlib.contextmanager
def started() -> Iterator[Standby]:
    with contextlib.closing(Standby(sys.executable, environment_of("interpreter"), device=False)) as found:
        yield found


def pid_of(standby: Standby) -> int:
    assert standby._started is not None
    return standby._started.process.pid


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_one_that_fits_becomes_the_worker(tmp_path: Path) -> None:
    path = add(64, 64).seal(tmp_path)
    with started() as standby, Reproducer.open(path) as reproducer:
        pid = pid_of(standby)
        with Engine(reproducer, "interpreter", standby=standby) as engine:
            assert os.getsid(pid) == pid and os.readlink(f"/proc/{pid}/cwd") == str(
                engine.connection.job.folder
            )
            engine.restore()
            assert engine.launch().ok and engine.differing("post") == []
            assert engine.generation == 1
        assert not is_there(pid)


def taken_by(pid: int) -> int:
    """Where it has loaded torch."""
    end = time.monotonic() + _LOADED_S
    while time.monotonic() < end:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "libtorch_cpu" in line:
                return int(line.split("-")[0], 16)
        time.sleep(0.05)
    raise AssertionError("torch was not loaded")


@pytest.mark.long
def test_an_address_that_it_has_taken_is_had_in_a_fresh_process(tmp_path: Path) -> None:
    with started() as standby:
        pid = pid_of(standby)
        x = np.arange(16, dtype=np.float32)
        launch = Launch(SOURCE, "double").tensor("x_ptr", x, base=taken_by(pid))
        path = launch.tensor("out_ptr", 0 * x, 2 * x).constexpr("BLOCK", 16).seal(tmp_path)
        with Reproducer.open(path) as reproducer:
            assert standby.fits(sys.executable, environment_of("interpreter"))
            with Engine(reproducer, "interpreter", standby=standby) as engine:
                assert not is_there(pid)
                assert engine.facts.relocated == []
                engine.restore()
                assert engine.launch().ok and engine.differing("post") == []


def test_another_environment_or_python_does_not_fit_and_what_is_not_taken_ends() -> None:
    with started() as standby:
        pid = pid_of(standby)
        assert standby.fits(sys.executable, environment_of("interpreter"))
        assert not standby.fits(sys.executable, environment_of("jit"))
        assert not standby.fits("/usr/bin/another", environment_of("interpreter"))
        standby.close()
        assert not is_there(pid) and not standby.fits(sys.executable, environment_of("interpreter"))


def test_one_for_each_engine_is_started_and_what_is_left_ends(tmp_path: Path) -> None:
    with Reproducer.open(add(64, 64).seal(tmp_path)) as reproducer:
        standbys = Standbys(reproducer.manifest, "auto", "auto", None, 2)
    try:
        first, second, third = standbys.engine(), standbys.engine(), standbys.engine()
        assert first is not None and second is not None and third is None
        assert first.fits(sys.executable, environment_of("interpreter")) and standbys.pool is None
        first.close()
        second.close()
    finally:
        standbys.close()


def test_none_is_started_where_its_python_can_not_be(tmp_path: Path) -> None:
    with Reproducer.open(add(64, 64).seal(tmp_path)) as reproducer:
        standbys = Standbys(reproducer.manifest, "auto", "auto", str(tmp_path / "python"), 1)
    assert standbys.engine() is None
    standbys.close()


def test_what_was_guessed_wrong_ends_when_it_is_known(tmp_path: Path) -> None:
    with Reproducer.open(add(64, 64).seal(tmp_path)) as reproducer:
        standbys = Standbys(reproducer.manifest, "auto", "auto", None, 1)
    with contextlib.closing(standbys):
        [pid] = [pid_of(each) for each in standbys._engines]
        standbys.keep(Choice(sys.executable, "interpreter", "host", -1))
        assert is_there(pid)
        standbys.keep(Choice(sys.executable, "jit", "cuda", 0))
        assert not is_there(pid)


def test_what_is_asked_at_once_is_heard_by_what_it_becomes(tmp_path: Path) -> None:
    """The order and the first request may lie in the pipe together."""
    pytest.importorskip("triton")
    ready = Standby(sys.executable, environment_of("jit"), device=False)
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps({"target": {"device": 0, "capability": 90}, "jobs": [{}]}))
    with contextlib.closing(ready):
        started = ready.become(tmp_path / "log", ["compile", str(jobs), "1"])
        os.write(started.requests, typed_json.line(Compilation(5, 0, Config(), 60.0)))
        lines = typed_json.Lines(started.replies)
        assert typed_json.read(Compiling, lines.next() or b"") == Compiling(90, None)
        answer = typed_json.read(CompilationEnded, lines.next() or b"")
        bury(started)
    assert answer.id == 5 and "KeyError" in answer.error
