"""What `blame` found: a row for each stage, and the first one that brings the difference in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kerncap.answer import Answer
from kerncap.api.blame.stage_outputs import Comparison
from kerncap.report.documents.blame import BlameDocument, BlameGuilty, BlameRun, BlameStage, Compared
from kerncap.result_line import result_line

Ended = Literal["ran", "failed", "not run"]


@dataclass(frozen=True)
class Stage:
    """One stage: ``how`` it was run, and what its outputs are next to the last stage that ran before it and
    to the application's. ``why``: what failed, or why it was not run. ``varies``: from run to run."""

    name: str
    how: str
    ended: Ended
    why: str = ""
    before: Comparison | None = None
    application: Comparison | None = None
    varies: bool = False


@dataclass(frozen=True)
class Guilty:
    """``stage`` is the first whose output differs, or which fails; ``passes``: inside it, if that is
    known. ``given`` and ``made`` are the input and the output of the step, as text, with the file names that
    they have in a bug report."""

    stage: str
    what: str
    passes: tuple[str, ...] = ()
    place: str = ""
    to: str = ""
    given: tuple[str, str] | None = None
    made: tuple[str, str] | None = None


@dataclass(frozen=True)
class Run:
    """All stages with one Python's Triton, or with the ``compiler`` of a CUDA kernel ("nvcc 13.0")."""

    python: str
    triton: str
    stages: tuple[Stage, ...]
    guilty: Guilty | None = None
    open: str = ""  # what differs, and no stage that was run brings in
    compiler: str = ""

    @property
    def maker(self) -> str:
        """``Triton 3.6.0`` or ``nvcc 13.0``."""
        return self.compiler or f"Triton {self.triton or '(unknown version)'}"

    @property
    def answer(self) -> Answer:
        if self.guilty is not None:
            return Answer.NO
        compared = any(stage.before or stage.application for stage in self.stages)
        return Answer.UNDECIDED if self.open or not compared else Answer.YES

    @property
    def summary(self) -> str:
        if self.guilty is not None:
            return self.guilty.what
        if self.open:
            return self.open
        if self.answer is Answer.UNDECIDED:
            return "nothing to compare: no two stages ran; the table says why"
        left = [stage.name for stage in self.stages if stage.ended == "not run"]
        return "no stage differs" + (f"; not run: {', '.join(left)}" if left else "")


@dataclass
class Blame:
    """``runs``: one for each Python that was asked for; ``changed``: the first whose answer is another one
    than that of the run before."""

    path: Path
    kernel: str
    candidate: Path | None
    runs: list[Run]
    notes: Sequence[str] = ()
    folder: Path | None = None  # of the bug report
    changed: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        for number, (one, other) in enumerate(zip(self.runs, self.runs[1:], strict=False), start=1):
            if self.changed is None and _outcome(one) != _outcome(other):
                self.changed = number

    @property
    def blamed(self) -> Run:
        """The run that the answer is about: the first that names a step, else one that is open."""
        order = (Answer.NO, Answer.UNDECIDED, Answer.YES)
        return min(self.runs, key=lambda run: order.index(run.answer))

    @property
    def answer(self) -> Answer:
        return self.blamed.answer

    @property
    def passed(self) -> bool:
        return self.answer is Answer.YES

    @property
    def line(self) -> str:
        said = self.blamed.summary
        if self.changed is not None:
            one, other = self.runs[self.changed - 1 : self.changed + 1]
            versions = [f"{run.maker} ({run.python})" for run in (one, other)]
            said = f"{said}; changed between {' and '.join(versions)}"
        return result_line(self.answer, said)

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        return BlameDocument(
            result=self.answer.value,
            summary=self.blamed.summary,
            path=str(self.path),
            kernel=self.kernel,
            candidate=None if self.candidate is None else str(self.candidate),
            runs=tuple(_run(run) for run in self.runs),
            changed=self.changed,
            folder=None if self.folder is None else str(self.folder),
            notes=tuple(self.notes),
        ).as_dict()


def _outcome(run: Run) -> tuple[Any, ...]:
    return run.answer, run.guilty and (run.guilty.stage, run.guilty.passes)


def _run(run: Run) -> BlameRun:
    guilty = run.guilty
    return BlameRun(
        result=run.answer.value,
        python=run.python,
        triton=run.triton,
        compiler=run.compiler,
        stages=tuple(_stage(stage) for stage in run.stages),
        guilty=None if guilty is None else BlameGuilty(
            stage=guilty.stage, passes=guilty.passes, what=guilty.what, place=guilty.place, to=guilty.to
        ),
        open=run.open,
    )  # fmt: skip


def _stage(stage: Stage) -> BlameStage:
    compared = {"before": _compared(stage.before), "application": _compared(stage.application)}
    return BlameStage(**{**vars(stage), **compared})


def _compared(one: Comparison | None) -> Compared | None:
    return None if one is None else Compared(result=one.result, place=one.place)
