"""In what order a space is tried: all of it, at random, or as Optuna's TPE proposes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from kerncap.errors import BackendUnavailable, UsageError
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.constraints import INSTALL, Legal, draw
from kerncap.replay.tuning.point import Parameter, Point
from kerncap.replay.tuning.space import Space

NAMES = ("auto", "tpe", "grid", "random")
_SEED = 7
_PROPOSALS = 64  # that TPE may make before one of its neighbours is taken


class Sampler(Protocol):
    """Proposes points, each once, and hears what became of them (a cost, or None for none)."""

    name: str
    whole: bool  # whether all that is legal was proposed when nothing is left

    def ask(self) -> Point | None:
        """The next point; None if nothing is left."""

    def tell(self, given: Point, cost: float | None) -> None:
        """What a proposed point, or one that was tried before, came to."""


def make(name: str, space: Space, legal: Legal, trials: int) -> Sampler:
    """The sampler of a name; ``auto`` takes the whole of a space that the trials suffice for.

    The list's own configurations come first, whatever the sampler. Raises UsageError for a grid that is too
    large, BackendUnavailable without Optuna.
    """
    if name not in NAMES:
        raise UsageError(f"--sampler {name}: expected one of {', '.join(NAMES)}")
    if name == "auto":
        name = "grid" if legal.points is not None and legal.size <= trials else "tpe"
    if name == "grid":
        if legal.points is None:
            raise UsageError(f"--sampler grid: {legal.counted} are too many to try: bound some, or use tpe")
        return InOrder("grid", [*space.listed, *legal.points])
    if name == "random":
        return InOrder("random", _chain(space.listed, _shuffled(space, legal)), legal.points is not None)
    return Tpe(space, legal)


def _chain(first: Iterable[Point], then: Iterable[Point]) -> Iterator[Point]:
    yield from first
    yield from then


def _shuffled(space: Space, legal: Legal) -> Iterator[Point]:
    if legal.points is None:
        yield from draw(space.parameters, space.constraints, space.scopes, _SEED)
        return
    order = list(legal.points)
    random.Random(_SEED).shuffle(order)
    yield from order


class InOrder:
    """Points one after the other, each once."""

    def __init__(self, name: str, order: Iterable[Point], whole: bool = True) -> None:
        self.name, self.whole = name, whole
        self._order = iter(order)
        self._seen: set[str] = set()

    def ask(self) -> Point | None:
        for given in self._order:
            if points.key(given) not in self._seen:
                self._seen.add(points.key(given))
                return given
        return None

    def tell(self, given: Point, cost: float | None) -> None:
        self._seen.add(points.key(given))


class Tpe:
    """Optuna's tree-structured Parzen estimator over what the constraints leave."""

    name = "tpe"

    def __init__(self, space: Space, legal: Legal) -> None:
        try:
            import optuna
        except ImportError as error:
            raise BackendUnavailable("the TPE sampler", f"{error}; {INSTALL}, or --sampler random") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna: Any = optuna
        self.whole = legal.points is not None
        self._space = space
        self._labels = {p.name: {_label(v): v for v in p.values} for p in space.parameters}
        self._distributions: dict[str, Any] = {
            name: optuna.distributions.CategoricalDistribution(list(labels))
            for name, labels in self._labels.items()
        }
        sampler = optuna.samplers.TPESampler(seed=_SEED, n_startup_trials=10)
        self._study = optuna.create_study(direction="minimize", sampler=sampler)
        self._first = InOrder("listed", [*space.listed, *_captured(space.parameters)])
        self._rest = InOrder("rest", _shuffled(space, legal))
        self._open: dict[str, Any] = {}
        self._seen: set[str] = set()

    def ask(self) -> Point | None:
        while (given := self._first.ask()) is not None:
            if points.key(given) not in self._seen and self._space.allows(given):
                return self._proposed(given, None)
        for _ in range(_PROPOSALS):
            trial = self._study.ask(self._distributions)
            given = {name: self._labels[name][trial.params[name]] for name in self._labels}
            if points.key(given) in self._seen or not self._space.allows(given):
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
                continue
            return self._proposed(given, trial)
        while (given := self._rest.ask()) is not None:
            if points.key(given) not in self._seen:
                return self._proposed(given, None)
        return None

    def _proposed(self, given: Point, trial: Any) -> Point:
        self._seen.add(points.key(given))
        self._open[points.key(given)] = trial
        return given

    def tell(self, given: Point, cost: float | None) -> None:
        self._seen.add(points.key(given))
        trial = self._open.pop(points.key(given), None)
        state = self._optuna.trial.TrialState
        if trial is not None:
            if cost is None:
                self._study.tell(trial, state=state.FAIL)
            else:
                self._study.tell(trial, cost)
            return
        if cost is None or set(given) != set(self._labels):
            return
        labels = {name: _label(given[name]) for name in self._labels}
        if any(label not in self._labels[name] for name, label in labels.items()):
            return
        distributions = {name: self._distributions[name] for name in labels}
        self._study.add_trial(
            self._optuna.trial.create_trial(params=labels, distributions=distributions, value=cost)
        )


def _label(value: Any) -> str:
    """Values as text: to Optuna 1 and True are the same choice."""
    return points.key({"v": value})


def _captured(parameters: Sequence[Parameter]) -> list[Point]:
    """The captured configuration, if it is one."""
    found = {p.name: p.captured for p in parameters}
    if any(p.captured is None or p.captured not in p.values for p in parameters):
        return []
    return [found]
