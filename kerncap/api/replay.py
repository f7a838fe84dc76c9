"""Replay: run a reproducer's launch by itself and say whether it does what it did in the application."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerncap.answer import Answer
from kerncap.api.candidate_file import Kept, kept, load_as_asked, refuse_inside
from kerncap.api.candidate_settings import described
from kerncap.api.replay_times import timed
from kerncap.api.reproduced_faults import end_again
from kerncap.api.unseen_stores import add_unseen_stores
from kerncap.errors import UsageError
from kerncap.format import Checks, Reproducer
from kerncap.replay import trust
from kerncap.replay.byte_effects import Measured, load
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.measure_write_set import measure
from kerncap.replay.memory_comparison import differs_from_capture
from kerncap.replay.outcome import CandidateError, NotHeld
from kerncap.replay.plain_run import EndedBadly
from kerncap.replay.pool import Asked, Pool
from kerncap.replay.repeated_runs import can_repeat, until_differs
from kerncap.replay.stray_writes import stray_notes
from kerncap.replay.verdict import judge
from kerncap.replay.verdict_words import Tolerance, Verdict, WithVerdict, badly_ended, fail, undecided
from kerncap.report.documents.replay import Placement, ReplayDocument, Timing, ViewDifference
from kerncap.time_limits import LAUNCH_S

_LONGEST_S = 1e6  # of one launch


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What replay and verify share. ``timeout_s`` is the limit of one launch."""

    engine: str = "auto"
    device: str = "auto"
    python: str | None = None
    emulator: Path | None = None  # a folder whose `run` starts an emulated AMD GPU
    candidate: Path | None = None
    timeout_s: float = LAUNCH_S
    rtol: float | None = None
    atol: float | None = None
    trust: bool = False
    max_size: int | None = None  # bytes that the captured memory may take, written out
    timed_runs: int | None = None
    until_fail: int | None = None
    hostile: bool = False

    @property
    def torch_free(self) -> bool:
        """Whether the driver and numpy do all that is asked of a Triton launch."""
        return not self.hostile and (self.candidate is None or self.candidate.suffix == ".py")

    @property
    def tolerance(self) -> Tolerance:
        return Tolerance(self.rtol, self.atol)


