"""Trials on one device from the start, and on the others of this machine once a search turns out to be long.

Each device has a bench, and a thread that waits for it. What is compiled is compiled once for all of them.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kerncap.errors import KerncapError, ReplayError
from kerncap.replay.tuning.bench import Bench
from kerncap.replay.tuning.executor import Job, Sent, run_job
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import Final, Trial
from kerncap.replay.tuning.trial_launch import first_line

_LONG_S = 4.0  # what one device would take for the rest, for others to be worth their start
_FIRST_TRIALS = 4  # before which nothing is known of how long trials take
_AHEAD = 64  # compiled for each device


class Devices:
    """An executor: ``first``, and what ``open_other`` gives for each device that ``others`` names.

    Both are called on threads, once the first would take long for the ``expected`` trials, or now if
    ``at_once``. A device that can't take part, or is of another model, is left out with a note.
    """

    def __init__(
        self,
        first: Bench,
        others: Callable[[], Sequence[str]] | None = None,
        open_other: Callable[[str], Bench] | None = None,
        expected: int = 0,
        at_once: bool = False,
        sent: Sent | None = None,
    ) -> None:
        self._first = first
        self._others = others
        self._open_other = open_other
        self._left = expected
        self._sent = sent
        self._digests = list(first.facts()["original_ms"])
        self._ends: list[float] = []  # when the first device's trials ended, as `time.monotonic`
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()
        self._results: queue.SimpleQueue[list[Trial] | BaseException] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._opened: dict[int, Bench] = {}  # of the others, by number; closed by who takes it out
        self._notes: list[str] = []
        self._is_open = True
        if at_once:
            self._begin()

    @property
    def capacity(self) -> int:
        return _AHEAD * (1 + len(self._opened))

    def facts(self) -> dict[str, Any]:
        """``workers`` are those that are there by now."""
        return {**self._first.facts(), "workers": 1 + len(self._opened)}

    def notes(self) -> list[str]:
        return list(self._notes)

    def submit(self, job: Job) -> None:
        self._first.announce(self._digests, [job.point])
        with self._changed:
            self._queue.append(job)
            self._changed.notify()

    def wait(self) -> list[Trial]:
        if self._threads:
            found = self._results.get()
            if isinstance(found, BaseException):
                raise found
        else:
            found = self._run(self._first, self._queue.popleft())
            self._ends.append(time.monotonic())
        self._left -= any(trial.state != "pruned" for trial in found)
        if not self._threads and self._others is not None and self._is_long():
            self._begin()
        return found

    def finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        """Each launch's on one device, and one bench at a time on each, so that times can be compared."""
        digests = list(points)
        benches = self._at_different_places()[: len(digests)]
        shares = [
            {digest: points[digest] for digest in digests[place :: len(benches)]}
            for place in range(len(benches))
        ]
        found: list[Final] = []
        lost: dict[str, Sequence[Point]] = {}
        with ThreadPoolExecutor(len(benches)) as threads:
            futures = [
                threads.submit(bench.finals, share, rounds)
                for bench, share in zip(benches, shares, strict=True)
            ]
            for bench, share, future in zip(benches, shares, futures, strict=True):
                try:
                    found += future.result()
                except (KerncapError, OSError) as error:
                    if bench is self._first:
                        raise
                    self._note(f"finalists were measured again by the first device: {first_line(error)}")
                    lost |= share
        return [*found, *(self._first.finals(lost, rounds) if lost else [])]

    def _at_different_places(self) -> list[Bench]:
        """The first, and of the others those of its model that share a device with none before."""
        with self._changed:
            benches = [self._first, *self._opened.values()]
        by_place: dict[str, Bench] = {}
        for bench in benches:
            if bench.facts()["device"] == self._first.facts()["device"]:
                by_place.setdefault(bench.facts()["place"], bench)
        return list(by_place.values())

    def close(self) -> None:
        with self._changed:
            self._is_open = False
            places = list(self._opened)
            self._changed.notify_all()
        for place in places:  # a trial that runs there ends with its engine
            self._close(place)
        self._first.close()
        for thread in self._threads:  # one of them adds those of the others
            thread.join()

    def _is_long(self) -> bool:
        """By the later half of the trials: the first one waits for the first compilation."""
        count = len(self._ends)
        if count < _FIRST_TRIALS:
            return False
        later = count - count // 2
        passed_s = self._ends[-1] - self._ends[-1 - later]
        return passed_s / later * self._left > _LONG_S

    def _begin(self) -> None:
        self._thread(self._serve_first)
        self._thread(self._look_for_others)

    def _thread(self, run: Callable[..., None], *given: Any) -> None:
        thread = threading.Thread(target=run, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    # --- on threads ----------------------------------------------------------------------------------

    def _serve_first(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._results.put(self._run(self._first, job))
            except BaseException as error:
                self._results.put(error)
                return

    def _look_for_others(self) -> None:
        assert self._others is not None
        try:
            found = self._others()
        except KerncapError as error:
            self._note(f"one device searched: {first_line(error)}")
            return
        for place, device in enumerate(found, 1):
            self._thread(self._serve, place, device)

    def _serve(self, place: int, device: str) -> None:
        assert self._open_other is not None
        job: Job | None = None
        try:
            bench = self._open_other(device)
            with self._changed:
                self._opened[place] = bench
            model, searched = bench.facts()["device"], self._first.facts()["device"]
            if model != searched:
                raise ReplayError(f"it is {model}, and the search is for {searched}")
            while (job := self._next()) is not None:
                self._results.put(self._run(bench, job, str(place)))
        except (KerncapError, OSError) as error:
            self._note(f"{device} does not take part: {first_line(error)}")
            if job is not None:
                with self._changed:
                    self._queue.appendleft(job)
                    self._changed.notify()
        except BaseException as error:  # its job would be waited for forever
            self._results.put(error)
        finally:
            self._close(place)

    def _next(self) -> Job | None:
        """None if the search is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or not self._is_open)
            return self._queue.popleft() if self._is_open else None

    def _run(self, bench: Bench, job: Job, worker: str = "") -> list[Trial]:
        if self._sent is not None:
            self._sent(worker or "here", job.point)
        return run_job(bench, job, self._digests, worker)

    def _close(self, place: int) -> None:
        with self._changed:
            bench = self._opened.pop(place, None)
        if bench is not None:
            bench.close()

    def _note(self, said: str) -> None:
        if self._is_open:
            self._notes.append(said)
