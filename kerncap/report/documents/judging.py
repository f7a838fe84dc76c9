"""``replay``, ``verify``, ``replay --edit`` and ``replay --compare``: verdicts and what they rest on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kerncap.report.documents.basics import (
    Bytes,
    Count,
    Document,
    Extents,
    Fraction,
    Milliseconds,
    Names,
    Notes,
    Part,
    Path,
    Word,
    says,
)


class Placement(Part, frozen=True, kw_only=True):
    """Which regions are at their captured addresses."""

    honoured: Annotated[Count, says("How many are.")]
    relocated: Annotated[tuple[int, ...], says("Those that are not, by their place in the manifest.")]


class FirstDifferent(Part, frozen=True, kw_only=True):
    index: tuple[int, ...]
    expected: Annotated[str, says("As text: exact, and NaN or inf where it is one.")]
    found: str


class ViewDifference(Part, frozen=True, kw_only=True):
    """How a tensor differs from what the application had."""

    view: Annotated[int, says("Its place in the manifest's views.")]
    name: str | None
    elements: Count
    different: Annotated[Count, says("Elements that are not equal bit by bit.")]
    outside: Annotated[Count, says("Elements outside of the tolerance.")]
    nan: Annotated[Count, says("Elements that are NaN in one of the two alone.")]
    max_abs: Annotated[float | None, says("The largest absolute difference.")]
    max_rel: Annotated[float | None, says("The largest relative difference.")]
    scale: Annotated[float | None, says("The largest expected magnitude.")]
    first: Annotated[FirstDifferent | None, says("The first element outside of the tolerance.")]


class Timing(Part, frozen=True, kw_only=True):
    """Times of runs after a warm-up, each on the captured state. All times are milliseconds."""

    runs: Count
    median_ms: Milliseconds
    low_ms: Annotated[float, says("Milliseconds: the first decile.")]
    high_ms: Annotated[float, says("Milliseconds: the last decile.")]
    clock: Annotated[str, says("device events, host clock, or the emulator's clock.")]
    warm_ms: Annotated[float | None, says("Milliseconds with the data in the cache.")]
    cold_ms: Annotated[float | None, says("Milliseconds with an emptied cache.")]
    replays_per_s: Annotated[float | None, says("Replays in a row, restoring included.")]


class ReplayDocument(Document, frozen=True, kw_only=True):
    """A replay of the launch, or of a candidate for it, held against the application's result."""

    result: Word
    reasons: Annotated[Names, says("Why it failed, or is undecided, one line each.")]
    summary: str
    exact: Annotated[bool, says("Equal bit by bit, not only within the tolerance.")]
    path: Path
    kernel: str
    engine: Annotated[str, says("What ran it: interpreter, jit, binary, native.")]
    device: Annotated[str, says("cpu, or the GPU's name.")]
    triton: Annotated[str, says("Triton's version; empty where it was not used.")]
    driver: Annotated[str, says("The CUDA driver's version, or ROCr's; empty where none was used.")]
    judged_by: Annotated[str, says("What it was held against.")]
    compared_bytes: Bytes
    poisoned_bytes: Annotated[Bytes, says("Bytes that were filled with poison before, of what is written.")]
    placement: Placement
    notes: Notes
    views: Annotated[tuple[ViewDifference, ...], says("Tensors that differ.")]
    runs: Count
    different: Annotated[int | None, says("With --until-fail: how many of the runs disagreed.")]
    timing: Timing | None


class Stage(Part, frozen=True, kw_only=True):
    """A stage of verify, with what a reader may and may not conclude from it."""

    name: Annotated[str, says("smoke, oracle, determinism, numerics, shapes, memory.")]
    result: Annotated[
        Literal["pass", "fail", "undecided", "skipped"],
        says("skipped: it can't be run here; undecided: it ran, and that decides nothing."),
    ]
    reasons: Names
    shown: Names
    not_shown: Names


class VerifyDocument(ReplayDocument, frozen=True, kw_only=True):
    """A replay's document with the stages that led to the verdict."""

    stages: tuple[Stage, ...]


# --- replay --edit -----------------------------------------------------------------------------------


class FirstWrong(Part, frozen=True, kw_only=True):
    buffer: str
    index: tuple[int, ...]
    expected: str | None
    found: str | None


class Diagnostic(Part, frozen=True, kw_only=True):
    """What a compiler or Python says, at a line of the file that is edited."""

    file: Path
    line: Annotated[int, says("From 1.")]
    column: Annotated[int | None, says("From 1; null where nobody says it.")]
    message: str
    context: Annotated[tuple[tuple[int, str], ...], says("The line and some before it: number, text.")]


