"""What follows from the trials: the best of each launch, one that is good for all, the fewest that are within
3 % of the best, and the arguments that tell which to take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kerncap.replay.paired_times import Ratio, median, ratio
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.search import Found
from kerncap.replay.tuning.trial import WITHIN

_CANDIDATES = 48  # configurations that a set is looked for among
_LARGEST_EXACT = 4  # sets up to this size are tried each; then the most helpful one after another
_MAX_KEY = 4


@dataclass(frozen=True)
class Best:
    """The fastest configuration of a launch; ``speedup`` over the captured one, paired, if re-measured."""

    digest: str
    point: Point
    ms: float
    original_ms: float
    speedup: Ratio | None  # original by this one: 2 is twice as fast


@dataclass(frozen=True)
class Robust:
    """One configuration for all: the geometric mean and the largest of its times by the best ones."""

    point: Point
    mean: float
    worst: float


@dataclass
class Choice:
    """``by_digest``: which of ``selected`` a launch takes; ``key``: arguments that tell them apart."""

    best: list[Best] = field(default_factory=list)
    robust: Robust | None = None
    selected: list[Point] = field(default_factory=list)
    by_digest: dict[str, Point] = field(default_factory=dict)
    key: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def choose(found: Found, scalars: Mapping[str, Mapping[str, Any]], author_key: Sequence[str]) -> Choice:
    """The choice over the launches of ``scalars`` (by digest: its scalar arguments)."""
    times, speedups, originals, refuted = _times(found)
    choice = Choice()
    for digest, point, reason in refuted:
        choice.notes.append(f"{points.text(point)} was dropped on {digest[:8]}: {reason}")
    for digest in scalars:
        mine = {key: ms for key, by in times.items() if (ms := by.get(digest)) is not None}
        if not mine:
            choice.notes.append(f"no configuration gave the right result on {digest[:8]}")
            continue
        key = min(mine, key=lambda each: mine[each])
        choice.best.append(
            Best(
                digest, _point(found, key), mine[key],
                originals.get(digest, math.nan), speedups.get((key, digest)),
            )
        )  # fmt: skip
    slower = [best for best in choice.best if best.speedup is not None and best.speedup.high < 1]
    if slower:
        choice.notes.append("the captured configuration is faster than all that were tried")
    least = {best.digest: best.ms for best in choice.best}
    ratios = {
        key: {digest: by[digest] / ms for digest, ms in least.items()}
        for key, by in times.items()
        if least and all(digest in by for digest in least)
    }
    if ratios:
        key = min(ratios, key=lambda each: (_mean(ratios[each]), max(ratios[each].values())))
        choice.robust = Robust(_point(found, key), _mean(ratios[key]), max(ratios[key].values()))
    partial = {key: {d: by[d] / ms for d, ms in least.items() if d in by} for key, by in times.items()}
    chosen = smallest_set(partial, list(least))
    choice.selected = [_point(found, key) for key in chosen]
    for digest in least:
        key = min((k for k in chosen if digest in partial[k]), key=lambda k: partial[k][digest])
        choice.by_digest[digest] = _point(found, key)
    choice.key, problem = key_of(scalars, choice.by_digest, author_key)
    choice.notes += [problem] if problem else []
    return choice


def _times(
    found: Found,
) -> tuple[
    dict[str, dict[str, float]], dict[tuple[str, str], Ratio], dict[str, float], list[tuple[str, Point, str]]
]:
    """Times by point and digest: if finalists were re-measured, theirs and no others."""
    times: dict[str, dict[str, float]] = {}
    finals: dict[str, dict[str, float]] = {}
    speedups: dict[tuple[str, str], Ratio] = {}
    originals: dict[str, float] = {}
    refuted = []
    failed = set()
    for final in found.finals:
        key = points.key(final.point)
        if final.problem:
            refuted.append((final.digest, final.point, final.problem))
            failed.add((key, final.digest))
            continue
        finals.setdefault(final.digest, {})[key] = median(final.times_ms)
        originals[final.digest] = median(final.original_ms)
        speedups[key, final.digest] = ratio(final.times_ms, final.original_ms)
    for trial in found.all():
        key = points.key(trial.point)
        if trial.state not in ("timed", "slow") or trial.ms is None or (key, trial.digest) in failed:
            continue
        measured = finals.get(trial.digest)
        if measured:
            if key in measured:
                times.setdefault(key, {})[trial.digest] = measured[key]
        else:
            times.setdefault(key, {})[trial.digest] = trial.ms
    return times, speedups, originals, refuted


def smallest_set(ratios: Mapping[str, Mapping[str, float]], digests: Sequence[str]) -> list[str]:
    """The fewest configurations of which each launch has one within 3 % of its best; of equally many those
    with the least mean. ``ratios``: by configuration and launch, time by the launch's best."""
    useful = [key for key, by in ratios.items() if any(r <= WITHIN for r in by.values())]
    useful.sort(key=lambda key: (-sum(r <= WITHIN for r in ratios[key].values()), _mean(ratios[key])))
    useful = useful[:_CANDIDATES]

    def covers(keys: Sequence[str]) -> bool:
        return all(any(ratios[key].get(d, math.inf) <= WITHIN for key in keys) for d in digests)

    def cost(keys: Iterable[str]) -> float:
        some = list(keys)
        return _mean({d: min(ratios[key].get(d, math.inf) for key in some) for d in digests})

    if not digests or not covers(useful):
        # The limit on candidates left one out: the best of each launch is always enough.
        useful += [min((k for k in ratios if d in ratios[k]), key=lambda k: ratios[k][d]) for d in digests]
        useful = list(dict.fromkeys(useful))
    for size in range(1, min(_LARGEST_EXACT, len(digests)) + 1):
        fitting = [keys for keys in itertools.combinations(useful, size) if covers(keys)]
        if fitting:
            return list(min(fitting, key=cost))
    chosen: list[str] = []
    open_ones = set(digests)
    while open_ones:
        key = max(useful, key=lambda k: sum(ratios[k].get(d, math.inf) <= WITHIN for d in open_ones))
        helped = {d for d in open_ones if ratios[key].get(d, math.inf) <= WITHIN}
        if not helped:
            break
        chosen.append(key)
        open_ones -= helped
    return chosen


