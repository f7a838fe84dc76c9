"""Tuning by several workers without a device: losing one of a Dask cluster costs nothing but time."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.replay import save_checks
from kerncap.api.tune import TuneOptions, Watcher, tune
from kerncap.format import Reproducer, schema
from kerncap.replay.byte_effects import Measured
from kerncap.replay.tuning import devices
from kerncap.replay.tuning import point as points
from kerncap.replay.worker.common import bitmap
from tests.parameters import first_of
from tests.processes import children
from tests.unit.replay.build import add

# Under the interpreter a program costs about the same, whatever its block: fewer programs, less time.
BLOCKS = (32, 64, 4096)
ELEMENTS = 4000
VICTIM = 64


@pytest.fixture
def reproducer(tmp_path: Path) -> Path:
    launch = add(ELEMENTS, 64)
    launch.grid_source = schema.GridSource(
        source='grid = lambda META: (triton.cdiv(n, META["BLOCK"]),)',
        bindings={"n": schema.IntValue(value=str(ELEMENTS))},
    )
    path = launch.seal(tmp_path)
    with Reproducer.open(path) as sealed:  # as a capture's self-check leaves it
        sizes = [region.size for region in sealed.manifest.regions]
        measured = Measured(sizes)
        measured.add(2, bitmap.span(sizes[2], 0, sizes[2]))
        save_checks(sealed, measured, None)
    return path


def bench_of(worker: int) -> int:
    """The process in which a worker's trials run."""
    for child in children(worker):
        if b"kerncap.replay.tuning.bench_process" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    raise AssertionError(f"process {worker} has none")


class _Killer(Watcher):
    """Kills the worker that is given a certain configuration first, or what runs its trials."""

    def __init__(self, workers: dict[str, int], victim: int, whole: bool) -> None:
        super().__init__(sent=self.gave)
        self.workers = workers
        self.victim = victim
        self.whole = whole
        self.killed = ""
        self.given: list[tuple[str, int]] = []

    def gave(self, worker: str, given: points.Point) -> None:
        self.given.append((worker, int(given["BLOCK"] or 0)))
        if given["BLOCK"] == self.victim and not self.killed:
            self.killed = worker
            pid = self.workers[worker]
            os.kill(pid if self.whole else bench_of(pid), signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two workers, as somebody who has a scheduler would start them."""
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(os, "environ", os.environ.copy())  # Dask writes some for its workers
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "dask")}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, host="127.0.0.1", dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as started,
    ):  # fmt: skip
        yield started


@first_of("whole", [True, False], ids=["the worker", "what runs its trials"])
def test_of_two_workers_losing_one_loses_nothing(
    reproducer: Path, tmp_path: Path, cluster: Any, whole: bool
) -> None:
    space = tmp_path / "space.json"
    space.write_text('{"parameters": {"BLOCK": [64, 32, 4096]}}')
    workers = {str(name): worker.pid for name, worker in cluster.workers.items()}
    killer = _Killer(workers, VICTIM, whole)

    result = tune([reproducer], TuneOptions(space=str(space), scheduler=cluster.scheduler_address), killer)

    assert killer.killed, "no worker was given the configuration that takes one with it"
    trials = {int(trial.point["BLOCK"] or 0): trial for trial in result.found.all()}
    assert sorted(trials) == sorted(BLOCKS)
    # The interpreter is slow in its first launch: what is far from the best may be told after one.
    assert {trial.state for trial in trials.values()} <= {"timed", "slow"}
    assert [block for _, block in killer.given].count(VICTIM) == 2
    assert trials[VICTIM].worker != ""
    best = result.choice.best[0]
    # Which one is the fastest is a matter of what else runs here; a trial that was not timed is not it.
    block = int(best.point["BLOCK"] or 0)
    assert trials[block].state == "timed" and best.speedup is not None
    assert any("was lost" in note for note in result.notes)
    assert result.choice.selected == [best.point]
    assert f'triton.Config({{"BLOCK": {block}}})' in result.decorator


class _Waiter(Watcher):
    """Lets this process try no more than what it needs to begin, until a worker was given something."""

    def __init__(self) -> None:
        super().__init__(sent=self.gave)
        self.here = 0
        self.came = threading.Event()

    def gave(self, worker: str, _: points.Point) -> None:
        if worker != "here":
            self.came.set()
        else:
            self.here += 1
            assert self.here <= 4 or self.came.wait(120)


def test_a_long_search_gets_a_worker_while_it_goes_on(
    reproducer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_LONG_S", -1.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    blocks = [64, 128, 256, 512, 1024, 2048, 4096]
    space = tmp_path / "space.json"
    space.write_text(f'{{"parameters": {{"BLOCK": {blocks}}}}}')
    waiter, before = _Waiter(), children(os.getpid())

    result = tune([reproducer], TuneOptions(space=str(space)), waiter)

    assert children(os.getpid()) == before
    assert sorted(int(trial.point["BLOCK"] or 0) for trial in result.found.all()) == blocks
    assert {trial.worker == "" for trial in result.found.all()} == {True, False}
    assert result.facts["workers"] == 2 and not any("take part" in note for note in result.notes)
