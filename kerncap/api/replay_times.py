"""Times of a replay: how often it runs for them, and what is said of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from kerncap.errors import KerncapError
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, Engine
from kerncap.replay.repeated_runs import can_repeat, dirtied, follows_itself, repeat
from kerncap.replay.verdict import judge_timed
from kerncap.replay.verdict_words import Tolerance, Verdict
from kerncap.report.documents.replay import Timing

_DEVICE_RUNS = 20  # timed without being asked on a GPU, where a run is cheap
_WARMUP_RUNS = 3


def timed(
    engine: Engine, measured: Measured, which: str, runs: int | None, tolerance: Tolerance, verdict: Verdict
) -> tuple[Verdict, Timing | None]:
    """Timings, and the verdict on the last of the timed replays where they are replays in a row."""
    if not can_repeat(engine):
        times = timing(engine, measured, which, runs)
        if times is None or which != CANDIDATE:
            return verdict, times
        last = judge_timed(engine, measured, which, tolerance)
        last.notes[:0] = verdict.notes
        return (verdict, times) if last.passed else (last, None)
    emulated = engine.choice.emulator is not None  # the times of which say nothing of any GPU
    if runs is None:
        runs = 0 if emulated else _DEVICE_RUNS
    if runs <= 0:
        return verdict, None
    last, done = repeat(engine, measured, which, runs, tolerance)
    if not last.passed:
        if done.ended is None:
            last.summary = f"after {runs:,} replays in a row: {last.summary}"
        last.notes[:0] = verdict.notes
        return last, None
    times = _statistics(done.times_ms, engine.choice.clock)
    per_s = done.runs / done.seconds if done.seconds > 0 else None
    if emulated:
        return verdict, dataclasses.replace(times, runs=done.runs, replays_per_s=per_s)
    cached = _cached_times(engine, measured, which)
    if not follows_itself(measured):  # in a row, with no more than a restore between: warm all the same
        cached["warm_ms"] = times.median_ms
    return verdict, dataclasses.replace(times, runs=done.runs, replays_per_s=per_s, **cached)


def _cached_times(engine: Engine, measured: Measured, which: str) -> dict[str, Any]:
    """Warm and cold times; none if the launch can't be timed so."""
    try:
        ranges, again = dirtied(measured), follows_itself(measured)
        return vars(engine.timings(which, ranges, sorted(measured.written), again)).copy()
    except KerncapError:
        return {}


def timing(engine: Engine, measured: Measured, which: str, runs: int | None) -> Timing | None:
    """Median and spread of ``runs``; without a wish, only if a device makes it cheap."""
    on_device = engine.choice.on_device
    if runs is None:
        runs = _DEVICE_RUNS if on_device else 0
    if runs <= 0:
        return None
    try:
        times = engine.time(which, _WARMUP_RUNS if on_device else 1, runs, sorted(measured.written))
    except KerncapError:
        return None
    if not on_device:
        return _statistics(times, engine.choice.clock)
    found = _statistics(times, engine.choice.clock)
    return dataclasses.replace(found, **_cached_times(engine, measured, which))


def _statistics(times: list[float], clock: str) -> Timing:
    import statistics  # two milliseconds, for timed runs only

    times = sorted(times)
    tenth = len(times) // 10
    return Timing(len(times), statistics.median(times), times[tenth], times[-1 - tenth], clock)