def key_of(
    scalars: Mapping[str, Mapping[str, Any]], by_digest: Mapping[str, Point], author_key: Sequence[str]
) -> tuple[list[str], str]:
    """The fewest arguments that differ wherever another configuration is taken; and what is wrong, if so.

    The author's own key is kept if it serves.
    """
    digests = list(by_digest)

    def tells(names: Sequence[str]) -> bool:
        return all(
            points.key(by_digest[a]) == points.key(by_digest[b])
            or any(scalars[a].get(name) != scalars[b].get(name) for name in names)
            for a, b in itertools.combinations(digests, 2)
        )

    if author_key and (tells(author_key)):
        return list(author_key), ""
    names = list(dict.fromkeys(
        name for digest in digests for name, value in scalars[digest].items()
        if isinstance(value, int) and not isinstance(value, bool)
    ))  # fmt: skip
    varying = [name for name in names if len({scalars[d].get(name) for d in digests}) > 1]
    for size in range(min(_MAX_KEY, len(varying)) + 1):
        for chosen in itertools.combinations(varying, size):
            if tells(chosen):
                # One configuration for all: what tells the shapes apart still serves for shapes to come.
                return list(chosen or author_key or varying[:1]), ""
    note = "no scalar argument distinguishes the launches that take different configurations"
    return list(author_key), note


def _mean(ratios: Mapping[str, float]) -> float:
    if not ratios or any(value == math.inf for value in ratios.values()):
        return math.inf
    return math.exp(sum(math.log(value) for value in ratios.values()) / len(ratios))


def _point(found: Found, key: str) -> Point:
    return next(iter(found.trials[key].values())).point
