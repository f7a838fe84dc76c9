"""Compare: the captured image, the source as it is compiled here, and a candidate.

What a compiler made of a kernel then, and what another one makes of it now: each is judged against the
application's own result, all are timed in turns, and what differs in their code is reported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kerncap.answer import Answer, of_all
from kerncap.api.candidate_file import load_as_asked
from kerncap.api.replay import ReplayOptions, opened, outcome_result, runs_at_all, without_values, write_set
from kerncap.api.reproduced_faults import end_again
from kerncap.errors import BackendUnavailable, KerncapError, ReplayError, UsageError
from kerncap.exit_status import Bisect
from kerncap.format import Reproducer
from kerncap.replay.byte_effects import Measured
from kerncap.replay.candidates.disassemble import sass
from kerncap.replay.engine import CANDIDATE, CAPTURED, ORIGINAL, REBUILT, Engine
from kerncap.replay.outcome import CandidateError, Compiled
from kerncap.replay.paired_times import Ratio, median, ratio
from kerncap.replay.repeated_runs import dirtied
from kerncap.replay.stage_diff import compare_stage, text_of
from kerncap.replay.verdict import judge
from kerncap.replay.verdict_words import Verdict
from kerncap.report.documents import edit_and_compare as documents

WHICH = (CAPTURED, REBUILT, CANDIDATE)

_DEFAULTS = ReplayOptions()
_DEVICE_ROUNDS, _HOST_ROUNDS = 60, 5
_MOST_DIFF_LINES = 400
_TEXT_STAGES = ("ttir", "ttgir", "llir", "ptx")


@dataclass
class Variant:
    """One of those that are compared: judged, or with the ``problem`` that kept it from being run at all.

    ``ratio`` is its time by that of the first variant, in pairs.
    """

    name: documents.Which
    verdict: Verdict | None = None
    problem: str = ""
    detail: str = ""
    compiled: Compiled = field(default_factory=Compiled)
    times_ms: list[float] = field(default_factory=list)
    ratio: Ratio | None = None
    refused: bool = False  # the problem is the variant's own, not this machine's

    @property
    def passed(self) -> bool:
        return self.verdict is not None and self.verdict.passed

    @property
    def answer(self) -> Answer:
        """What could not be run was not judged; a candidate that does not build can't be right."""
        if self.verdict is None:
            return Answer.NO if self.name == CANDIDATE and self.refused else Answer.UNDECIDED
        return self.verdict.answer

    def document(self) -> documents.ComparedVariant:
        verdict = self.verdict or Verdict(Answer.UNDECIDED, "")
        facts = {name: getattr(self.compiled, name) for name in documents.CompiledFacts.__struct_fields__}
        return documents.ComparedVariant(
            name=self.name,
            result="untested" if self.verdict is None else verdict.answer.value,
            problem=self.problem,
            detail=self.detail,
            summary=verdict.summary,
            reasons=tuple(verdict.reasons),
            exact=verdict.exact,
            notes=tuple(verdict.notes),
            compiled=documents.CompiledFacts(**facts),
            times_ms=tuple(self.times_ms),
            median_ms=median(self.times_ms) if self.times_ms else None,
            ratio=self.ratio,
        )


