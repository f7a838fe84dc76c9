"""A search that begins on one device: others come if it is long, and what they can't do the first does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kerncap.errors import ReplayError
from kerncap.replay.tuning import devices
from kerncap.replay.tuning.bench import Bench
from kerncap.replay.tuning.devices import Devices
from kerncap.replay.tuning.executor import Job
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import Final, Trial

JOBS = 12


class Device:
    """Runs a job when ``may_run`` returns; fails with the job of number ``fails_at``."""

    def __init__(self, model: str = "H200", place: str = "cuda:0") -> None:
        self.model = model
        self.place = place
        self.measured: list[str] = []
        self.can_measure = True
        self.fails_at = -1
        self.ran: list[int] = []
        self.announced: list[int] = []
        self.closed = 0
        self.may_run: Callable[[int], Any] = lambda _: None

    def facts(self) -> dict[str, Any]:
        return {"device": self.model, "place": self.place, "original_ms": {"digest": 1.0}}

    def announce(self, digests: Sequence[str], points: Sequence[Point]) -> None:
        self.announced += [int(given["N"] or 0) for given in points]

    def trials(
        self, digests: Sequence[str], given: Point, best_ms: Mapping[str, float], listed: bool
    ) -> list[Trial]:
        number = int(given["N"] or 0)
        self.may_run(number)
        if number == self.fails_at:
            raise ReplayError("the worker is gone")
        self.ran.append(number)
        return [Trial(given, digest, "timed", ms=1.0) for digest in digests]

    def finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        if not self.can_measure:
            raise ReplayError("the worker is gone")
        self.measured += points
        return [Final(given, digest, [1.0], [1.0]) for digest, some in points.items() for given in some]

    def close(self) -> None:
        self.closed += 1


def searched(
    first: Device, open_other: Callable[[], Device] | None, expected: int = JOBS, at_once: bool = False
) -> Devices:
    executor = Devices(
        cast("Bench", first),
        None if open_other is None else lambda: ["cuda:1"],
        None if open_other is None else lambda _: cast("Bench", open_other()),
        expected,
        at_once,
    )
    for number in range(JOBS):
        executor.submit(Job({"N": number}))
    ended = [executor.wait() for _ in range(JOBS)]
    assert sorted(int(trials[0].point["N"] or 0) for trials in ended) == list(range(JOBS))
    return executor


def unwanted() -> Device:
    raise AssertionError("another device was opened")


def test_a_short_search_opens_no_other() -> None:
    first = Device()
    executor = searched(first, unwanted)
    assert first.ran == first.announced == list(range(JOBS))
    assert executor.facts()["workers"] == 1 and executor.notes() == []
    executor.close()
    assert first.closed == 1


def test_a_search_is_not_long_for_its_first_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([0.0, *(50.0 + number / 100 for number in range(JOBS - 1))])
    monkeypatch.setattr(devices, "time", SimpleNamespace(monotonic=lambda: next(ends)))
    first = Device()
    executor = searched(first, unwanted, expected=100)
    assert first.ran == list(range(JOBS))
    executor.close()


@pytest.mark.parametrize("at_once", [True, False])
def test_a_long_one_gets_others(at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_LONG_S", -1.0)
    first, other = Device(), Device()
    took_part = threading.Event()
    # From the fifth on the first waits until the other has had one.
    first.may_run = lambda _: len(first.ran) < 4 or took_part.wait(60)
    other.may_run = lambda _: took_part.set()
    executor = searched(first, lambda: other, at_once=at_once)
    assert other.ran and sorted(first.ran + other.ran) == list(range(JOBS))
    assert executor.facts()["workers"] == 2
    executor.close()
    assert (first.closed, other.closed) == (1, 1)


@pytest.mark.parametrize("trouble", ["it does not open", "it is another model", "it fails"])
def test_what_another_can_not_do_the_first_does(trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_LONG_S", -1.0)
    first, other = Device(), Device("H100" if trouble == "it is another model" else "H200")
    over = threading.Event()

    def open_other() -> Device:
        if trouble == "it does not open":
            over.set()
            raise ReplayError("no memory")
        return other

    def fail(number: int) -> None:
        other.fails_at = number
        over.set()

    monkeypatch.setattr(other, "close", over.set)
    other.may_run = fail
    first.may_run = lambda _: len(first.ran) < 4 or over.wait(60)
    executor = searched(first, open_other)
    assert sorted(first.ran) == list(range(JOBS)) and other.ran == []
    executor.close()
    whys = {"it does not open": "no memory", "it fails": "the worker is gone"}
    why = whys.get(trouble, "it is H100, and the search is for H200")
    assert executor.notes() == [f"cuda:1 does not take part: {why}"]


def test_what_nobody_expects_ends_the_search() -> None:
    """A job that another device took would be waited for forever."""
    first, other = Device(), Device()
    took = threading.Event()

    def fail(_: int) -> None:
        took.set()
        raise RuntimeError("a mistake")

    first.may_run, other.may_run = lambda _: took.wait(60), fail
    executor = Devices(
        cast("Bench", first), lambda: ["cuda:1"], lambda _: cast("Bench", other), JOBS, at_once=True
    )
    for number in range(JOBS):
        executor.submit(Job({"N": number}))
    with pytest.raises(RuntimeError, match="a mistake"):
        for _ in range(JOBS):
            executor.wait()
    executor.close()
    assert (first.closed, other.closed) == (1, 1)


LAUNCHES = ("a", "b", "c")


def measured(first: Device, other: Device, launches: Sequence[str] = LAUNCHES) -> Devices:
    """After a search in which both took part, and the finals."""
    took_part = threading.Event()
    first.may_run, other.may_run = lambda _: took_part.wait(60), lambda _: took_part.set()
    executor = searched(first, lambda: other, at_once=True)
    found = executor.finals({name: [{"N": 1}, {"N": 2}] for name in launches}, 25)
    pairs = sorted((each.digest, each.point["N"]) for each in found)
    assert pairs == [(name, number) for name in launches for number in (1, 2)]
    executor.close()
    return executor


def test_each_launch_has_its_finals_on_one_device() -> None:
    first, other = Device(), Device(place="cuda:1")
    assert measured(first, other).notes() == []
    assert (first.measured, other.measured) == (["a", "c"], ["b"])


def test_of_one_launch_no_other_device_is_asked() -> None:
    first, other = Device(), Device(place="cuda:1")
    other.can_measure = False
    assert measured(first, other, ["a"]).notes() == []


def test_finals_share_no_device() -> None:
    first, other = Device(), Device()
    assert measured(first, other).notes() == []
    assert (first.measured, other.measured) == ([*LAUNCHES], [])


def test_finals_of_a_device_that_is_gone_are_measured_by_the_first() -> None:
    first, other = Device(), Device(place="cuda:1")
    other.can_measure = False
    [note] = measured(first, other).notes()
    assert "the worker is gone" in note
    assert sorted(first.measured) == [*LAUNCHES] and other.measured == []
