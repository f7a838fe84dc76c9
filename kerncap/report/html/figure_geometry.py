"""Times, limits and trials as geometry: templates make SVG of it. All numbers here are finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kerncap.report.html.material import plain
from kerncap.report.html.results import Limits, Timing, Trial, Tune
from kerncap.report.verdict_text import milliseconds

WIDTH = 860.0
_LEFT, _RIGHT = 150.0, 90.0
MAX_TRIALS = 2000
MAX_BARS = 40


@dataclass(frozen=True)
class Mark:
    """Something at a place along an axis."""

    x: float
    label: str
    kind: str


@dataclass(frozen=True)
class Strip:
    """Times on one axis from 0: their spread as a bar, the rest as marks."""

    left: float
    right: float
    marks: tuple[Mark, ...]
    ticks: tuple[Mark, ...]


@dataclass(frozen=True)
class Bar:
    name: str
    width: float
    text: str
    binding: bool
    title: str


@dataclass(frozen=True)
class Bars:
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    left: float
    height: float


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    kind: str
    title: str


@dataclass(frozen=True)
class Scatter:
    dots: tuple[Dot, ...]
    front: str
    ticks: tuple[Mark, ...]  # x is the height here
    captured: float | None
    height: float
    left_out: int


def is_time(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and 0 < value < 1e12


def strip(timing: Timing) -> Strip | None:
    """None if a time is no time."""
    named = [("median", timing.median_ms, "median"), ("warm cache", timing.warm_ms, "warm"),
             ("cold cache", timing.cold_ms, "cold")]  # fmt: skip
    there = [(name, value, kind) for name, value, kind in named if value is not None and is_time(value)]
    ends = [timing.low_ms, timing.high_ms]
    if not there or not all(map(is_time, ends)):
        return None
    most = max([*ends, *(value for _, value, _ in there)]) * 1.08

    def x(value: float) -> float:
        return round(20 + (WIDTH - 40) * value / most, 1)

    marks = tuple(Mark(x(value), f"{name} {milliseconds(value)}", kind) for name, value, kind in there)
    return Strip(x(ends[0]), x(max(ends)), marks, _ticks(most, x))


def bars(limits: Limits) -> Bars | None:
    """The least time by each limit, next to the launch's time; None if none was measured."""
    floors = []
    for bound in limits.bounds[:MAX_BARS]:
        floor = bound.cold_floor_ms if is_time(bound.cold_floor_ms) else bound.warm_floor_ms
        if floor is not None and is_time(floor):
            floors.append((bound, floor))
    if not floors:
        return None
    named = [("warm cache", limits.times_ms.warm, "warm"), ("cold cache", limits.times_ms.cold, "cold"),
             ("timed", limits.times_ms.timed, "median")]  # fmt: skip
    there = [(name, value, kind) for name, value, kind in named if value is not None and is_time(value)]
    most = max([floor for _, floor in floors] + [value for _, value, _ in there]) * 1.05

    def x(value: float) -> float:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * value / most, 1)

    made = []
    for bound, floor in sorted(floors, key=lambda pair: -pair[1]):
        title = f"{plain(bound.name, 60)}: no less than {milliseconds(floor)}"
        made.append(
            Bar(plain(bound.name, 18), max(1.0, round(x(floor) - _LEFT, 1)), milliseconds(floor),
                bound.name == limits.binding, title)
        )  # fmt: skip
    marks = tuple(Mark(x(value), f"{name} {milliseconds(value)}", kind) for name, value, kind in there)
    return Bars(tuple(made), marks, _ticks(most, x), _LEFT, 26.0 * len(made) + 24 + 16 * len(marks))


def scatter(tune: Tune, digest: str) -> Scatter | None:
    """Time by trial, logarithmic; the best so far as a line. None if nothing was timed."""
    shape = next((one for one in tune.shapes if one.digest == digest), None)
    if shape is None and tune.shapes:
        shape = tune.shapes[0]
    mine = [trial for trial in tune.trials if shape is None or trial.digest in ("", shape.digest)]
    trials = mine[:MAX_TRIALS]
    captured = shape.captured_ms if shape is not None and is_time(shape.captured_ms) else None
    times = [trial.ms for trial in trials if trial.ms is not None and is_time(trial.ms)]
    times += [captured] if captured is not None else []
    if not times:
        return None
    low, high = math.log(min(times) * 0.93), math.log(max(times) * 1.07)
    top, bottom, left, right = 14.0, 250.0, 76.0, WIDTH - 16

    def y(ms: float) -> float:
        return round(top + (bottom - top) * (high - math.log(ms)) / (high - low), 1)

    dots: list[Dot] = []
    front: list[str] = []
    least = math.inf
    best = shape.best.config if shape is not None and shape.best is not None else None
    for number, trial in enumerate(trials):
        x = round(left + (right - left) * (number + 0.5) / len(trials), 1)
        title = plain(" ".join(f"{name}={value}" for name, value in trial.point.items()), 200)
        if trial.ms is not None and is_time(trial.ms):
            if trial.state == "timed" and trial.ms < least:
                front += [f"{x},{y(least)}"] if front else []
                least = trial.ms
                front.append(f"{x},{y(least)}")
            kind = "best" if trial.point == best else "timed" if trial.state == "timed" else "slow"
            dots.append(Dot(x, y(trial.ms), kind, f"{title}: {milliseconds(trial.ms)}"))
        elif trial.state in ("wrong", "failed", "lost"):
            dots.append(Dot(x, bottom + 22, "bad", f"{title}: {trial.state}: {plain(trial.reason, 200)}"))
    if front:
        front.append(f"{right},{y(least)}")
    steps = [math.exp(low + (high - low) * step / 4) for step in range(5)]
    ticks = tuple(Mark(y(step), milliseconds(step), "tick") for step in steps)
    return Scatter(
        tuple(dots), " ".join(front), ticks, None if captured is None else y(captured), bottom + 56,
        len(mine) - len(trials),
    )  # fmt: skip


def best_trials(trials: Iterable[Trial]) -> list[Trial]:
    """The fastest right ones, at most 12."""
    timed = [trial for trial in trials if trial.state == "timed" and is_time(trial.ms)]
    return sorted(timed, key=lambda trial: trial.ms or 0.0)[:12]


def _ticks(most: float, x: Callable[[float], float]) -> tuple[Mark, ...]:
    step = 10.0 ** math.floor(math.log10(most))
    for factor in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0):
        if most / (step * factor) <= 6:
            step *= factor
            break
    count = int(most / step)
    return tuple(Mark(x(step * n), milliseconds(step * n) if n else "0", "tick") for n in range(count + 1))
