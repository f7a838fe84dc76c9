"""The original and a candidate, timed in turns for as long as a user will wait."""

from __future__ import annotations

import time

from kerncap.errors import KerncapError
from kerncap.replay import paired_times
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.repeated_runs import dirtied
from kerncap.report.documents.edit_and_compare import Times

_DEVICE_S = 0.06  # beside the first rounds
_FIRST_ROUNDS = 7
_DEVICE_ROUNDS = 150
_HOST_S = 1.0
_HOST_ROUNDS = (3, 7)
_LONGEST_S = 6.0  # a save is waited for


def time_in_turns(
    engine: Engine, measured: Measured, which: str, wanted: int | None, run_s: float
) -> tuple[Times | None, str]:
    """Times of ``wanted`` rounds (None: as many as are cheap, a run taking some ``run_s``); or why none."""
    on_device = engine.choice.on_device
    if wanted == 0:
        return None, ""
    names = list(dict.fromkeys((ORIGINAL, which)))
    rounds = wanted or _FIRST_ROUNDS
    if wanted is None and not on_device:
        if run_s * len(names) * _HOST_ROUNDS[0] > _LONGEST_S:
            return None, "not timed, because it would take long here; -n N times N rounds"
        low, high = _HOST_ROUNDS
        rounds = min(high, max(low, int(_HOST_S / (len(names) * max(run_s, 1e-3)))))
    try:
        found = _rounds(engine, measured, names, rounds)
        if wanted is None and on_device:
            begin = time.monotonic()
            more = _rounds(engine, measured, names, _FIRST_ROUNDS)
            each_s = max((time.monotonic() - begin) / (_FIRST_ROUNDS + 1), 1e-5)
            found = _joined(found, more)
            left = min(_DEVICE_ROUNDS, int(_DEVICE_S / each_s) - _FIRST_ROUNDS)
            if left > 0:
                found = _joined(found, _rounds(engine, measured, names, left))
    except KerncapError as error:
        return None, f"not timed: {str(error).splitlines()[0]}"
    return _as_times(found, which, engine.choice.clock), ""


def _rounds(engine: Engine, measured: Measured, names: list[str], rounds: int) -> dict[str, list[float]]:
    return engine.interleaved(names, rounds, sorted(measured.written), dirtied(measured))


def _joined(a: dict[str, list[float]], b: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: a[name] + b[name] for name in a}


def _as_times(found: dict[str, list[float]], which: str, clock: str) -> Times:
    base = found[ORIGINAL]
    original_ms = paired_times.median(base)
    if which == ORIGINAL:
        return Times(len(base), clock, original_ms)
    other = found[which]
    candidate_ms = paired_times.median(other)
    if min(*base, *other) <= 0:  # below the clock's resolution: there is no ratio of it
        return Times(len(base), clock, original_ms, candidate_ms)
    ratio = paired_times.ratio(base, other)
    return Times(len(base), clock, original_ms, candidate_ms, ratio.median, ratio.low, ratio.high)
