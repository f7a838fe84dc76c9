"""Many replays in a row in one worker, of native launches: only what a run dirties is restored.

Each starts from the pre-state with all that the launch writes and does not read poisoned, so that what an
earlier replay left can't pass for a result of a later one.
"""

from __future__ import annotations

from kerncap.answer import Answer
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.outcome import Repeated
from kerncap.replay.poisoned_launch import SEED_A, poison
from kerncap.replay.verdict import judge_memory
from kerncap.replay.verdict_words import BY_DTYPE, Tolerance, Verdict, badly_ended
from kerncap.replay.worker.common import bitmap

_MOST_RANGES = 256  # of a region; beyond it the whole of it is copied
_POISONED, _EXPECTED = "poisoned", "expected under poison"

Range = tuple[int, int, int]  # region, start, stop


def can_repeat(engine: Engine) -> bool:
    """Whether this engine runs replays in a row."""
    return engine.choice.launcher == "native" and not engine.waits


def dirtied(measured: Measured) -> list[Range]:
    """What one launch writes, as ranges of whole pages to restore."""
    found: list[Range] = []
    for region, written in sorted(measured.written.items()):
        pages = written.pages()
        if len(pages) > _MOST_RANGES:
            pages = [(pages[0][0], pages[-1][1])]
        found += [(region, start, stop) for start, stop in pages]
    return found


def repeat(
    engine: Engine, measured: Measured, which: str, n: int, tolerance: Tolerance = BY_DTYPE
) -> tuple[Verdict, Repeated]:
    """``n`` replays, queued without waiting for each; the verdict on what the last one left."""
    engine.restore()
    poison(engine, measured, SEED_A)
    engine.snapshot(_POISONED)
    done = engine.repeat(which, n, _POISONED, dirtied(measured))
    if done.ended is not None:
        return badly_ended(done.ended), done
    engine.drop(_POISONED)
    return judge_memory(engine, measured, which, tolerance), done


def until_differs(
    engine: Engine, measured: Measured, which: str, n: int, tolerance: Tolerance = BY_DTYPE
) -> tuple[Verdict, Repeated]:
    """Replays until one differs from the oracle by a byte, at most ``n``; the verdict on that one.

    For a launch that was found to agree byte by byte. A rate of what differed is the first reason.
    """
    engine.restore("post")
    for region, size in enumerate(measured.sizes):
        idle = measured.idle(region)
        if idle.any():
            engine.fill(region, 0, size, SEED_A, idle)
    engine.snapshot(_EXPECTED)
    engine.restore()
    poison(engine, measured, SEED_A)
    engine.snapshot(_POISONED)
    done = engine.until(which, n, _POISONED, _EXPECTED)
    if done.ended is not None:
        return badly_ended(done.ended), done
    engine.drop(_POISONED)
    engine.drop(_EXPECTED)
    verdict = judge_memory(engine, measured, which, tolerance)
    if done.different:
        rate = (
            f"{done.different:,} of {done.runs:,} replays differ{' byte by byte' if verdict.passed else ''}, "
            f"the first is number {done.first + 1:,}"
        )
        if verdict.passed:
            verdict.notes.append(rate)
        else:
            # That runs disagree is the answer here, whatever can be said of one of them.
            verdict = Verdict(
                Answer.NO, rate, [rate, *verdict.reasons], verdict.notes, verdict.compared_bytes,
                verdict.poisoned_bytes, verdict.views,
            )  # fmt: skip
    return verdict, done


def follows_itself(measured: Measured) -> bool:
    """Whether a launch may run again on what it left: none of what it writes is also input."""
    return not any(bitmap.count(measured.in_place(region)) for region in measured.written)


def run_timed(engine: Engine, measured: Measured, which: str, rounds: int) -> list[float]:
    """Milliseconds of ``rounds`` launches, each on the restored memory, which is as the last one left it."""
    dirty = sorted(measured.written)
    engine.restore()
    if engine.choice.launcher == "native":  # which restores no more than what a launch dirties
        return engine.interleaved((which,), rounds, dirty, dirtied(measured))[which]
    return engine.time(which, 1, rounds, dirty)
