"""Trials on one device in this process from the start, and on the others once a search turns out to be long.

A cluster takes seconds to start, more than many a search takes in all. It is started meanwhile if what is
left would take much longer; until it is there, and if it never is, the first device goes on.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.executor import Direct, Executor, Job
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import Final, Trial

_LONG_S = 10.0  # what one device would take for the rest, for others to be worth their start
_FIRST_TRIALS = 4  # before which nothing is known of how long trials take
_AT_OTHERS = 3  # jobs for each of them: one runs, one waits for it to end, one is on its way


class Growing:
    """An executor: ``first``, and what ``start`` gives for ``others`` more devices."""

    def __init__(self, first: Direct, start: Callable[[], Executor], others: int, expected: int) -> None:
        """``expected``: how many trials the search will be at most; ``start`` runs on a thread."""
        self._first = first
        self._start = start
        self._count = others
        self._left = expected
        self._ends: list[float] = []  # when the first device's trials ended, as `time.monotonic`
        self._others: Executor | None = None
        self._problem = ""
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()
        self._at_others: dict[str, Job] = {}
        self._results: queue.SimpleQueue[list[Trial] | BaseException] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._is_open = True

    @property
    def capacity(self) -> int:
        return self._first.capacity * (1 + self._count)

    def facts(self) -> dict[str, Any]:
        """``workers`` are those that are there by now."""
        others = 0 if self._others is None else int(self._others.facts()["workers"])
        return {**self._first.facts(), "workers": 1 + others}

    def notes(self) -> list[str]:
        more = [] if self._others is None else self._others.notes()
        return [*more, *([f"one device searched: {self._problem}"] if self._problem else [])]

    def submit(self, job: Job) -> None:
        self._first.announce(job)
        with self._changed:
            self._queue.append(job)
            self._changed.notify_all()

    def wait(self) -> list[Trial]:
        if not self._threads:
            trials = self._on_first(self._queue.popleft())
            self._ends.append(time.monotonic())
        else:
            found = self._results.get()
            if isinstance(found, BaseException):
                raise found
            trials = found
        self._left -= any(trial.state != "pruned" for trial in trials)
        if not self._threads and self._is_long():
            for run in (self._run_first, self._run_others):
                self._threads.append(threading.Thread(target=run, daemon=True))
                self._threads[-1].start()
        return trials

    def finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        return self._first.finals(points, rounds)

    def close(self) -> None:
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        self._end_others()
        self._first.close()
        for thread in self._threads[1:]:  # that of the first ends with its trial, if one still runs
            thread.join()

    def _is_long(self) -> bool:
        """By the later half of the trials: the first one waits for the first compilation."""
        count = len(self._ends)
        if count < _FIRST_TRIALS:
            return False
        later = count - count // 2
        passed_s = self._ends[-1] - self._ends[-1 - later]
        return passed_s / later * self._left > _LONG_S

    # --- on threads ----------------------------------------------------------------------------------

    def _on_first(self, job: Job) -> list[Trial]:
        self._first.submit(job)
        return self._first.wait()

    def _run_first(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or not self._is_open)
                if not self._is_open:
                    return
                job = self._queue.popleft()
            try:
                self._results.put(self._on_first(job))
            except BaseException as error:
                self._results.put(error)
                return

    def _run_others(self) -> None:
        try:
            others = self._start()
            with self._changed:
                self._others = others
            while self._give(others):
                trials = others.wait()
                with self._changed:
                    del self._at_others[points.key(trials[0].point)]
                self._results.put(trials)
            self._end_others()  # they may have come when all was over
        except Exception as error:
            self._take_back(str(error).partition("\n")[0] or type(error).__name__)

    def _give(self, others: Executor) -> bool:
        """Keep them busy; False when the search is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._at_others or not self._is_open)
            while self._queue and len(self._at_others) < _AT_OTHERS * self._count:
                job = self._queue.popleft()
                self._at_others[job.key] = job
                others.submit(job)
            return self._is_open

    def _take_back(self, problem: str) -> None:
        """What they had goes to the first device."""
        with self._changed:
            self._problem = problem if self._is_open else ""
            self._queue.extendleft(reversed(self._at_others.values()))
            self._at_others.clear()
            self._changed.notify_all()
        self._end_others()

    def _end_others(self) -> None:
        with self._changed:
            others, self._others = self._others, None
        if others is not None:
            with contextlib.suppress(Exception):
                others.close()
