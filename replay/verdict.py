"""The verdict on one replay: everything compared with the oracle, no benefit of the doubt.

Bytes that the launch writes and does not read are poisoned first, so that stale contents can't pass for a
result; so are bytes that it leaves alone, so that a write there shows whatever it writes. Then all of memory
is compared: see `memory_comparison`.
"""

from __future__ import annotations

from kerncap.answer import Answer
from kerncap.replay import in_place, printed_text
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.memory_comparison import Comparison
from kerncap.replay.noise_floor import Noise
from kerncap.replay.poisoned_launch import SEED_A, SEED_B, launch_poisoned
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.verdict_words import BY_DTYPE, Tolerance, Verdict, badly_ended, fail, mismatch

_SURE = 3  # runs


def run_poisoned(engine: Engine, measured: Measured, which: str, seed: int) -> Verdict | None:
    """Restore, poison what is not read, launch; a verdict if that does not end well.

    Then `stray_writes.settle`, before anything is compared.
    """
    outcome = launch_poisoned(engine, measured, which, seed)
    return None if outcome.ok else badly_ended(outcome)


def judge(
    engine: Engine, measured: Measured, which: str = ORIGINAL, tolerance: Tolerance = BY_DTYPE
) -> Verdict:
    """Replay ``which`` once under poison and compare all of memory with the oracle."""
    verdict = _judged(engine, measured, which, tolerance)
    if verdict.answer is Answer.NO and _bears_no_poison(engine, measured, tolerance):
        verdict = _judged(engine, measured, which, tolerance)
        verdict.notes.append(
            "nothing was poisoned: which bytes the captured kernel reads depends on its schedule"
        )
    return verdict if engine.peers is None else engine.peers.of_one_rank(verdict, which)


def _bears_no_poison(engine: Engine, measured: Measured, tolerance: Tolerance) -> bool:
    """Whether the captured kernel gives the application's result, but not under poison.

    Programs that wait for each other's words read them or not, as they happen to run, also when that was
    measured. ``measured`` says from now on that all that is written is read.
    """
    bare = measured.all_in_place()
    if bare == measured or _judged(engine, measured, ORIGINAL, tolerance).answer is not Answer.NO:
        return False
    if measured.noise or not _changes_anything(engine):  # a race; a result that was there before
        return False
    if not all(_judged(engine, bare, ORIGINAL, tolerance).passed for _ in range(_SURE)):
        return False
    measured.also_input, measured.untouched, measured.ran = bare.also_input, bare.untouched, None
    return True


def _judged(engine: Engine, measured: Measured, which: str, tolerance: Tolerance) -> Verdict:
    ended = run_poisoned(engine, measured, which, SEED_A)
    if ended is not None:
        return ended
    verdict = _compared(engine, measured, which, tolerance)
    if verdict.passed and not measured.written_bytes:
        return printed_text.judge(engine, which)
    if verdict.passed and not verdict.poisoned_bytes and not _changes_anything(engine):
        verdict.notes.append(
            "the launch leaves every byte as it was: its stores are known from its code or other contents"
        )
    if verdict.passed and which == CANDIDATE:
        verdict = in_place.judge(engine, measured, verdict, tolerance)
    if verdict.passed and engine.side_inputs.prints:
        verdict = printed_text.judge_too(engine, which, verdict)
    return verdict


def _changes_anything(engine: Engine) -> bool:
    """Whether any byte is another one after the launch, in the application."""
    return any(map(engine.reproducer.chunks_changed, range(len(engine.manifest.regions))))


def judge_again(
    engine: Engine, measured: Measured, which: str = CANDIDATE, tolerance: Tolerance = BY_DTYPE
) -> Verdict:
    """One more run on the same contents, under other poison: for what does its work the first time only."""
    ended = run_poisoned(engine, measured, which, SEED_B)
    if ended is not None:
        return ended
    return _compared(engine, measured, which, tolerance, SEED_B)


def judge_timed(
    engine: Engine, measured: Measured, which: str = CANDIDATE, tolerance: Tolerance = BY_DTYPE
) -> Verdict:
    """The verdict on memory as the last of several timed runs left it, and on one more run, under poison.

    For what works while it is judged, and not while it is timed, or only so often.
    """
    wanted = [
        (v, *view_tolerance(view.dtype, 0.0, tolerance.rtol, tolerance.atol))
        for v, view in enumerate(engine.manifest.views)
        if view.region in measured.written
    ]
    noise: Noise = measured.noise or Noise()
    found = [s for s in engine.compare(wanted, "post") if s.outside and s.view not in noise.views]
    if found:
        reasons = [f"after timed runs: {mismatch(stats)}" for stats in found]
        return fail(reasons[0], *reasons)
    again = judge_again(engine, measured, which, tolerance)
    if not again.passed:
        again.reasons = [f"after timed runs: {reason}" for reason in again.reasons]
        again.summary = again.reasons[0]
    return again


def judge_memory(
    engine: Engine, measured: Measured, which: str = ORIGINAL, tolerance: Tolerance = BY_DTYPE
) -> Verdict:
    """The verdict on memory as a run under poison (of `SEED_A`) left it."""
    return _compared(engine, measured, which, tolerance)


def _compared(
    engine: Engine, measured: Measured, which: str, tolerance: Tolerance, seed: int = SEED_A
) -> Verdict:
    def original() -> Verdict:
        return judge(engine, measured, ORIGINAL, tolerance)

    return Comparison(engine, measured, which, tolerance, seed, original).judge()
