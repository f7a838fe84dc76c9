"""What tune found, as data and as the document of ``--json``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import UNSET

from kerncap.answer import Answer
from kerncap.replay.tuning.choice import Best, Choice
from kerncap.replay.tuning.constraints import Legal
from kerncap.replay.tuning.point import Parameter, Scalar
from kerncap.replay.tuning.search import Found
from kerncap.replay.tuning.writeback import Patch
from kerncap.report.documents.measurements import (
    BestConfiguration,
    RobustConfiguration,
    TuneDocument,
    TunedShape,
    TuneSpace,
    TuneTrial,
)


@dataclass(frozen=True)
class ShapeInfo:
    """One launch of the set: the arguments that set it apart, and what it took as captured."""

    digest: str
    path: str
    arguments: Mapping[str, Any]
    original_ms: float
    captured: Mapping[str, Scalar]

    @property
    def label(self) -> str:
        """``M=512 N=512``, or the folder's name if nothing sets it apart."""
        return " ".join(f"{k}={v}" for k, v in self.arguments.items()) or Path(self.path).name


@dataclass
class TuneResult:
    """A search and what follows from it."""

    kernel: str
    facts: Mapping[str, Any]
    shapes: list[ShapeInfo]
    parameters: list[Parameter]
    pinned: Mapping[str, str]
    legal: Legal
    sampler: str
    found: Found
    choice: Choice
    notes: list[str] = field(default_factory=list)
    decorator: str = ""
    patch: Patch = field(default_factory=lambda: Patch(""))
    patch_path: Path | None = None
    journal: Path | None = None

    @property
    def passed(self) -> bool:
        """Whether each launch has a right configuration."""
        return len(self.choice.best) == len(self.shapes)

    @property
    def answer(self) -> Answer:
        """No only if every configuration that there is was run, and gave another result."""
        if self.passed:
            return Answer.YES
        have = {best.digest for best in self.choice.best}
        tried = [
            [by[shape.digest].state for by in self.found.trials.values() if shape.digest in by]
            for shape in self.shapes
            if shape.digest not in have
        ]
        whole = self.legal.exact and all(len(states) >= self.legal.size for states in tried)
        wrong = all(state == "wrong" for states in tried for state in states)
        return Answer.NO if whole and wrong else Answer.UNDECIDED

    @property
    def states(self) -> Counter[str]:
        """How many trials ended how."""
        return Counter(trial.state for trial in self.found.all())

    def best_of(self, digest: str) -> Best | None:
        """The fastest configuration of a launch."""
        return next((each for each in self.choice.best if each.digest == digest), None)

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        choice = self.choice
        return TuneDocument(
            result=self.answer.value,
            kernel=self.kernel,
            **self.facts,
            sampler=self.sampler,
            space=TuneSpace(
                size=self.legal.size,
                exact=self.legal.exact,
                parameters={p.name: tuple(p.values) for p in self.parameters},
                pinned=dict(self.pinned),
            ),
            shapes=tuple(
                TunedShape(
                    digest=shape.digest,
                    path=shape.path,
                    arguments=dict(shape.arguments),
                    captured=dict(shape.captured),
                    captured_ms=shape.original_ms,
                    best=_best(self.best_of(shape.digest)),
                    selected=dict(choice.by_digest.get(shape.digest, {})) or None,
                )
                for shape in self.shapes
            ),
            robust=None
            if choice.robust is None
            else RobustConfiguration(
                config=dict(choice.robust.point),
                mean_ratio_to_best=choice.robust.mean,
                largest_ratio_to_best=choice.robust.worst,
            ),
            selected=tuple(dict(point) for point in choice.selected),
            key=choice.key,
            autotune=self.decorator or None,
            patch=self.patch.text or None,
            patch_path=None if self.patch_path is None else str(self.patch_path),
            patch_note=self.patch.note or None,
            ended=self.found.ended,
            seconds=self.found.seconds,
            resumed=self.found.resumed,
            states=dict(self.states),
            trials=tuple(TuneTrial(**trial.as_dict()) for trial in self.found.all()),
            notes=tuple(self.notes),
            journal=None if self.journal is None else str(self.journal),
        ).as_dict()


def _best(best: Best | None) -> BestConfiguration | None:
    if best is None:
        return None
    return BestConfiguration(
        config=dict(best.point),
        ms=best.ms,
        captured_ms=UNSET if math.isnan(best.original_ms) else best.original_ms,
        speedup=UNSET if best.speedup is None else best.speedup,
    )
