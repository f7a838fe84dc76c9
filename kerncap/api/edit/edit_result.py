"""What one save came to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerncap.replay.outcome import Compiled
from kerncap.replay.verdict_words import Verdict, WithVerdict
from kerncap.report.documents.edit_and_compare import (
    BestSave,
    Diagnostic,
    EditDocument,
    EditStage,
    FirstWrong,
    Times,
    WhichKernel,
)

_FIRST = re.compile(
    r"first at (?P<buffer>[^\[\]]*?)\[(?P<index>[\d, ]*)\]"
    r"(?:: expected (?P<expected>.+?), found (?P<found>.+?);)?"
)
# Facts of a compiled kernel, by the name that --json has; and what of it says how it is launched.
FACTS = ("registers", "spilled_bytes", "shared_bytes", "occupancy", "blocks_per_sm", "max_threads")
LAUNCH = ("grid", "block", "num_warps", "num_stages", "dynamic_shared_bytes")


@dataclass
class EditResult(WithVerdict):
    """``stage`` is how far it came: "build" (it does not load), "run" (it does not end well), "compare".

    ``number`` counts the judgements of a working copy; ``which`` is "candidate", or "original" if that was
    run in its place. ``best`` is the fastest save so far that passed.
    """

    number: int
    which: WhichKernel
    file: Path
    stage: EditStage
    verdict: Verdict
    diagnostics: list[Diagnostic] = field(default_factory=list)
    original: Compiled | None = None
    candidate: Compiled | None = None
    times: Times | None = None
    compile_ms: float | None = None
    save_to_verdict_ms: float | None = None
    edited: bool = True
    kept: Path | None = None
    best: BestSave | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def first_wrong(self) -> FirstWrong | None:
        """Where the result is wrong first, by the verdict's reasons."""
        for reason in () if self.passed else self.verdict.reasons:
            match = _FIRST.search(reason)
            if match is not None:
                index = tuple(int(each) for each in match["index"].split(",") if each.strip())
                return FirstWrong(match["buffer"], index, match["expected"], match["found"])
        return None

    @property
    def launch_changes(self) -> dict[str, tuple[Any, Any]]:
        """What of the launch is another than the original's: (original, candidate) by name."""
        if self.original is None or self.candidate is None:
            return {}
        pairs = {name: (getattr(self.original, name), getattr(self.candidate, name)) for name in LAUNCH}
        return {name: (a, b) for name, (a, b) in pairs.items() if a != b and b is not None}

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``, one line for each save."""
        verdict = self.verdict
        return EditDocument(
            result=self.answer.value,
            save=self.number,
            which=self.which,
            file=str(self.file),
            stage=self.stage,
            summary=verdict.summary,
            reasons=tuple(verdict.reasons),
            exact=verdict.exact,
            first_wrong=self.first_wrong,
            diagnostics=tuple(self.diagnostics),
            times=self.times,
            original=_facts(self.original),
            candidate=_facts(self.candidate),
            launch_changes=self.launch_changes,
            compile_ms=self.compile_ms,
            save_to_verdict_ms=self.save_to_verdict_ms,
            edited=self.edited,
            kept=None if self.kept is None else str(self.kept),
            best=self.best,
            notes=(*self.notes, *verdict.notes),
        ).as_dict()


def _facts(compiled: Compiled | None) -> dict[str, Any] | None:
    """Those that are known; None if nothing is (the interpreter compiles nothing)."""
    if compiled is None:
        return None
    known = {name: getattr(compiled, name) for name in (*FACTS, *LAUNCH)}
    return {name: value for name, value in known.items() if value is not None} or None
