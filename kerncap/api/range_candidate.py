"""`verify RANGE --candidate`: a file that replaces several launches of a range by one or more."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kerncap import scratch
from kerncap.answer import Answer
from kerncap.api.candidate_file import Kept, kept, refuse_inside
from kerncap.api.range_replay import Judges, opened_range, refuse
from kerncap.api.replay import check_numbers
from kerncap.api.verify.stage_order import judged
from kerncap.api.verify.verify_result import DEFAULT_STAGES, STAGES, Case, VerifyOptions, VerifyResult
from kerncap.capture import native_arguments
from kerncap.capture.source.native import definitions
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import LaunchOfRange, LaunchRange
from kerncap.format.kernel_names import KernelName
from kerncap.format.schema import Manifest
from kerncap.log import one_line
from kerncap.replay.byte_effects import Measured
from kerncap.replay.candidates.build import MODULES
from kerncap.replay.choose_engine import Choice
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.pool import Pool
from kerncap.replay.ranges.as_one import MeasuredAsOne, RangeAsOne, RangeEngine, measured_as_one
from kerncap.replay.ranges.candidate import RangeCandidate, argument_of, read
from kerncap.replay.ranges.joined_memory import share
from kerncap.replay.ranges.memory_between_launches import Timeline
from kerncap.replay.ranges.whole import by_image, choose_for_all
from kerncap.replay.verdict import judge
from kerncap.replay.verdict_words import Verdict, undecided
from kerncap.replay.worker.common import bitmap
from kerncap.replay.write_set_units import extent

_OF_SOURCES = (("native", "cuda"), ("native", "hip"))  # launchers, and the memory that they use
_OF_MODULES = (*_OF_SOURCES, ("interpreter", "host"))
_SOURCES_NEED = "on a GPU"
_MODULES_NEED = "on a GPU, or in Triton's interpreter"
_OF_SOURCE = ("smoke", "oracle", "determinism")  # the others take one kernel's launch
_OF_MODULE = (*_OF_SOURCE, "sanitizer")


def verify_candidate(
    path: Path, options: VerifyOptions, intermediates: Sequence[str] = (), pool: Pool | None = None
) -> VerifyResult:
    """Judge ``options.candidate`` by what the launches that it replaces left in the application's memory.

    ``intermediates``: arguments such as ``0.y`` whose memory nothing needs after these launches, so that the
    candidate need not write it. Raises FormatError, UsageError, BackendUnavailable or ReplayError.
    """
    assert options.candidate is not None
    options = replace(options, stages=_stages(options))
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Pool()) if pool is None else pool
        copy = stack.enter_context(kept_candidate(options))
        assert copy is not None
        options = replace(options, candidate=copy.path)
        found = stack.enter_context(opened_candidate(path, options, intermediates, pool))
        if isinstance(found, VerifyResult):
            return found
        folder = Path(stack.enter_context(scratch.temporary("verify")))
        case = Case(found.whole, found.engine, CANDIDATE, options, folder, found.measured)
        result = _judged(case, found.measured)
        said = [words for stage in result.stages for words in (stage.reasons, stage.shown, stage.not_shown)]
        result.verdict = copy.close(result.verdict, *said)
        result.path, result.kernel = path, found.whole.kernels
        result.notes[:0] = found.notes
        return result


@dataclass(frozen=True)
class OpenedCandidate:
    """A candidate for launches of a range, with an engine that has those; nothing of it is loaded yet."""

    whole: RangeAsOne
    candidate: RangeCandidate
    engine: RangeEngine
    measured: MeasuredAsOne
    notes: list[str]


@contextlib.contextmanager
def opened_candidate(
    path: Path, options: VerifyOptions, intermediates: Sequence[str], pool: Pool
) -> Iterator[OpenedCandidate | VerifyResult]:
    """``options.candidate`` for the range at ``path``; a result, if what it replaces can't be a judge."""
    assert options.candidate is not None
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(opened_range(path, options))
        candidate = read(options.candidate, len(opened.launches))
        replaced = opened.launches[candidate.first : candidate.last + 1]
        choice = _choice(opened, candidate, options)
        shared = share([launch.manifest for launch in opened.launches])
        timeline = Timeline(opened.launches, shared, stack.enter_context(scratch.folder("range")))
        kept_before = stack.enter_context(scratch.folder("before"))
        whole = RangeAsOne(opened, shared, timeline, candidate, kept_before)
        stack.callback(whole.close)
        whole.max_expanded = options.max_size
        judges = Judges(options, pool, None, None)
        known = [judges.measured(launch) for launch in replaced]
        problem = _why_not(whole, replaced, known)
        if problem:
            yield _not_judged(path, whole, choice, problem)
            return
        measured = measured_as_one(whole, [each for each in known if each is not None])
        notes = [_replaces(candidate, replaced), *_set_dead(whole, measured, intermediates)]
        engine = RangeEngine(
            whole, candidate, functools.partial(declared, candidate.text or b""), measured.dead, choice,
            options.timeout_s, options.hostile, pool,
        )  # fmt: skip
        stack.enter_context(engine)
        yield OpenedCandidate(whole, candidate, engine, measured, notes)


