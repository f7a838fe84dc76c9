"""``blame``: the stages of a kernel's compilation, and the one that makes the result wrong."""

from __future__ import annotations

from typing import Annotated, Literal

from kerncap.format.document_types import Document, Names, Notes, Part, Path, Word, says


class Compared(Part, frozen=True, kw_only=True):
    """Two outputs of the launch."""

    result: Annotated[
        Literal["equal", "rounding", "differs"],
        says("equal: bit for bit. rounding: at most what another order of rounding explains."),
    ]
    place: Annotated[str, says("First element that is not equal, with both values and the number of others.")]


class BlameStage(Part, frozen=True, kw_only=True):
    """One stage, and its output."""

    name: str
    how: Annotated[str, says("How it was run.")]
    ended: Annotated[
        Literal["ran", "failed", "not run"],
        says("failed: it does not compile. not run: it can't be run here."),
    ]
    why: Annotated[str, says("Why it failed or was not run.")]
    before: Annotated[Compared | None, says("Compared with the stage before that ran.")]
    application: Annotated[Compared | None, says("Compared with the application's result.")]
    varies: Annotated[bool, says("True if its output differs from run to run.")]


class BlameGuilty(Part, frozen=True, kw_only=True):
    """The first stage whose output differs from the one before, or that fails."""

    stage: str
    passes: Annotated[
        Names, says("Pass of the compiler in it; several if it is one of these; none if unknown.")
    ]
    what: str
    place: Annotated[str, says("First element that differs.")]
    to: Annotated[str, says("Who can repair it.")]


class BlameRun(Part, frozen=True, kw_only=True):
    """All stages with the Triton of one Python, or with the compiler of a CUDA kernel."""

    result: Word
    python: str
    triton: Annotated[str, says("Version of Triton; empty for a CUDA kernel.")]
    compiler: Annotated[str, says("Compiler of a CUDA kernel, with its version; empty for a Triton kernel.")]
    stages: tuple[BlameStage, ...]
    guilty: BlameGuilty | None
    open: Annotated[str, says("What differs, though no stage that was run brings it in.")]


class BlameDocument(Document, frozen=True, kw_only=True):
    """Which stage of a kernel's compilation makes its result wrong. pass: no stage differs."""

    result: Word
    summary: str
    path: Path
    kernel: str
    candidate: Path | None
    runs: Annotated[tuple[BlameRun, ...], says("One for each Python, in the order of the options.")]
    changed: Annotated[int | None, says("First run whose answer is not that of the run before, from 0.")]
    folder: Annotated[Path | None, says("Bug report.")]
    notes: Notes
