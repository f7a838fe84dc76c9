"""The write set of native launches, measured on the stand-in driver."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.format import Reproducer
from kerncap.replay.engine import Engine
from kerncap.replay.measure_write_set import measure
from kerncap.replay.outcome import Outcome
from kerncap.replay.plain_run import PlainRun
from kerncap.replay.verdict import judge
from kerncap.replay.worker.common import bitmap

from .. import native
from ..native import BASE, SPACING, Native


def test_a_busy_machine_that_stands_still_once_changes_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, launches, still = PlainRun.launch, 0, 0

    def counted(self: PlainRun, *given: Any, **options: Any) -> Outcome:
        nonlocal launches
        launches += 1
        return Outcome("timeout") if launches == still else launch(self, *given, **options)

    def outputs(engine: Engine) -> dict[int, int]:
        nonlocal launches
        launches = 0
        measured = measure(engine)
        return {region: bitmap.count(measured.output(region)) for region in measured.written}

    monkeypatch.setattr(PlainRun, "launch", counted)
    with Reproducer.open(native.add().seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        wanted = outputs(engine)
        assert wanted == {2: 4000} and launches > 4
        for still in range(2, launches + 1):  # the first one is the plain run
            assert outputs(engine) == wanted, still


def test_nodes_of_a_list_cost_no_worker_each(tmp_path: Path) -> None:
    count = 200
    values = np.arange(count, dtype=np.float32)
    launch = Native("_Z11sum_of_listPK4NodePf")
    for i, value in enumerate(values):
        following = BASE + 512 * (i + 1) if i + 1 < count else 0
        launch.region(np.frombuffer(struct.pack("<ffQ", value, 0, following), np.uint8), base=BASE + 512 * i)
    launch.pointer(0, "uint8", 16)
    launch.array(np.zeros(1, np.float32), np.array([values.sum()], np.float32), base=BASE + SPACING)
    with Reproducer.open(launch.seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        measured = measure(engine)
        assert engine.generation <= 2  # the first time, the last node is poisoned to point anywhere
        assert sorted(measured.written) == [count]
        assert judge(engine, measured).exact


def test_a_node_that_is_written_is_told_from_those_that_are_not(tmp_path: Path) -> None:
    """Many variables that no view describes, of which the launch writes one with the value that it has."""
    launch = native.add(with_views=False)
    region, _, after = launch.regions[2]
    launch.regions[2] = region, after, after  # as a second launch into the same output
    for _ in range(30):
        launch.region(np.arange(16, dtype=np.int32))
    with Reproducer.open(launch.seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        measured = measure(engine)
        assert sorted(measured.written) == [2]
        assert bitmap.count(measured.output(2)) == 4000
        assert judge(engine, measured).exact