def kept_candidate(options: VerifyOptions) -> contextlib.AbstractContextManager[Kept | None]:
    """The candidate's file as it is now."""
    assert options.candidate is not None
    check_numbers(options.timeout_s, options.rtol, options.atol)
    refuse(replace(options, candidate=None))
    if not options.candidate.is_file():
        raise UsageError(f"{options.candidate}: no such candidate file")
    refuse_inside("--candidate", options.candidate)
    return kept(options.candidate, options.hostile)


def _stages(options: VerifyOptions) -> tuple[str, ...]:
    if options.stages == DEFAULT_STAGES:
        return DEFAULT_STAGES
    assert options.candidate is not None
    stages = _OF_MODULE if options.candidate.suffix in MODULES else _OF_SOURCE
    if options.hostile and options.stages == STAGES:
        return stages
    if other := [name for name in options.stages if name not in stages]:
        raise UsageError(
            f"--stages {','.join(other)}: for one launch; {options.candidate.name} for several has "
            f"{', '.join(stages)}"
        )
    return options.stages


def _choice(opened: LaunchRange, candidate: RangeCandidate, options: VerifyOptions) -> Choice:
    """The engine; on a GPU one that launches images: no Python of a candidate runs where it is judged."""
    manifests = [launch.manifest for launch in opened.launches]
    choice = choose_for_all(manifests, options.engine, options.device, options.python, None)
    where = choice.launcher, choice.memory
    if where[0] == "native":
        for launch in opened.launches:
            launch.manifest = by_image(launch.manifest)
    is_source = candidate.text is not None
    if where not in (_OF_SOURCES if is_source else _OF_MODULES):
        needed = _SOURCES_NEED if is_source else _MODULES_NEED
        remedy = "" if is_source else "; use --engine interpreter"
        raise BackendUnavailable(
            f"a {'source' if is_source else 'module'} for several launches",
            f"it is judged with the captured images {needed}, and this is the {choice.name} engine in "
            f"{choice.memory} memory{remedy}",
        )
    return choice


def declared(text: bytes, kernel: str) -> list[tuple[str, str]] | None:
    """(name, type) of the parameters of a kernel, as its source has them; None if it has them elsewhere."""
    *scopes, base = kernel.split("::")
    found = definitions.definitions(text.decode(errors="replace"))
    pairs = {each.parameter_pairs for each in definitions.matching(KernelName(base, tuple(scopes)), found)}
    listed = pairs.pop() if len(pairs) == 1 else None
    return None if listed is None else [(name, native_arguments.passed_as(type_)) for type_, name in listed]


def _why_not(whole: RangeAsOne, replaced: Sequence[LaunchOfRange], known: Sequence[Measured | None]) -> str:
    """Why what the launches did can't be a judge; empty if it can."""
    for launch, measured in zip(replaced, known, strict=True):
        name = f"launch {launch.number} ({launch.manifest.kernel.name})"
        if launch.manifest.closure.without_values:
            return f"{name}: {launch.manifest.closure.why_without_values}"
        if launch.manifest.oracle.kind != "trusted":
            return f"{name} has no result to trust ({launch.manifest.oracle.kind})"
        if measured is None:
            return f"what {name} writes could not be measured, because it fails when replayed"
    if whole.between:
        number = whole.between[0]
        return (
            f"something outside the range changes memory between launches {number - 1} and {number}: "
            "a candidate can't replace launches on both sides of it"
        )
    return ""


def _not_judged(path: Path, whole: RangeAsOne, choice: Choice, why: str) -> VerifyResult:
    return VerifyResult(
        path, whole.kernels, "none", "none", "", "the application's result",
        undecided(f"{why}; another range, or other launches of it, would decide it", why),
        memory=choice.memory,
    )  # fmt: skip


