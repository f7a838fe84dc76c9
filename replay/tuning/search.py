"""The search: asks a sampler, keeps an executor busy, stops when it is enough, re-measures the finalists."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.executor import Executor, Job
from kerncap.replay.tuning.journal import Journal
from kerncap.replay.tuning.point import Point, Scalar
from kerncap.replay.tuning.samplers import Sampler
from kerncap.replay.tuning.space import Space
from kerncap.replay.tuning.trial import Final, Trial

_PRUNED_PER_TRIAL = 50  # pruned points cost next to nothing, but do not go on for ever
_NEAR = 1.08  # finalists are this near to the best of a launch
_FINALISTS = 4
_WHOLE = "the whole space was tried"
_NO_OTHER = "no other configuration was found at random that the constraints allow"


@dataclass(frozen=True)
class Limits:
    """When to stop: configurations that ran, seconds, configurations without a better one."""

    trials: int
    time_s: float | None = None
    patience: int = 60
    rounds: int = 25  # of the finalists


@dataclass
class Found:
    """All that was tried: by point and launch; the finalists; why the search ended."""

    trials: dict[str, dict[str, Trial]] = field(default_factory=dict)
    finals: list[Final] = field(default_factory=list)
    ended: str = ""
    resumed: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def all(self) -> list[Trial]:
        """Every trial, in the order in which they ended."""
        return [trial for by_digest in self.trials.values() for trial in by_digest.values()]


class Search:
    """One search over a set of launches, given by their digests."""

    def __init__(
        self,
        space: Space,
        sampler: Sampler,
        executor: Executor,
        digests: Sequence[str],
        limits: Limits,
        journal: Journal | None = None,
        progress: Callable[[list[Trial]], None] | None = None,
    ) -> None:
        self._space = space
        self._sampler = sampler
        self._executor = executor
        self._digests = list(digests)
        self._limits = limits
        self._journal = journal
        self._progress = progress
        self._original = dict(executor.facts()["original_ms"])
        self._best: dict[str, float] = {}
        self._found = Found()
        self._listed = {points.key(each) for each in space.listed}
        self._ran = 0
        self._pruned = 0
        self._since_better = 0
        self._best_cost = math.inf
        # Those of many launches would take all trials.
        self._probes = deque(itertools.islice(self._single_changes(), max(1, limits.trials // 2)))
        self._asked: set[str] = set()
        self._changed = {points.key(given): change for given, change in self._probes}
        self._barred: set[tuple[str, str]] = set()

    def run(self) -> Found:
        """Search, and re-measure the finalists."""
        start = time.monotonic()
        self._resume()
        waiting = 0
        exhausted = False
        while True:
            stop = self._enough(start)
            while not stop and not exhausted and waiting < self._room():
                given = self._next()
                if given is None:
                    exhausted = True
                    break
                # The best is a mapping that goes on changing: what waits is compared with what is known then.
                self._executor.submit(Job(given, points.key(given) in self._listed, self._best))
                waiting += 1
            if waiting == 0:
                self._found.ended = stop or (_WHOLE if self._sampler.whole else _NO_OTHER)
                break
            if stop and self._found.ended == "":
                self._found.ended = stop
            self._take(self._executor.wait())
            waiting -= 1
        chosen = self.finalists()
        if any(chosen.values()):
            self._found.finals = self._executor.finals(chosen, self._limits.rounds)
        self._found.seconds = time.monotonic() - start
        return self._found

    def finalists(self) -> dict[str, list[Point]]:
        """For each launch the same: whatever is near to the best of any of them, and the best of all."""
        chosen: dict[str, Point] = {}
        for digest in self._digests:
            tried = [by[digest] for by in self._found.trials.values() if digest in by]
            timed = [each for each in tried if each.state == "timed"]
            timed.sort(key=lambda trial: trial.ms or math.inf)
            best = timed[0].ms if timed else None
            for trial in timed[:_FINALISTS]:
                if best is not None and trial.ms is not None and trial.ms <= best * _NEAR:
                    chosen[points.key(trial.point)] = trial.point
        ranked = [by for by in self._found.trials.values() if self._cost(by) is not None]
        ranked.sort(key=lambda by: self._cost(by) or math.inf)
        for by in ranked[:2] if len(self._digests) > 1 else ranked[:1]:
            first = next(iter(by.values())).point
            chosen[points.key(first)] = first
        found: dict[str, list[Point]] = {}
        for digest in self._digests:
            found[digest] = [
                given
                for key, given in chosen.items()
                if digest in self._found.trials[key]
                and self._found.trials[key][digest].state in ("timed", "slow")
            ]
        return found

    def _single_changes(self) -> Iterator[tuple[Point, tuple[str, Scalar]]]:
        """The captured configuration with one value changed, if the author listed none: a value that is
        wrong alone (another head dimension, another flag) is not worth trying with others."""
        space = self._space
        captured = {p.name: p.captured for p in space.parameters}
        if space.listed or space.only_listed or any(value is None for value in captured.values()):
            return
        for p in space.parameters:
            for value in () if p.given or p.kind == "option" else p.values:
                given = {**captured, p.name: value}
                if points.key({"v": value}) != points.key({"v": p.captured}) and space.allows(given):
                    yield given, (p.name, value)

    def _next(self) -> Point | None:
        """The next point to try; None if nothing is left."""
        while self._probes:
            given, _ = self._probes.popleft()
            if points.key(given) not in self._asked:
                self._asked.add(points.key(given))
                return given
        while (given_or_none := self._sampler.ask()) is not None:
            key = points.key(given_or_none)
            if key in self._asked:
                continue
            self._asked.add(key)
            if any((n, points.key({"v": v})) in self._barred for n, v in given_or_none.items()):
                self._sampler.tell(given_or_none, None)
                continue
            return given_or_none
        return None

    def _bar(self, trials: list[Trial]) -> None:
        change = self._changed.get(points.key(trials[0].point))
        if change is None or any(trial.state not in ("wrong", "failed") for trial in trials):
            return
        name, value = change
        self._barred.add((name, points.key({"v": value})))
        self._found.notes.append(
            f"{name}={value} is wrong when only it is changed ({trials[0].reason}): no more of it was tried"
        )

    def _room(self) -> int:
        """Jobs to have waiting: of a sampler that learns fewer, so that it can."""
        if self._sampler.name != "tpe":
            return self._executor.capacity
        left = max(1, self._limits.trials - self._ran)
        return max(len(self._listed), min(self._executor.capacity, 16, left))

    def _enough(self, start: float) -> str:
        limits = self._limits
        if self._ran >= limits.trials:
            return f"{limits.trials} trials"
        if limits.time_s is not None and time.monotonic() - start > limits.time_s:
            return f"{limits.time_s:g} s"
        patience = max(limits.patience, len(self._listed) + len(self._changed))
        if self._sampler.name != "grid" and self._since_better >= patience:
            return f"{self._since_better} trials without a better one"
        if self._pruned > _PRUNED_PER_TRIAL * limits.trials:
            return f"{self._pruned:,} configurations were pruned"
        return ""

    def _resume(self) -> None:
        if self._journal is None:
            return
        kept: dict[str, list[Trial]] = {}
        for trial in self._journal.found:
            if trial.digest in self._digests and self._space.holds(trial.point):
                kept.setdefault(points.key(trial.point), []).append(trial)
        for trials in kept.values():
            if {trial.digest for trial in trials} == set(self._digests):
                self._take(trials, kept=True)
                self._found.resumed += 1

    def _take(self, trials: list[Trial], kept: bool = False) -> None:
        key = points.key(trials[0].point)
        by_digest = {trial.digest: trial for trial in trials}
        self._found.trials[key] = by_digest
        if self._journal is not None and not kept:
            for trial in trials:
                self._journal.add(trial)
        for trial in trials:
            if trial.state == "timed" and trial.ms is not None:
                self._best[trial.digest] = min(self._best.get(trial.digest, math.inf), trial.ms)
        if all(trial.state == "pruned" for trial in trials):
            self._pruned += 1
        else:
            self._ran += 1
        self._asked.add(key)
        self._bar(trials)
        cost = self._cost(by_digest)
        self._sampler.tell(trials[0].point, cost)
        if cost is not None and cost < self._best_cost * 0.995:
            self._best_cost, self._since_better = cost, 0
        elif not all(trial.state == "pruned" for trial in trials):
            self._since_better += 1
        if self._progress is not None and not kept:
            self._progress(trials)

    def _cost(self, by_digest: Mapping[str, Trial]) -> float | None:
        """The geometric mean of times by the captured kernel's; None if a launch has no right result."""
        logs = []
        for digest in self._digests:
            trial = by_digest.get(digest)
            if trial is None or trial.ms is None or trial.state not in ("timed", "slow"):
                return None
            logs.append(math.log(trial.ms / self._original[digest]))
        return math.exp(sum(logs) / len(logs))
