"""A search's workers, and what compiles for it, are forks of one process that has loaded what they need."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from kerncap.replay.nursery import Nursery
from kerncap.replay.pool import Asked, Pool
from kerncap.replay.tuning.bench import ReproducerBench
from kerncap.replay.tuning.trial_launch import BenchOptions
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.compile_messages import Compilation, CompilationEnded, Compiling
from kerncap.replay.worker.protocol import Config
from kerncap.replay.worker_environment import environment_of
from tests.unit.replay.build import add

pytestmark = pytest.mark.usefixtures("own_nurseries")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.long
def test_workers_are_forks_and_one_that_died_is_forked_again(tmp_path: Path) -> None:
    paths = {name: add(64, 64).seal(tmp_path / name) for name in ("one", "other")}
    pool = Pool(lasting=True)
    with ReproducerBench(paths, BenchOptions(), pool=pool) as bench:
        [nursery] = pool._nurseries.values()
        for each in bench._launches.values():
            worker = each.engine.connection._worker
            assert worker is not None and parent_of(worker._process.pid) == nursery.pid
        gone = os.pidfd_open(worker._process.pid)
        os.kill(worker._process.pid, signal.SIGKILL)
        select.select([gone], [], [])
        os.close(gone)
        [trial] = bench.trials(["other"], {"BLOCK": 64}, {})
        assert trial.state == "timed", trial
        worker = bench._launches["other"].engine.connection._worker
        assert worker is not None and parent_of(worker._process.pid) == nursery.pid
    assert not nursery.is_alive


def test_what_compiles_is_a_fork_that_hears_what_was_asked_at_once(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.json"
    jobs.write_bytes(typed_json.line({"target": {"device": 0, "capability": 90}, "jobs": [{}]}))
    nursery = Nursery(sys.executable, environment_of("jit"), "compiled")
    started = nursery.become(tmp_path / "log", ["compile", str(jobs), "1"])
    os.write(started.requests, typed_json.line(Compilation(5, 0, Config(), 60.0)))
    lines = typed_json.Lines(started.replies)
    assert typed_json.read(Compiling, lines.next() or b"") == Compiling(90, None)
    answer = typed_json.read(CompilationEnded, lines.next() or b"")
    assert parent_of(started.process.pid) == nursery.pid
    for fd in (started.requests, started.replies):
        os.close(fd)
    started.process.end()
    nursery.close()
    assert answer.id == 5 and "KeyError" in answer.error


def test_what_is_asked_for_is_begun_before_it_is_chosen(tmp_path: Path) -> None:
    with Pool() as pool:
        with Reproducer.open(add(64, 64).seal(tmp_path)) as reproducer:
            pool.begin(reproducer.manifest, Asked())
        assert [each.kind for each in pool._nurseries] == ["interpreter"]
