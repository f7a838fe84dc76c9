"""Where trials run: in this process, or (`cluster`) in the workers of a Dask cluster."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from kerncap.replay.choose_engine import Choice
from kerncap.replay.pool import Pool
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.apart import BenchApart
from kerncap.replay.tuning.bench import Bench
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import Final, Trial
from kerncap.replay.tuning.trial_launch import BenchOptions

_AHEAD = 64


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


class Direct:
    """One bench in this process: the fastest way to one device."""

    def __init__(
        self, reproducers: Mapping[str, Path], options: BenchOptions, sent: Sent | None = None,
        choice: Choice | None = None, ahead: Sequence[Point] = (), pool: Pool | None = None,
    ) -> None:  # fmt: skip
        self._bench = Bench(reproducers, options, choice, ahead, pool)
        self._digests = list(reproducers)
        self._jobs: deque[Job] = deque()
        self._sent = sent

    @property
    def capacity(self) -> int:
        return _AHEAD

    def facts(self) -> dict[str, Any]:
        return {**self._bench.facts(), "workers": 1}

    def announce(self, job: Job) -> None:
        """It may be submitted: compile it meanwhile."""
        self._bench.announce(self._digests, [job.point])

    def submit(self, job: Job) -> None:
        self._jobs.append(job)
        self.announce(job)

    def wait(self) -> list[Trial]:
        job = self._jobs.popleft()
        if self._sent is not None:
            self._sent("here", job.point)
        return run_job(self._bench, job, self._digests)

    def finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        return self._bench.finals(points, rounds)

    def notes(self) -> list[str]:
        return []

    def close(self) -> None:
        self._bench.close()
