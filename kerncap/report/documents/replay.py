"""``replay`` and ``verify``: verdicts and their evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from kerncap.format.document_types import (
    Bytes,
    Count,
    Document,
    Milliseconds,
    Names,
    Notes,
    Part,
    Path,
    Word,
    says,
)
from kerncap.replay.worker.protocol import Difference


@dataclass(frozen=True)
class Timing:
    """Times of runs after a warm-up, each on the captured state. All times are milliseconds."""

    runs: Count
    median_ms: Milliseconds
    low_ms: Annotated[float, says("First decile in milliseconds.")]
    high_ms: Annotated[float, says("Last decile in milliseconds.")]
    clock: Annotated[str, says("device events, host clock, or the emulator's clock.")]
    # Warm: launches that follow each other in a graph; of one that changes its own input, the timed runs.
    warm_ms: Annotated[float | None, says("Milliseconds with the data in the cache.")] = None
    cold_ms: Annotated[float | None, says("Milliseconds with an emptied cache.")] = None
    replays_per_s: Annotated[
        float | None, says("Rate of consecutive replays, including restoring memory.")
    ] = None


@dataclass
class StageResult:
    """A stage of verify, with what it showed and did not show."""

    name: Annotated[
        str, says("smoke, oracle, determinism, numerics, shapes, sanitizer, memory, timing, proof.")
    ]
    result: Annotated[
        Literal["pass", "fail", "undecided", "skipped"],
        says("skipped: it can't run here. undecided: it ran, and decided nothing."),
    ] = "pass"
    reasons: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    not_shown: list[str] = field(default_factory=list)


class Placement(Part, frozen=True, kw_only=True):
    """Whether regions are at their captured addresses."""

    honoured: Annotated[Count, says("Number of regions at their captured addresses.")]
    relocated: Annotated[tuple[int, ...], says("Indices of the other regions.")]


class FirstDifferent(Part, frozen=True, kw_only=True):
    index: tuple[int, ...]
    found: str
    expected: Annotated[str, says("Value as text: exact, or NaN or inf.")]


class ViewDifference(Part, frozen=True, kw_only=True):
    """How a tensor differs from the application's."""

    view: Annotated[int, says("Index in the manifest's views.")]
    name: str | None
    elements: Count
    different: Annotated[Count, says("Elements that are not equal bit by bit.")]
    outside: Annotated[Count, says("Elements outside the tolerance.")]
    nan: Annotated[Count, says("Elements that are NaN in only one of the two.")]
    max_abs: Annotated[float | None, says("The largest absolute difference.")]
    max_rel: Annotated[float | None, says("The largest relative difference.")]
    scale: Annotated[float | None, says("The largest expected magnitude.")]
    first: Annotated[FirstDifferent | None, says("The first element outside the tolerance.")]

    @classmethod
    def of(cls, found: Difference) -> ViewDifference:
        first = None if found.first is None else FirstDifferent(**vars(found.first))
        return cls(**{**vars(found), "first": first})


class ReplayDocument(Document, frozen=True, kw_only=True):
    """A replay of the launch, or of a candidate for it, compared with the application's result."""

    result: Word
    reasons: Annotated[Names, says("Why it failed or is undecided, one line each.")]
    summary: str
    exact: Annotated[bool, says("True if equal bit by bit, not only within the tolerance.")]
    path: Path
    kernel: str
    engine: Annotated[str, says("Engine that ran it: interpreter, jit, binary, native; or none.")]
    device: Annotated[str, says("cpu, the GPU's name, or none.")]
    triton: Annotated[str, says("Version of Triton; empty if it was not used.")]
    driver: Annotated[str, says("Version of the CUDA driver or ROCr; empty if none was used.")]
    judged_by: Annotated[str, says("What the result was compared with.")]
    compared_bytes: Bytes
    poisoned_bytes: Annotated[Bytes, says("Written bytes that were filled with poison before.")]
    placement: Placement
    notes: Notes
    views: Annotated[tuple[ViewDifference, ...], says("Tensors that differ.")]
    runs: Count
    different: Annotated[int | None, says("With --until-fail: number of runs that disagreed.")]
    timing: Timing | None


class VerifyDocument(ReplayDocument, frozen=True, kw_only=True):
    """A replay's document with the stages that led to the verdict."""

    stages: tuple[StageResult, ...]


class OfCorpus(Part, frozen=True, kw_only=True):
    """One of several reproducers that were verified."""

    path: Path
    exit_status: Annotated[int, says("What verify of this one ends with.")]
    error: Annotated[str | None, says("Why it could not be judged; null if it was.")]
    verdict: Annotated[VerifyDocument | None, says("Null if it could not be judged.")]


class VerifyCorpusDocument(Document, frozen=True, kw_only=True):
    """The verdicts on several reproducers, or on all below a folder."""

    result: Word
    summary: str
    passed: Count
    failed: Count
    undecided: Count
    not_judged: Annotated[Count, says("Those that could not be judged, each with its error.")]
    reproducers: Annotated[tuple[OfCorpus, ...], says("In the order in which they were judged.")]
