"""A search that begins on one device: others come if it is long, and what they can't do the first does."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kerncap.errors import ReplayError
from kerncap.replay.tuning import growing
from kerncap.replay.tuning.executor import Direct, Executor, Job
from kerncap.replay.tuning.growing import Growing
from kerncap.replay.tuning.trial import Trial

JOBS = 12


class Device:
    """Runs a job when ``may_run`` says so; fails with the job of number ``fails_at``."""

    capacity = 2

    def __init__(self, name: str, fails_at: int = -1) -> None:
        self.name = name
        self.fails_at = fails_at
        self.ran: list[int] = []
        self.announced: list[int] = []
        self.is_closed = False
        self.may_run: Callable[[int], None] = lambda _: None
        self._jobs: deque[Job] = deque()

    def facts(self) -> dict[str, Any]:
        return {"device": self.name, "workers": 1}

    def announce(self, job: Job) -> None:
        self.announced.append(int(job.point["N"] or 0))

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def wait(self) -> list[Trial]:
        job = self._jobs.popleft()
        number = int(job.point["N"] or 0)
        self.may_run(number)
        if number == self.fails_at:
            raise ReplayError("every worker was lost")
        self.ran.append(number)
        return [Trial(job.point, "digest", "timed", "", ms=1.0)]

    def notes(self) -> list[str]:
        return []

    def close(self) -> None:
        self.is_closed = True


def searched(first: Device, start: Callable[[], Executor], expected: int = JOBS) -> Growing:
    executor = Growing(cast("Direct", first), start, 1, expected)
    for number in range(JOBS):
        executor.submit(Job({"N": number}))
    ended = [executor.wait() for _ in range(JOBS)]
    assert sorted(int(trials[0].point["N"] or 0) for trials in ended) == list(range(JOBS))
    return executor


def test_a_short_search_starts_nothing() -> None:
    first = Device("first")
    executor = searched(first, lambda: pytest.fail("a cluster was started"))
    assert first.ran == first.announced == list(range(JOBS))
    assert executor.facts()["workers"] == 1 and executor.notes() == []
    executor.close()
    assert first.is_closed


def test_a_search_is_not_long_for_its_first_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([0.0, *(50.0 + number / 10 for number in range(JOBS - 1))])
    monkeypatch.setattr(growing, "time", SimpleNamespace(monotonic=lambda: next(ends)))
    first = Device("first")
    executor = searched(first, lambda: pytest.fail("a cluster was started"), expected=100)
    assert first.ran == list(range(JOBS))
    executor.close()


def test_a_long_one_gets_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_LONG_S", -1.0)
    first, other = Device("first"), Device("other")
    took_part = threading.Event()
    # From the fifth on the first waits until the other has had one, and that until the first has another.
    first.may_run = lambda number: None if len(first.ran) < 4 else took_part.wait(60) and None
    other.may_run = lambda _: took_part.set()
    executor = searched(first, lambda: cast("Executor", other))
    assert other.ran and sorted(first.ran + other.ran) == list(range(JOBS))
    assert first.ran[:4] == [0, 1, 2, 3] and executor.facts()["workers"] == 2
    executor.close()
    assert first.is_closed and other.is_closed


@pytest.mark.parametrize("starts", [True, False])
def test_what_others_can_not_do_the_first_does(starts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_LONG_S", -1.0)
    first, other = Device("first"), Device("other")
    went_wrong = threading.Event()

    def start() -> Executor:
        if starts:
            return cast("Executor", other)
        went_wrong.set()
        raise ReplayError("no cluster")

    def fail(number: int) -> None:
        other.fails_at = number
        went_wrong.set()

    other.may_run = fail
    first.may_run = lambda number: None if len(first.ran) < 4 else went_wrong.wait(60) and None
    executor = searched(first, start)
    assert sorted(first.ran) == list(range(JOBS)) and other.ran == []
    executor.close()
    why = "every worker was lost" if starts else "no cluster"
    assert executor.notes() == [f"one device searched: {why}"]
