"""Where trials run: on this machine (`devices`), or in the workers of a Dask cluster (`cluster`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.bench import Bench
from kerncap.replay.tuning.bench_process import BenchApart
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import Final, Trial


@dataclass(frozen=True)
class Job:
    """One configuration, to be tried on every launch of the set; ``best_ms`` so far by digest."""

    point: Point
    listed: bool = False
    best_ms: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Of its configuration."""
        return points.key(self.point)


Sent = Callable[[str, Point], None]  # a worker was given a point


class Executor(Protocol):
    """Takes jobs, gives their trials back in whatever order they end."""

    @property
    def capacity(self) -> int:
        """Jobs that are worth having waiting: those that are compiled ahead."""
        ...

    def facts(self) -> dict[str, Any]:
        """As `Bench.facts`, with ``workers``."""
        ...

    def submit(self, job: Job) -> None:
        """Queue a job."""

    def wait(self) -> list[Trial]:
        """The trials of a job that ended, one for each launch."""
        ...

    def finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        """The finalists of each launch, re-measured."""
        ...

    def notes(self) -> list[str]:
        """What a reader should know: workers that were lost."""
        ...

    def close(self) -> None:
        """Give back whatever was started."""


def run_job(bench: Bench | BenchApart, job: Job, digests: Sequence[str], worker: str = "") -> list[Trial]:
    """The trials of one job."""
    found = bench.trials(digests, job.point, job.best_ms, job.listed)
    return [dataclasses.replace(each, worker=worker) for each in found] if worker else found
