"""The self-check after a capture: one replay, judged as `verify` would, and the write set, which is kept."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kerncap.api.replay import save_checks
from kerncap.api.reproduced_faults import end_again
from kerncap.api.unseen_stores import add_unseen_stores
from kerncap.errors import BackendUnavailable, KerncapError
from kerncap.exit_status import ExitStatus
from kerncap.format import Reproducer, SelfCheck
from kerncap.format.checks_file import CheckResult
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.measure_write_set import measure
from kerncap.replay.outcome import NotHeld
from kerncap.replay.plain_run import OutOfTime
from kerncap.replay.pool import Pool
from kerncap.replay.verdict import judge
from kerncap.replay.verdict_words import badly_ended

Judged = tuple[CheckResult, str, Measured | None]  # the result, its reason, the write set that is kept


def self_check(
    path: Path, timeout_s: float = 30.0, target_python: str | None = None, pool: Pool | None = None
) -> tuple[CheckResult, str]:
    """Replay a new reproducer once and measure its write set; both are kept in it. Returns the reason too.

    ``target_python`` ran the captured program; it serves if kerncap's own has no torch and triton.
    ``pool``: what its worker is a fork of. Never raises for what the reproducer does.
    """
    try:
        with Reproducer.open(path) as reproducer:
            check, measured = _checked(
                lambda: Engine(reproducer, timeout_s=timeout_s, target_python=target_python, shared=pool),
                timeout_s,
                _judged,
            )
            save_checks(reproducer, measured, check)
    except KerncapError as error:
        return "fail", str(error)
    return check.result, check.reason


def self_check_together(paths: Sequence[Path], timeout_s: float = 30.0) -> tuple[CheckResult, str]:
    """Replay all ranks of a new collective launch once, together; each of them keeps the answer.

    Never raises for what the reproducers do.
    """
    from kerncap.replay.all_ranks_engine import Together  # it loads what no other verdict needs

    def judged(engine: Engine, measured: Measured) -> Judged:
        assert isinstance(engine, Together)
        verdict = judge(engine, measured)
        return verdict.answer.value, engine.named(verdict.summary), None

    try:
        with contextlib.ExitStack() as stack:
            ranks = [stack.enter_context(Reproducer.open(path)) for path in paths]
            check, _ = _checked(lambda: Together(ranks, timeout_s=timeout_s), timeout_s, judged)
            for reproducer in ranks:
                save_checks(reproducer, None, check)
    except KerncapError as error:
        return "fail", str(error)
    return check.result, check.reason


def _checked(
    start: Callable[[], Engine], timeout_s: float, judged: Callable[[Engine, Measured], Judged]
) -> tuple[SelfCheck, Measured | None]:
    deadline = time.monotonic() + timeout_s
    measured: Measured | None = None
    engine_name = ""
    result: CheckResult
    try:
        with start() as engine:
            engine_name = engine.choice.name
            result, reason, measured = _self_check(engine, deadline, judged)
    except NotHeld as launch:
        result, reason = "undecided", launch.why
    except BackendUnavailable as error:
        result, reason = "skipped", str(error)
    except KerncapError as error:
        result, reason = "undecided" if _is_open(error) else "fail", str(error)
    return SelfCheck(result=result, reason=reason[:4096], engine=engine_name), measured


def _is_open(error: KerncapError) -> bool:
    """Whether an error says no more than that the replay could not be carried out."""
    return error.exit_status == ExitStatus.UNDECIDED


def _judged(engine: Engine, measured: Measured) -> Judged:
    add_unseen_stores(engine.reproducer, engine, measured)
    verdict = judge(engine, measured)
    return verdict.answer.value, verdict.summary, measured


def _self_check(engine: Engine, deadline: float, judged: Callable[[Engine, Measured], Judged]) -> Judged:
    if engine.manifest.oracle.kind in ("fault", "timeout"):
        engine.timeout_s = max(1.0, deadline - time.monotonic())
        verdict = end_again(engine, ORIGINAL)
        return verdict.answer.value, verdict.summary, None
    engine.timeout_s = max(1.0, deadline - time.monotonic())
    outcome = engine.plain()
    if outcome.status == "timeout" and not outcome.doubt:
        return "undecided", "one replay takes longer than --self-check-timeout", None
    if not outcome.ok:
        ended = badly_ended(outcome)
        return ended.answer.value, ended.summary, None
    same = not any(engine.diff(region, "post").any() for region in range(len(engine.manifest.regions)))
    try:
        measured = measure(engine, ORIGINAL, deadline)
    except OutOfTime:
        if same:
            return "pass", "the replay agrees; the write set was not measured in the time given", None
        return "undecided", "the replay differs, and how far it may was not measured in the time given", None
    return judged(engine, measured)