class EditTimes(Part, frozen=True, kw_only=True):
    """Launches of the original and of the candidate in turns."""

    rounds: Count
    clock: str
    original_ms: Milliseconds
    candidate_ms: Milliseconds | None
    ratio: Annotated[float | None, says("The candidate's time by the original's, median.")]
    low: Annotated[float | None, says("Lower end of the ratio's 95 % interval.")]
    high: Annotated[float | None, says("Upper end of the ratio's 95 % interval.")]


class BestSave(Part, frozen=True, kw_only=True):
    number: Count
    ratio: float | None
    path: Path


class EditDocument(Document, frozen=True, kw_only=True):
    """One judgement of a working copy: one document on one line for every save."""

    result: Word
    save: Annotated[Count, says("The number of the judgement, from 1.")]
    which: Annotated[Literal["candidate", "original"], says("What was run.")]
    file: Path
    stage: Annotated[Literal["build", "run", "compare"], says("How far it came.")]
    summary: str
    reasons: Names
    exact: bool
    first_wrong: FirstWrong | None
    diagnostics: tuple[Diagnostic, ...]
    times: EditTimes | None
    original: Annotated[dict[str, Any] | None, says("Facts of the compiled kernel that are known.")]
    candidate: Annotated[dict[str, Any] | None, says("The same of the candidate.")]
    launch_changes: Annotated[dict[str, tuple[Any, Any]], says("By name: the original's, the candidate's.")]
    compile_ms: Milliseconds | None
    save_to_verdict_ms: Milliseconds | None
    edited: Annotated[bool, says("False: the text is the original's.")]
    kept: Annotated[Path | None, says("The copy of a save that passed.")]
    best: Annotated[BestSave | None, says("The fastest save that passed.")]
    notes: Notes


# --- replay --compare --------------------------------------------------------------------------------


class CompiledFacts(Part, frozen=True, kw_only=True):
    """What a variant was compiled to; null where it is not known."""

    registers: Annotated[int | None, says("Of a thread.")]
    spilled_bytes: Annotated[int | None, says("Bytes of local memory of a thread.")]
    shared_bytes: Annotated[int | None, says("Bytes of shared memory of a block, static and dynamic.")]
    max_threads: Annotated[int | None, says("Of a block.")]
    num_warps: int | None
    num_stages: int | None
    blocks_per_sm: int | None
    occupancy: Fraction | None
    compile_ms: Milliseconds
    cached: Annotated[bool, says("A compiler's cache had it.")]
    grid: Extents | None
    block: Extents | None
    dynamic_shared_bytes: Bytes | None


class RatioInterval(Part, frozen=True, kw_only=True):
    """A median of ratios and its 95 % interval."""

    median: float
    low: float
    high: float


class ComparedVariant(Part, frozen=True, kw_only=True):
    name: Literal["captured", "rebuilt", "candidate"]
    result: Literal["pass", "fail", "undecided", "untested"]
    problem: Annotated[str, says("Why it could not be run.")]
    detail: str
    summary: str
    reasons: Names
    exact: bool
    notes: Notes
    compiled: CompiledFacts
    times_ms: Annotated[tuple[float, ...], says("Milliseconds, round by round.")]
    median_ms: Milliseconds | None
    ratio: Annotated[RatioInterval | None, says("Its time by the first variant's, in pairs.")]


class StageDifference(Part, frozen=True, kw_only=True):
    """How a stage of the compilation differs."""

    stage: Literal["ttir", "ttgir", "llir", "ptx", "sass"]
    same: Annotated[bool, says("The same instructions on the same values, whatever these are called.")]
    instructions: Annotated[tuple[int, int], says("How many before and after.")]
    changed: Annotated[dict[str, tuple[int, int]], says("By opcode: how many before and after.")]
    diff: Annotated[Names, says("The first lines of a unified diff.")]
    diff_lines: Annotated[Count, says("How many it has.")]


class Difference(Part, frozen=True, kw_only=True):
    before: str
    after: str
    stages: tuple[StageDifference, ...]
    missing: Annotated[Names, says("Stages that not both have.")]


class CompareDocument(Document, frozen=True, kw_only=True):
    """Variants of one kernel side by side; the first is what the others are held against."""

    result: Word
    path: Path
    kernel: str
    engine: str
    device: str
    triton: str
    python: Path
    variants: tuple[ComparedVariant, ...]
    differences: tuple[Difference, ...]
    max_ratio: float | None
    slower: Annotated[Names, says("Variants that take longer than max_ratio allows, beyond doubt.")]
    notes: Notes
    bisect_status: Annotated[int, says("For `git bisect run`: 0 good, 1 bad, 125 can't be tested.")]