@dataclass
class CompareResult:
    """Variants side by side, all compared with the first.

    ``slower`` names those that take more than ``max_ratio`` times as long as the first, beyond doubt.
    """

    path: Path
    kernel: str
    engine: str
    device: str
    triton: str
    python: str
    variants: list[Variant]
    differences: list[documents.Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    max_ratio: float | None = None

    @property
    def slower(self) -> list[str]:
        limit = self.max_ratio
        return [v.name for v in self.variants if limit is not None and v.ratio and v.ratio.low > limit]

    @property
    def untested(self) -> list[Variant]:
        """Those that could not be run at all."""
        return [variant for variant in self.variants if variant.verdict is None]

    @property
    def passed(self) -> bool:
        """Whether every variant was run, agrees with the oracle, and none is slower than it may be."""
        return self.answer is Answer.YES

    @property
    def answer(self) -> Answer:
        """No for a variant that is wrong, or slower than it may be; yes if all were run and agree."""
        return Answer.NO if self.slower else of_all(variant.answer for variant in self.variants)

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        return documents.CompareDocument(
            result=self.answer.value,
            path=str(self.path),
            kernel=self.kernel,
            engine=self.engine,
            device=self.device,
            triton=self.triton,
            python=self.python,
            variants=tuple(variant.document() for variant in self.variants),
            differences=tuple(self.differences),
            max_ratio=self.max_ratio,
            slower=tuple(self.slower),
            notes=tuple(self.notes),
            bisect_status=bisect_status(self),
        ).as_dict()


def bisect_status(outcome: CompareResult | KerncapError, strict: bool = False) -> int:
    """The exit status that `git bisect run` is to see.

    0 good; 1 bad: a wrong result, or slower than allowed; 125 can't be tested here: it does not build,
    something is missing, or it is undecided, as a hang is (bad if ``strict``); 128, which ends the bisection:
    the request or the reproducer itself is wrong, and would be with every revision.
    """
    if isinstance(outcome, CompareResult):
        if outcome.untested:
            return Bisect.UNTESTABLE
        left = Bisect.BAD if strict else Bisect.UNTESTABLE
        return {Answer.YES: Bisect.GOOD, Answer.NO: Bisect.BAD, Answer.UNDECIDED: left}[outcome.answer]
    is_missing = isinstance(outcome, BackendUnavailable | ReplayError)
    return Bisect.UNTESTABLE if is_missing else Bisect.STOP


def compare(
    path: Path,
    which: Sequence[str],
    options: ReplayOptions = _DEFAULTS,
    max_ratio: float | None = None,
    most_diff_lines: int = _MOST_DIFF_LINES,
) -> CompareResult:
    """Judge and time each of ``which`` (of `WHICH`), and say in what their compiled stages differ.

    ``options.timed_runs`` are rounds of times in turns. A variant that does not build is a result, with its
    reason. Raises FormatError, UsageError, BackendUnavailable or ReplayError if nothing can be compared.
    """
    _check(which, options, max_ratio)
    engine_name = _engine_name(path, which, options)
    with opened(path, dataclasses.replace(options, engine=engine_name)) as (reproducer, engine, candidate):
        if candidate is not None:
            options = dataclasses.replace(options, candidate=candidate.path)
        comparison = _Comparison(reproducer, engine, options)
        variants = [comparison.variant(cast("documents.Which", name)) for name in which]
        for variant in variants:
            if candidate is not None and variant.name == CANDIDATE:
                variant.problem, variant.detail = map(candidate.named, (variant.problem, variant.detail))
                variant.verdict = variant.verdict and candidate.close(variant.verdict)
        comparison.time(variants)
        base = comparison.stages(variants[0])
        differences = [
            _difference(variants[0].name, base, other.name, comparison.stages(other), most_diff_lines)
            for other in variants[1:]
            if not variants[0].problem and not other.problem
        ]
        told = outcome_result(engine, CANDIDATE, "", Verdict(Answer.YES, ""))
        return CompareResult(
            path, told.kernel, told.engine, told.device, engine.facts.triton, engine.choice.python, variants,
            differences, [*told.notes, *comparison.notes], max_ratio,
        )  # fmt: skip


def _check(which: Sequence[str], options: ReplayOptions, max_ratio: float | None) -> None:
    unknown = [name for name in which if name not in WHICH]
    if unknown:
        raise UsageError(
            f"--compare {','.join(which)}: {unknown[0]} is not a variant; choose from {', '.join(WHICH)}"
        )
    names = ", ".join(WHICH)
    if len(which) < 2 or len(set(which)) != len(which):
        raise UsageError(f"--compare {','.join(which)}: expected two or three different ones of {names}")
    if CANDIDATE in which and options.candidate is None:
        raise UsageError("--compare candidate: name its file with --candidate")
    if options.candidate is not None and CANDIDATE not in which:
        raise UsageError("--candidate: --compare does not name candidate; add it to the list")
    if max_ratio is not None and not 0 < max_ratio < float("inf"):
        raise UsageError(f"--max-ratio {max_ratio:g}: expected a positive number")


def _engine_name(path: Path, which: Sequence[str], options: ReplayOptions) -> str:
    """The binary engine if the captured image is asked for: it starts whatever the source compiles to."""
    if options.engine != "auto" or CAPTURED not in which or options.device == "cpu":
        return options.engine
    with Reproducer.open(path) as reproducer:
        manifest = reproducer.manifest
        has_image = any(code.stage == "cubin" for code in manifest.code)
        if manifest.kernel.language != "triton" or not has_image or manifest.device.kind != "cuda":
            return "auto"
    return "binary"


class _Comparison:
    """Of variants in one engine."""

    def __init__(self, reproducer: Reproducer, engine: Engine, options: ReplayOptions) -> None:
        self.engine = engine
        self.options = options
        self.notes: list[str] = []
        self.expected_end = reproducer.manifest.oracle.kind in ("fault", "timeout")
        self.empty = without_values(engine)
        self.measured: Measured | None = None
        if not self.expected_end and not self.empty:
            self.measured = write_set(reproducer, engine)
        self._names: dict[str, str] = {}  # variant -> what the engine calls it

    def variant(self, name: documents.Which) -> Variant:
        """Load and judge one."""
        try:
            self._names[name] = loaded = self._load(name)
        except CandidateError as error:
            return Variant(name, problem=str(error), detail=error.detail, refused=True)
        except BackendUnavailable as error:
            return Variant(name, problem=str(error))
        return Variant(name, self._verdict(loaded), compiled=self.engine.compiled(loaded))

    def time(self, variants: list[Variant]) -> None:
        """Times in turns of those that end well; the ratios to the first."""
        on_device = self.engine.choice.on_device
        rounds = self.options.timed_runs
        rounds = (_DEVICE_ROUNDS if on_device else _HOST_ROUNDS) if rounds is None else rounds
        timed = [variant for variant in variants if variant.passed]
        if self.measured is None or len(timed) < 2 or rounds < 1:
            return
        names = [self._names[variant.name] for variant in timed]
        if len(set(names)) < len(names):
            return
        ranges = dirtied(self.measured)
        try:
            times = self.engine.interleaved(names, rounds, sorted(self.measured.written), ranges)
        except KerncapError as error:
            self.notes.append(f"not timed: {error}")
            return
        for variant, name in zip(timed, names, strict=True):
            variant.times_ms = times[name]
            if variant is not variants[0] and variants[0].times_ms:
                variant.ratio = ratio(variants[0].times_ms, variant.times_ms)

    def stages(self, variant: Variant) -> dict[str, str]:
        """The texts of what a variant was compiled to, the machine code too if it can be read."""
        files = variant.compiled.stages
        found = {stage: text_of(Path(files[stage])) for stage in _TEXT_STAGES if stage in files}
        image = files.get("cubin")
        code = sass(Path(image), self.engine.choice.python) if image is not None else None
        return {**found, "sass": code} if code else found

    def _load(self, name: str) -> str:
        """Load a variant; the name under which the engine has it."""
        launcher = self.engine.choice.launcher
        if name == CANDIDATE:
            assert self.options.candidate is not None
            load_as_asked(self.engine, self.options.candidate)
            return CANDIDATE
        if (name == CAPTURED) == (launcher in ("binary", "native")):
            return ORIGINAL
        if name == CAPTURED:
            self.engine.load_captured()
        else:
            self.engine.load_rebuilt()
        return name

    def _verdict(self, name: str) -> Verdict:
        if self.expected_end:
            return end_again(self.engine, name)
        if self.measured is None:
            return runs_at_all(self.engine, name)
        return judge(self.engine, self.measured, name, self.options.tolerance)


def _difference(
    before: str, old: dict[str, str], after: str, new: dict[str, str], most_lines: int
) -> documents.Difference:
    shared = [stage for stage in (*_TEXT_STAGES, "sass") if stage in old and stage in new]
    return documents.Difference(
        before, after,
        [compare_stage(stage, old[stage], new[stage], most_lines, (before, after)) for stage in shared],
        sorted({*old, *new} - set(shared)),
    )  # fmt: skip
