"""Ranges: replay the launches in order, judge each of them, make a reproducer of one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerncap import scratch
from kerncap.answer import Answer
from kerncap.api.replay import ReplayOptions, ReplayResult, check_numbers, outcome_result, replay, write_set
from kerncap.api.verify import VerifyOptions, VerifyResult, verify
from kerncap.errors import BackendUnavailable, ReplayError, UsageError
from kerncap.format import LaunchOfRange, LaunchRange
from kerncap.format.checks_file import CheckResult
from kerncap.format.range_writer import slice_launch
from kerncap.log import counted
from kerncap.replay import trust
from kerncap.replay.byte_effects import Measured, load
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.plain_run import EndedBadly, OutOfTime
from kerncap.replay.pool import Pool
from kerncap.replay.ranges.joined_memory import share
from kerncap.replay.ranges.launches_in_order import Chain, Step
from kerncap.replay.ranges.memory_between_launches import Timeline
from kerncap.replay.ranges.whole import WholeRange, by_image, choose_for_all
from kerncap.replay.verdict import judge
from kerncap.replay.verdict_words import Verdict, WithVerdict, badly_ended, fail, undecided
from kerncap.report.documents.ranges import RangeStep, ReplayRangeDocument
from kerncap.report.documents.replay import ViewDifference
from kerncap.whole_files import output_folder


@dataclass
class RangeResult(WithVerdict):
    """What a replay of a range came to: how each launch ran, up to the first that did not do as it did."""

    path: Path
    launches: int
    engine: str
    device: str
    steps: list[Step]
    verdict: Verdict
    notes: list[str] = field(default_factory=list)

    @property
    def first_differing(self) -> Step | None:
        """The launch that the verdict is about, if it is no pass."""
        last = self.steps[-1] if self.steps else None
        return last if last is not None and last.verdict is not None and not last.verdict.passed else None

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        first = self.first_differing
        return ReplayRangeDocument(
            result=self.answer.value,
            summary=self.verdict.summary,
            reasons=tuple(self.verdict.reasons),
            exact=self.verdict.exact,
            path=str(self.path),
            launches=self.launches,
            engine=self.engine,
            device=self.device,
            first_differing=first.number if first is not None else None,
            steps=tuple(map(_step, self.steps)),
            notes=(*self.notes, *self.verdict.notes),
        ).as_dict()


def _step(step: Step) -> RangeStep:
    verdict = step.verdict
    return RangeStep(
        launch=step.number,
        position=step.position,
        kernel=step.kernel,
        result=verdict.answer.value if verdict is not None else None,
        summary=verdict.summary if verdict is not None else "",
        changed_between_regions=step.changed_regions,
        changed_between_bytes=step.changed_bytes,
        compared_bytes=step.compared_bytes,
        poisoned_bytes=step.poisoned_bytes,
        views=tuple(map(ViewDifference.of, step.differences)),
    )


def replay_range(
    path: Path,
    options: ReplayOptions,
    until: int | None = None,
    pool: Pool | None = None,
    target_python: str | None = None,
    deadline: float | None = None,
) -> RangeResult:
    """Run the launches of a range in order in one worker, from the state before the first of them.

    Memory is not put back in between; only what something else changed between two launches is given the
    application's bytes. After each launch all memory is compared with the application's. ``until``: no launch
    after this one. ``target_python`` ran the captured program; what launches write is measured up to
    ``deadline``, a `time.monotonic` moment.
    Raises FormatError, UsageError, BackendUnavailable or ReplayError.
    """
    check_numbers(options.timeout_s, options.rtol, options.atol)
    refuse(options)
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Pool()) if pool is None else pool
        opened = stack.enter_context(opened_range(path, options))
        last = len(opened.launches) - 1 if until is None else opened.launch(until).number
        launches = opened.launches[: last + 1]
        for launch in launches:
            if launch.manifest.closure.not_held:
                return _not_run(path, len(launches), launch)
        manifests = [launch.manifest for launch in launches]
        choice = choose_for_all(manifests, options.engine, options.device, options.python, target_python)
        if (choice.launcher, choice.memory) == ("native", "cuda"):
            for launch in opened.launches:
                launch.manifest = by_image(launch.manifest)
        shared = share([launch.manifest for launch in opened.launches])
        timeline = Timeline(opened.launches, shared, stack.enter_context(scratch.folder("range")))
        judges = Judges(options, pool, target_python, deadline)
        measured = [judges.measured(launch) for launch in launches]
        whole = WholeRange(opened, shared, timeline)
        stack.callback(whole.close)
        whole.max_expanded = options.max_size
        engine = stack.enter_context(Engine(whole, timeout_s=options.timeout_s, choice=choice, shared=pool))
        steps = Chain(engine, whole, timeline, measured, judges.verdict).run(launches)
        verdict = _verdict(steps, len(launches))
        notes = [*outcome_result(engine, ORIGINAL, "", verdict).notes, *_notes(opened, launches, steps)]
        return RangeResult(
            path, len(launches), engine.choice.name, engine.facts.device, steps, verdict, notes
        )  # fmt: skip


def self_check_range(
    path: Path, timeout_s: float, target_python: str | None, pool: Pool | None
) -> tuple[CheckResult, str]:
    """Measure what each launch writes, then replay the range once. Returns the reason too.

    Raises KerncapError only for what is damaged.
    """
    deadline = time.monotonic() + timeout_s
    try:
        options = ReplayOptions(timeout_s=timeout_s)
        result = replay_range(path, options, pool=pool, target_python=target_python, deadline=deadline)
    except BackendUnavailable as error:
        return "skipped", str(error)
    except ReplayError as error:
        return "undecided", str(error)
    return result.answer.value, result.verdict.summary


@contextlib.contextmanager
def opened_range(path: Path, options: ReplayOptions) -> Iterator[LaunchRange]:
    """The range, each launch of which the user has agreed to run."""
    with LaunchRange.open(path) as opened:
        for launch in opened.launches:
            launch.max_expanded = options.max_size
            trust.require(launch, options.trust)
        yield opened


@contextlib.contextmanager
def one_launch(path: Path, number: int, options: ReplayOptions) -> Iterator[Path]:
    """A reproducer of one launch of a range, in a folder that goes again."""
    with LaunchRange.open(path) as opened:
        launch = opened.launch(number)
        launch.max_expanded = options.max_size
        trust.require(launch, options.trust)
        with scratch.folder("slice") as made:
            sliced = slice_launch(launch, made.path)
            trust.agree_to_derived(sliced)
            yield sliced


def replay_launch(path: Path, number: int, options: ReplayOptions) -> ReplayResult:
    """`replay` of one launch of a range, on the memory that it was captured with."""
    with one_launch(path, number, options) as sliced:
        result = replay(sliced, options)
    result.path = path
    result.notes.insert(0, f"launch {number} of the range, on its captured memory")
    return result


def verify_launch(path: Path, number: int, options: VerifyOptions, pool: Pool | None = None) -> VerifyResult:
    """`verify` of one launch of a range, or of a candidate for it, on its captured memory."""
    with one_launch(path, number, options) as sliced:
        result = verify(sliced, options, pool)
    result.path = path
    result.notes.insert(0, f"launch {number} of the range, on its captured memory")
    return result


def slice_range(path: Path, number: int, output: Path) -> Path:
    """Write a reproducer of one launch of a range into ``output``; its folder.

    It may run where the launch of the range may. Raises FormatError, UsageError.
    """
    with LaunchRange.open(path) as opened:
        launch = opened.launch(number)
        with output_folder(output):
            sliced = slice_launch(launch, output)
        if trust.is_remembered(launch):
            trust.remember_captured(sliced)
        return sliced


class Judges:
    """What is known of launches alone: what they write, and whether they do what they did."""

    def __init__(
        self, options: ReplayOptions, pool: Pool, target_python: str | None, deadline: float | None
    ) -> None:
        self._options = options
        self._pool = pool
        self._target_python = target_python
        self._deadline = deadline

    @contextlib.contextmanager
    def _engine(self, launch: LaunchOfRange) -> Iterator[Engine]:
        """An engine of the kind that runs the range."""
        asked = self._options
        choice = choose_for_all(
            [launch.manifest], asked.engine, asked.device, asked.python, self._target_python
        )
        with Engine(launch, timeout_s=asked.timeout_s, choice=choice, shared=self._pool) as engine:
            yield engine

    def measured(self, launch: LaunchOfRange) -> Measured | None:
        """What the launch writes, measured now if that was not kept; None if it does not end well alone."""
        measured = load(launch)
        if measured is not None:
            return measured
        try:
            with self._engine(launch) as engine:
                return write_set(launch, engine, self._deadline)
        except (EndedBadly, BackendUnavailable, OutOfTime):
            return None

    def verdict(self, launch: LaunchOfRange) -> Verdict:
        """On the launch alone, on the memory that it was captured with."""
        with self._engine(launch) as engine:
            try:
                return judge(engine, write_set(launch, engine), ORIGINAL, self._options.tolerance)
            except EndedBadly as error:
                return badly_ended(error.outcome)


def refuse(options: ReplayOptions) -> None:
    """Raises UsageError for an option that is for one launch."""
    for given, option in (
        (options.candidate, "--candidate"), (options.until_fail, "--until-fail"),
        (options.timed_runs, "-n"), (options.emulator, "--emulator"),
    ):  # fmt: skip
        if given is not None:
            raise UsageError(f"{option} is for one launch of a range: name it with --only K (or --launch K)")


def _not_run(path: Path, launches: int, launch: LaunchOfRange) -> RangeResult:
    """Of a range with a launch that no replay can run, so that none after it has its memory."""
    name, closure = launch.manifest.kernel.name, launch.manifest.closure
    why = f"launch {launch.number} ({name}): {closure.why_without_values}"
    verdict = undecided(f"{why}; --until and --only run the others", why)
    return RangeResult(path, launches, "none", "none", [], verdict)


def _verdict(steps: list[Step], wanted: int) -> Verdict:
    last = steps[-1].verdict
    assert last is not None
    if not last.passed:
        step = steps[-1]
        summary = f"launch {step.number} ({step.kernel}) is the first that differs: {last.summary}"
        if last.answer is Answer.UNDECIDED:
            summary = f"launch {step.number} ({step.kernel}) is undecided: {last.summary}"
            return undecided(summary, *last.reasons)
        return fail(summary, *last.reasons)
    compared = sum(step.compared_bytes for step in steps)
    if not compared:
        why = "no launch of the range changes anything that was captured"
        remedy = "launches that change their outputs would decide it"
        return undecided(f"nothing to compare: {why}; {remedy}", why)
    exact = all(step.verdict is not None and step.verdict.exact for step in steps)
    what = "bit by bit" if exact else "within the noise of launches that differ from run to run"
    return Verdict(Answer.YES, f"{wanted} launches in order, {what}", exact=exact, compared_bytes=compared)


def _notes(opened: LaunchRange, launches: tuple[LaunchOfRange, ...], steps: list[Step]) -> list[str]:
    notes = [
        f"launch {each.position} of the program is not in the range: {each.reason}"
        for each in opened.manifest.missing
        if launches[0].position < each.position < launches[-1].position
    ]
    for step in steps:
        if step.changed_regions:
            notes.append(
                f"changed between launches {step.number - 1} and {step.number} by something outside "
                f"the range: {counted(step.changed_regions, 'region')}, {step.changed_bytes:,} bytes; "
                "the replay makes the same change"
            )
        notes += step.verdict.notes if step.verdict is not None else []
    return notes


__all__ = [
    "RangeResult", "replay_launch", "replay_range", "self_check_range", "slice_range", "verify_launch",
]  # fmt: skip