@dataclass
class ReplayResult(WithVerdict):
    """A verdict and where it was reached; ``judged_by`` names what it was compared with.

    ``relocated`` are those of the ``regions`` that could not be placed at their captured addresses.
    """

    path: Path
    kernel: str
    engine: str
    device: str
    triton: str
    judged_by: str
    verdict: Verdict
    driver: str = ""  # the CUDA version of the driver, or ROCr's, of a native launch
    regions: int = 0
    relocated: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    timing: Timing | None = None
    runs: int = 1
    different: int | None = None  # of the runs, with --until-fail
    memory: str = ""  # "cuda", "hip" or "host"

    @property
    def software(self) -> str:
        """What ran it, with its version."""
        if not self.driver:
            return f"Triton {self.triton}"
        return f"ROCr {self.driver}" if self.memory == "hip" else f"CUDA driver {self.driver}"

    def document(self) -> ReplayDocument:
        """The document of ``--json``."""
        verdict = self.verdict
        return ReplayDocument(
            result=verdict.answer.value,
            reasons=tuple(verdict.reasons),
            summary=verdict.summary,
            exact=verdict.exact,
            path=str(self.path),
            kernel=self.kernel,
            engine=self.engine,
            device=self.device,
            triton=self.triton,
            driver=self.driver,
            judged_by=self.judged_by,
            compared_bytes=verdict.compared_bytes,
            poisoned_bytes=verdict.poisoned_bytes,
            placement=Placement(honoured=self.regions - len(self.relocated), relocated=tuple(self.relocated)),
            notes=(*self.notes, *verdict.notes),
            views=tuple(map(ViewDifference.of, verdict.views)),
            runs=self.runs,
            different=self.different,
            timing=self.timing,
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return self.document().as_dict()


def replay(path: Path, options: ReplayOptions = ReplayOptions(), pool: Pool | None = None) -> ReplayResult:
    """Run the launch, or a candidate for it, and compare with the application's own result.

    ``pool`` as for `verify`. Raises FormatError, UsageError, BackendUnavailable or ReplayError; a wrong
    result is no exception.
    """
    try:
        with opened(path, options, pool, options.torch_free) as (reproducer, engine, candidate):
            if candidate is None:
                return _replayed(reproducer, engine, options)
            result = _replayed(reproducer, engine, dataclasses.replace(options, candidate=candidate.path))
            result.verdict = candidate.close(result.verdict)
            return result
    except NotHeld as needs:
        return not_run(needs)


def _replayed(reproducer: Reproducer, engine: Engine, options: ReplayOptions) -> ReplayResult:
    which = CANDIDATE if options.candidate else ORIGINAL
    if (refused := load_candidate(engine, options.candidate)) is not None:
        return outcome_result(engine, which, "whether it loads", refused)
    if reproducer.manifest.oracle.kind in ("fault", "timeout"):
        return outcome_result(engine, which, "the captured end", end_again(engine, which))
    if without_values(engine):
        return outcome_result(engine, which, "whether it ends", runs_at_all(engine, which))
    try:
        measured = write_set(reproducer, engine)
    except EndedBadly as error:
        return outcome_result(engine, which, "whether it ends", badly_ended(error.outcome))
    verdict, runs, different = _judge_repeatedly(engine, measured, which, options)
    times = None
    if verdict.passed:
        verdict, times = timed(engine, measured, which, options.timed_runs, options.tolerance, verdict)
    verdict.notes += stray_notes(engine.manifest, measured)
    result = outcome_result(engine, which, "the application's result", verdict)
    result.runs, result.different, result.timing = runs, different, times
    return result


@contextmanager
def opened(
    path: Path, options: ReplayOptions, pool: Pool | None = None, torch_free: bool = False
) -> Iterator[tuple[Reproducer, Engine, Kept | None]]:
    """The reproducer, trusted, an engine for it, out of ``pool``, if there is one, and the candidate's copy.

    ``torch_free``: see `choose_engine.without_torch`.
    """
    if options.candidate is not None and not options.candidate.is_file():
        raise UsageError(f"{options.candidate}: no such candidate file")
    if options.candidate is not None:
        refuse_inside("--candidate", options.candidate)
    check_numbers(options.timeout_s, options.rtol, options.atol)
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Pool()) if pool is None else pool
        with contextlib.ExitStack() as until_taken:
            reproducer = until_taken.enter_context(Reproducer.open(path))
            reproducer.max_expanded = options.max_size
            trust.require(reproducer, options.trust)
            until_taken.pop_all()
        asked = Asked(
            engine=options.engine, device=options.device, python=options.python, emulator=options.emulator,
            timeout_s=options.timeout_s, hostile=options.hostile,
            torch_free=torch_free and reproducer.manifest.launch.mode != "native",
        )  # fmt: skip
        candidate = stack.enter_context(kept(options.candidate, options.hostile))
        file = None if candidate is None else candidate.path
        with pool.opened(reproducer, asked, file) as (reproducer, engine):
            yield reproducer, engine, candidate


def not_run(launch: NotHeld) -> ReplayResult:
    """The result on a launch that needs what no reproducer can hold."""
    first, rest = launch.needs[0], len(launch.needs) - 1
    more = f" and {rest} more" if rest else ""
    verdict = undecided(
        f"it needs {first}{more}, which no reproducer can hold; only its application can run it",
        *launch.needs,
    )
    return ReplayResult(launch.path, launch.kernel, "none", "none", "", "what it needs", verdict)


def check_numbers(timeout_s: float, rtol: float | None, atol: float | None) -> None:
    """Raises UsageError for a limit (in seconds) or a tolerance that is not a finite number."""
    for name, value in (("--rtol", rtol), ("--atol", atol)):
        if value is not None and not 0 <= value < math.inf:
            raise UsageError(f"{name} {value:g}: expected a number that is not negative")
    if not 0 < timeout_s <= _LONGEST_S:
        raise UsageError(
            f"--timeout {timeout_s:g}: expected a positive number of seconds, at most {_LONGEST_S:g}"
        )


def load_candidate(engine: Engine, file: Path | None) -> Verdict | None:
    """Load a candidate, if there is one; the failed verdict if it can't be run at all."""
    try:
        if file is not None:
            load_as_asked(engine, file)
    except CandidateError as error:
        verdict = fail(str(error))
        verdict.notes += [error.detail] if error.detail else []
        return verdict
    return None