def _replaces(candidate: RangeCandidate, replaced: Sequence[LaunchOfRange]) -> str:
    names = ", ".join(f"{launch.number} ({launch.manifest.kernel.name})" for launch in replaced)
    made = ", ".join(launch.kernel for launch in candidate.launches)
    return one_line(f"{made} in place of launches {names}")


def _set_dead(whole: RangeAsOne, measured: MeasuredAsOne, named: Sequence[str]) -> Iterator[str]:
    """Take what was named out of the results; a note on each. Raises UsageError for what is a result."""
    captured = [launch.manifest for launch in whole.in_range[: whole.own]]
    for text in named:
        where = f"--intermediate {text}"
        said = re.fullmatch(r"(\d{1,4})\.(\w{1,256})", text)
        if said is None:
            raise UsageError(f"{where}: expected K.NAME, an argument of launch K")
        value = argument_of(where, int(said[1]), said[2], captured).value
        view = getattr(value, "view", None)
        if view is None:
            raise UsageError(f"{where}: not a tensor")
        region = whole.manifest.views[view].region
        size = measured.sizes[region]
        span = bitmap.span(size, *extent(whole.manifest.views[view]))
        written = measured.written.get(region, bitmap.empty(size)) & span
        if not written.any():
            raise UsageError(f"{where}: the replaced launches write nothing there")
        if unread := bitmap.count(written & ~measured.read_inside.get(region, bitmap.empty(size))):
            raise UsageError(
                f"{where}: no replaced launch reads {unread:,} of the bytes that are written there, so "
                "they are a result"
            )
        measured.dead[region] = measured.dead.get(region, bitmap.empty(size)) | written
        yield f"not compared: {bitmap.count(written):,} bytes of {text} (--intermediate)"
    if measured.dead and not measured.written_bytes:
        raise UsageError(f"--intermediate {' '.join(named)}: no result is left to compare")


def _judged(case: Case, measured: MeasuredAsOne) -> VerifyResult:
    """The result if all that the replaced launches left counts as one.

    Where that is a no, what they read again of it may be no result: then they decide it, or it is open.
    """
    wanted = [name for name in case.options.stages if name != "smoke"] + ["proof"] * case.options.prove
    result = judged(case, wanted)
    if result.answer is not Answer.NO or result.stages[0].result != "pass":
        return result
    inside = {region: bits for region, bits in measured.perhaps_dead().items() if bits.any()}
    if inside:
        lenient = replace(measured, dead={**measured.dead, **inside}, noise=None, ran=None)
        assert isinstance(case.engine, RangeEngine)
        case.engine.dead = lenient.dead
        names = _read_again(case.engine.manifest, measured, result.verdict)
        only = (
            judged(replace(case, measured=lenient, verdict=None), wanted) if lenient.written_bytes else None
        )
        case.engine.dead = measured.dead
        if only is not None and only.answer is Answer.NO:
            result = only
        elif names:
            return _open(result, names)
    own = judge(case.engine, measured, ORIGINAL)
    if not own.passed:
        why = f"the captured launches, in a row, don't give the application's result here: {own.summary}"
        said = f"{why}; kerncap verify without --candidate says at which launch"
        result.verdict = undecided(said, why, *result.verdict.reasons)
    return result


def _open(result: VerifyResult, names: Sequence[str]) -> VerifyResult:
    """Only memory that the replaced launches read again is not as they left it."""
    why = f"whether anything after these launches needs {', '.join(names)} is not known"
    remedy = " ".join(f"--intermediate {name}" for name in names)
    notes, reasons = result.verdict.notes, result.verdict.reasons
    result.verdict = undecided(
        f"{why}, and the candidate leaves something else there; {remedy} says that nothing does",
        why,
        *reasons,
    )
    result.verdict.notes = notes
    for stage in result.stages:
        stage.result = "undecided" if stage.result == "fail" else stage.result
    return result


def _read_again(manifest: Manifest, measured: MeasuredAsOne, found: Verdict) -> list[str]:
    """The tensors that a verdict names, and whose written bytes are all read again; each memory once."""
    names: dict[tuple[int, tuple[int, int]], str] = {}
    for view in manifest.views:
        bits = bitmap.span(measured.sizes[view.region], *extent(view))
        left = measured.results().get(view.region, ~bits) & bits
        is_named = any(re.search(rf"(^|: |of ){re.escape(view.name)}(:| were)", one) for one in found.reasons)
        if is_named and left.any() and not (left & ~measured.perhaps_dead()[view.region]).any():
            names.setdefault((view.region, extent(view)), view.name)
    return list(names.values())
