"""What a worker of a cluster does with a job, and what it loads before the first."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kerncap import scratch
from kerncap.replay.tuning import worker_tasks as tasks
from kerncap.replay.tuning.executor import Job
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import Trial
from kerncap.replay.worker.torch_backend import warm_triton


class _Bench:
    """Notes what it is asked for, in order."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def announce(self, digests: Sequence[str], points: Sequence[Point]) -> None:
        self.asked.append(("compile", [each["BLOCK"] for each in points]))

    def trials(
        self, digests: Sequence[str], given: Point, best_ms: Mapping[str, float], listed: bool
    ) -> list[Trial]:
        self.asked.append(("try", given["BLOCK"]))
        return [Trial(given, digest, "timed", ms=1.0) for digest in digests]

    def close(self) -> None:
        self.asked.append(("close", None))


def test_what_is_tried_now_is_compiled_before_what_is_tried_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench: Any = _Bench()
    folder = scratch.folder("tune", tmp_path)
    resident = tasks._Resident(bench, ["a", "b"], folder)
    monkeypatch.setitem(tasks._BENCHES, "search", resident)
    trials = tasks.try_job("search", Job({"BLOCK": 64}), [{"BLOCK": 128}], "worker 1")
    assert [(trial.digest, trial.worker) for trial in trials] == [("a", "worker 1"), ("b", "worker 1")]
    assert bench.asked == [("compile", [64, 128]), ("try", 64)]
    tasks.close_bench("search")
    assert bench.asked.pop() == ("close", None) and not folder.path.exists()


@pytest.mark.long
def test_the_key_of_this_triton_is_where_it_is_looked_for() -> None:
    """If not, every process that compiles hashes Triton's own files, and nothing else shows it."""
    pytest.importorskip("triton")
    warm_triton.warm()
    places = [importlib.import_module(place) for place in warm_triton.KEY_PLACES]
    found = [getattr(place, "triton_key") for place in places if hasattr(place, "triton_key")]  # noqa: B009
    assert found and found[0].cache_info().currsize == 1