def write_set(reproducer: Reproducer, engine: Engine, deadline: float | None = None) -> Measured:
    """The kept write set, or a new one, which is kept if the folder can be written.

    ``deadline``: a `time.monotonic` moment, after which a new one raises OutOfTime.
    """
    measured = load(reproducer)
    if measured is None:
        measured = measure(engine, ORIGINAL, deadline)
        add_unseen_stores(reproducer, engine, measured)
        save_checks(reproducer, measured, None)
    return measured


def save_checks(reproducer: Reproducer, measured: Measured | None, self_check: Any) -> None:
    """Put what was found out into the reproducer; a folder that can't be written keeps less."""
    try:
        before = reproducer.checks()
        stored = measured.as_write_set().save(reproducer) if measured is not None else None
        reproducer.write_checks(
            Checks(
                manifest_sha256=reproducer.manifest_sha256,
                self_check=self_check or (before.self_check if before else None),
                write_set=stored or (before.write_set if before else None),
            )
        )
    except OSError:
        pass


def without_values(engine: Engine) -> bool:
    """Whether there is no oracle: the capture left all contents out, or nobody knows the result."""
    return bool(engine.manifest.why_no_result)


def runs_at_all(engine: Engine, which: str) -> Verdict:
    """The verdict if there are no values: that, or how the launch ended badly."""
    engine.restore()
    outcome = engine.launch(which)
    if not outcome.ok:
        return badly_ended(outcome)
    if not engine.manifest.closure.without_values:
        why = "no result was recorded: the launch ran to its end"
        return undecided(f"nothing to compare: {why}; verify compares several runs, or with --reference", why)
    why = "the contents were left out at capture (--no-values): the launch ran to its end, on zeros"
    return undecided(f"nothing to compare: {why}; a capture with them would decide it", why)


def outcome_result(engine: Engine, which: str, judged_by: str, verdict: Verdict) -> ReplayResult:
    """A result with everything about the engine that a reader must know."""
    manifest, facts = engine.manifest, engine.facts
    if which != ORIGINAL and engine.peers is not None:
        verdict = engine.peers.of_one_rank(verdict, which)
    notes = [*differs_from_capture(engine), *facts.notes]
    if facts.relocated:
        regions = ", ".join(map(str, facts.relocated))
        moved = (
            "arguments were moved, pointers in memory not"
            if facts.pointers is None
            else f"{facts.pointers:,} words that point there were changed, in the parameters and in memory"
        )
        notes.append(f"relocated: the captured address of region {regions} is in use here; {moved}")
    if manifest.oracle.kind == "suspect":
        why = manifest.oracle.detail or manifest.oracle.condition or "no reason kept"
        notes.append(f"the oracle is suspect ({why}): reproduced does not mean correct")
    asked = engine.config(which) if which == CANDIDATE and engine.is_loaded(which) else None
    if asked is not None:
        notes.append(f"the candidate's file asks for another launch: {described(asked)}")
    return ReplayResult(
        engine.reproducer.path, manifest.kernel.name, engine.choice.name, facts.device, facts.triton,
        judged_by, verdict, facts.driver, len(manifest.regions), facts.relocated, notes,
        memory=engine.choice.memory,
    )  # fmt: skip


def _judge_repeatedly(
    engine: Engine, measured: Measured, which: str, options: ReplayOptions
) -> tuple[Verdict, int, int | None]:
    """The verdict, how many runs it rests on, and (with --until-fail) how many of them differed."""
    wanted = options.until_fail or 1
    runs = 1
    verdict = judge(engine, measured, which, options.tolerance)
    if verdict.passed and verdict.exact and wanted > 1 and can_repeat(engine):
        notes = verdict.notes
        verdict, done = until_differs(engine, measured, which, wanted - 1, options.tolerance)
        verdict.notes[:0] = notes
        if done.ended is not None:
            return verdict, runs, None
        if not verdict.passed or not done.different:
            return verdict, runs + done.runs, done.different
        runs += done.runs  # it differs within its own noise: the rest is judged one by one
    while verdict.passed and runs < wanted:
        verdict = judge(engine, measured, which, options.tolerance)
        runs += 1
    if options.until_fail is None:
        return verdict, runs, None
    if verdict.answer is Answer.UNDECIDED and verdict.compared_bytes:  # asked was whether runs disagree
        verdict = dataclasses.replace(verdict, answer=Answer.NO, summary=verdict.reasons[0])
    different = None if verdict.answer is Answer.UNDECIDED else int(not verdict.passed)
    return verdict, runs, different
