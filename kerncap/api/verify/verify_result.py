"""What verify is asked and what it answers: stages, each with a verdict and with what it showed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import asdict

from kerncap.answer import Answer
from kerncap.api.replay import ReplayOptions, ReplayResult
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.outcome import Outcome
from kerncap.replay.verdict_words import Verdict, badly_ended
from kerncap.report.documents import replay as documents
from kerncap.report.documents.replay import VerifyDocument

if TYPE_CHECKING:
    from kerncap.sanitizer.launch import Launch

STAGES = ("smoke", "oracle", "determinism", "numerics", "shapes", "sanitizer", "memory", "timing")
_TORCH_FREE = {"smoke", "oracle", "determinism", "sanitizer"}
DEFAULT_STAGES = ("smoke", "oracle", "sanitizer")  # the last for a candidate, if it applies


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(ReplayOptions):
    """``reference``: a Python file with ``reference(args)``; ``expect``: a predicate on what is written.

    ``stages`` are run in the order of `STAGES`; smoke always is, for without it there is nothing to judge.
    ``prove`` adds the proof that a candidate computes what the captured kernel does.
    ``reached`` gets a stage's name before it begins, its number from 1, and how many there are.
    """

    reference: Path | None = None
    expect: Literal["finite"] | None = None
    stages: tuple[str, ...] = DEFAULT_STAGES
    prove: bool = False
    reached: Callable[[str, int, int], None] = lambda _stage, _number, _count: None

    @property
    def torch_free(self) -> bool:
        return super().torch_free and self.reference is None and set(self.stages) <= _TORCH_FREE


class StageResult(documents.StageResult):
    """A stage while it is judged."""

    @classmethod
    def skipped(cls, name: str, why: str) -> StageResult:
        return cls(name, "skipped", [why], not_shown=[why])

    def failed(self, *reasons: str) -> StageResult:
        """The stage with these reasons, which fail it if there are any."""
        self.reasons += reasons
        if self.reasons:
            self.result = "fail"
        return self

    def undecided(self, *reasons: str) -> StageResult:
        """The stage with these reasons why it decides nothing; what failed it before still does."""
        if self.result == "fail" or self.reasons:
            self.not_shown += reasons
            return self.failed()
        self.reasons += reasons
        self.result = "undecided"
        return self

    def ended(self, outcome: Outcome, who: str = "") -> StageResult:
        """The stage of which a launch did not end well."""
        verdict = badly_ended(outcome)
        said = f"{who}{verdict.summary}"
        return self.undecided(said) if verdict.answer is Answer.UNDECIDED else self.failed(said)

    def judged(self) -> StageResult:
        """The stage at its end: failed for any reason, undecided if it showed nothing."""
        if self.reasons:
            return self.failed()
        if self.shown:
            return self
        return self.undecided(*(self.not_shown[:1] or ["nothing was judged"]))

    @property
    def decided(self) -> bool:
        return self.result in ("pass", "fail")


@dataclass
class VerifyResult(ReplayResult):
    """A replay's result with the stages that led to it."""

    stages: list[StageResult] = field(default_factory=list)

    def document(self) -> VerifyDocument:
        return VerifyDocument(**asdict(super().document()), stages=tuple(self.stages))


@dataclass
class Case:
    """What the stages judge: ``which`` in an engine, by a write set.

    ``measured`` is that of the captured kernel; None if it does not end well here.
    """

    reproducer: Reproducer
    engine: Engine
    which: str
    options: VerifyOptions
    folder: Path  # for launches that are derived from this one
    measured: Measured | None = None
    judged_by: str = ""
    verdict: Verdict | None = None  # the oracle's
    faulted: bool = False  # the plain run did
    ttir: Callable[[], str] | None = None  # the candidate's: see `compiled`
    captured: Callable[[], Launch] | None = None


def parse_stages(text: str | None) -> tuple[str, ...]:
    """``oracle,shapes`` or ``all`` in the order of `STAGES`. Raises UsageError for an unknown stage."""
    if text is None:
        return DEFAULT_STAGES
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return STAGES
    unknown = [name for name in names if name not in STAGES]
    if unknown or not names:
        wrong = ", ".join(unknown) or "nothing"
        raise UsageError(f"--stages {text}: {wrong} is not a stage; choose from {', '.join(STAGES)}, or all")
    return tuple(name for name in STAGES if name in names or name == "smoke")
