"""Several reproducers, one verdict each, with what they can share: see `replay.pool`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap import unexpected_error
from kerncap.answer import Answer, of_all
from kerncap.api.verify.stage_order import verify
from kerncap.api.verify.verify_result import VerifyOptions, VerifyResult
from kerncap.errors import KerncapError, UsageError
from kerncap.exit_status import exit_status, worst
from kerncap.log import counted
from kerncap.printable import visible
from kerncap.replay.pool import Pool
from kerncap.report.documents.replay import OfCorpus, VerifyCorpusDocument
from kerncap.search_path import inside_reproducer

_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Judged:
    """One reproducer: its result, or why there is none."""

    path: Path
    result: VerifyResult | None
    error: KerncapError | None = None

    @property
    def answer(self) -> Answer:
        return Answer.UNDECIDED if self.result is None else self.result.answer

    @property
    def exit_status(self) -> int:
        return self.error.exit_status if self.error is not None else exit_status(self.answer)


@dataclass(frozen=True)
class CorpusResult:
    """All of them, in the order in which they were judged."""

    judged: list[Judged]

    @property
    def answer(self) -> Answer:
        return of_all(each.answer for each in self.judged)

    @property
    def exit_status(self) -> int:
        """The worst: one that fails, then an error, then one that is undecided."""
        return worst(each.exit_status for each in self.judged)

    @property
    def counts(self) -> dict[str, int]:
        """How many passed, failed, are undecided, could not be judged."""
        answers = [each.answer for each in self.judged if each.result is not None]
        return {
            "passed": answers.count(Answer.YES),
            "failed": answers.count(Answer.NO),
            "undecided": answers.count(Answer.UNDECIDED),
            "not_judged": len(self.judged) - len(answers),
        }

    @property
    def summary(self) -> str:
        said = [f"{n:,} {name.replace('_', ' ')}" for name, n in self.counts.items() if n]
        return f"{counted(len(self.judged), 'reproducer')}: {', '.join(said)}"

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        reproducers = tuple(
            OfCorpus(
                path=str(each.path),
                exit_status=int(each.exit_status),
                error=None if each.error is None else str(each.error),
                verdict=None if each.result is None else each.result.document(),
            )
            for each in self.judged
        )
        return VerifyCorpusDocument(
            result=self.answer.value, summary=self.summary, **self.counts, reproducers=reproducers
        ).as_dict()


def reproducers_of(paths: Sequence[Path]) -> list[Path]:
    """The reproducers of the paths: a folder that is not one means all reproducers below it, by name.

    Raises UsageError for a folder with none, and for one that is given twice.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        below = sorted(_below(path)) if _may_be_looked_into(path) else [path]
        if not below:
            raise UsageError(f"{visible(path)}: not a reproducer, and none below it; name a folder with one")
        for each in below:
            if found.setdefault(each.absolute(), each) is not each:
                raise UsageError(f"{visible(each)}: given twice; leave one out")
    return list(found.values())


def verify_all(
    paths: Sequence[Path], options: VerifyOptions, pool: Pool, told: Callable[[Judged], None]
) -> CorpusResult:
    """Judge one after the other; ``told`` gets each as it is done. What can't be judged stops no other."""
    judged = []
    for path in paths:
        try:
            one = Judged(path, verify(path, options, pool))
        except Exception as error:
            one = Judged(path, None, unexpected_error.explained(error))
        judged.append(one)
        told(one)
    return CorpusResult(judged)


def _below(folder: Path) -> Iterator[Path]:
    """The reproducers below a folder; nothing inside one, and through no link."""
    for place, folders, files in os.walk(folder):
        if _MANIFEST in files:
            folders.clear()
            yield Path(place)


def _may_be_looked_into(path: Path) -> bool:
    """Whether it is a folder that is no reproducer; what is wrong with any other, reading it says."""
    readable = os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK)
    return readable and not os.path.exists(path / _MANIFEST) and not inside_reproducer(str(path.absolute()))
