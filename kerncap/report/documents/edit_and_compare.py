"""``replay --edit`` and ``replay --compare``: verdicts and their evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from kerncap.format.document_types import (
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
from kerncap.replay.paired_times import Ratio
from kerncap.replay.stage_diff import StageDiff

# --- replay --edit -----------------------------------------------------------------------------------

WhichKernel = Annotated[Literal["candidate", "original"], says("Which kernel was run.")]
EditStage = Annotated[Literal["build", "run", "compare"], says("Last step that was reached.")]


@dataclass(frozen=True)
class Diagnostic:
    """A message of a compiler or Python, at a line of the edited file."""

    file: str
    line: Annotated[int, says("From 1.")]
    column: Annotated[int | None, says("From 1; null if unknown.")]
    message: str
    context: Annotated[
        tuple[tuple[int, str], ...], says("The line and some lines before it: number, text.")
    ] = ()


@dataclass(frozen=True)
class FirstWrong:
    buffer: str
    index: tuple[int, ...]
    expected: str | None = None
    found: str | None = None


@dataclass(frozen=True)
class Times:
    """Times of the original and the candidate, run in turns."""

    rounds: Count
    clock: str  # "device events" or "host clock"
    original_ms: Milliseconds
    candidate_ms: Milliseconds | None = None  # None with all that follows if the original itself was timed
    ratio: Annotated[float | None, says("Median of the candidate's time divided by the original's.")] = None
    low: Annotated[float | None, says("Lower end of the ratio's 95 % interval.")] = None
    high: Annotated[float | None, says("Upper end of the ratio's 95 % interval.")] = None


class BestSave(Part, frozen=True, kw_only=True):
    number: Count
    ratio: float | None
    path: Path


class EditDocument(Document, frozen=True, kw_only=True):
    """The verdict on a working copy: one document on one line for every save."""

    result: Word
    save: Annotated[Count, says("Number of the verdict, from 1.")]
    which: WhichKernel
    file: Path
    stage: EditStage
    summary: str
    reasons: Names
    exact: bool
    first_wrong: FirstWrong | None
    diagnostics: tuple[Diagnostic, ...]
    times: Times | None
    original: Annotated[dict[str, Any] | None, says("Known facts of the compiled kernel.")]
    candidate: Annotated[dict[str, Any] | None, says("The same for the candidate.")]
    launch_changes: Annotated[
        dict[str, tuple[Any, Any]], says("By name: value of the original, value of the candidate.")
    ]
    compile_ms: Milliseconds | None
    save_to_verdict_ms: Milliseconds | None
    edited: Annotated[bool, says("False: the text is the original.")]
    kept: Annotated[Path | None, says("Copy of a save that passed.")]
    best: Annotated[BestSave | None, says("The fastest save that passed.")]
    notes: Notes


# --- replay --compare --------------------------------------------------------------------------------


Which = Literal["captured", "rebuilt", "candidate"]


class CompiledFacts(Part, frozen=True, kw_only=True):
    """Facts of a compiled variant; null if unknown."""

    registers: Annotated[int | None, says("Registers of a thread.")]
    spilled_bytes: Annotated[int | None, says("Bytes of spilled local memory of a thread.")]
    shared_bytes: Annotated[int | None, says("Bytes of static and dynamic shared memory of a block.")]
    max_threads: Annotated[int | None, says("Maximum threads of a block.")]
    num_warps: int | None
    num_stages: int | None
    blocks_per_sm: int | None
    occupancy: Fraction | None
    compile_ms: Milliseconds
    cached: Annotated[bool, says("True if it came from the compiler's cache.")]
    grid: Extents | None
    block: Extents | None
    dynamic_shared_bytes: Bytes | None


class ComparedVariant(Part, frozen=True, kw_only=True):
    name: Which
    result: Literal["pass", "fail", "undecided", "untested"]
    problem: Annotated[str, says("Why it could not be run.")]
    detail: str
    summary: str
    reasons: Names
    exact: bool
    notes: Notes
    compiled: CompiledFacts
    times_ms: Annotated[tuple[float, ...], says("Milliseconds of each round.")]
    median_ms: Milliseconds | None
    ratio: Annotated[Ratio | None, says("Its time divided by the first variant's, in pairs.")]


@dataclass
class Difference:
    """How a variant is compiled differently from the first one."""

    before: str
    after: str
    stages: list[StageDiff] = field(default_factory=list)
    missing: Annotated[list[str], says("Stages that only one of them has.")] = field(default_factory=list)


class CompareDocument(Document, frozen=True, kw_only=True):
    """Variants of one kernel; the others are compared with the first."""

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
    slower: Annotated[Names, says("Variants that surely exceed max_ratio.")]
    notes: Notes
    bisect_status: Annotated[int, says("For `git bisect run`: 0 good, 1 bad, 125 can't be tested.")]
