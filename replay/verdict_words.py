"""What a verdict is, and how its reasons are worded."""

from __future__ import annotations

from dataclasses import dataclass, field

from kerncap.answer import Answer
from kerncap.log import counted
from kerncap.replay.outcome import Outcome
from kerncap.replay.worker.protocol import Difference
from kerncap.result_line import result_line


@dataclass(frozen=True)
class Tolerance:
    """What the user asked for in place of the dtypes' own."""

    rtol: float | None = None
    atol: float | None = None


BY_DTYPE = Tolerance()


@dataclass
class Verdict:
    """``summary`` is what stands in brackets behind PASS, FAIL or UNDECIDED."""

    answer: Answer
    summary: str
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared_bytes: int = 0
    poisoned_bytes: int = 0
    views: list[Difference] = field(default_factory=list)
    exact: bool = False

    @property
    def passed(self) -> bool:
        return self.answer is Answer.YES

    @property
    def line(self) -> str:
        return result_line(self.answer, self.summary)


class WithVerdict:
    """A result that is as right as its verdict says."""

    verdict: Verdict

    @property
    def passed(self) -> bool:
        return self.verdict.passed

    @property
    def answer(self) -> Answer:
        return self.verdict.answer


def fail(summary: str, *reasons: str) -> Verdict:
    return Verdict(Answer.NO, summary, list(reasons) or [summary])


def undecided(summary: str, *reasons: str) -> Verdict:
    """``summary`` says why, and behind a semicolon what would decide it."""
    return Verdict(Answer.UNDECIDED, summary, list(reasons) or [summary])


def nothing_written(prints: bool = False) -> Verdict:
    """On a launch that changes nothing: what does nothing agrees with it as well."""
    why = "the launch writes nothing that was captured"
    if prints:
        why += "; its module prints, and what the application printed is not known"
    return undecided(f"nothing to compare: {why}; a launch that changes its outputs would decide it", why)


def badly_ended(outcome: Outcome) -> Verdict:
    """On a launch that raised or faulted, or that was ended: by kerncap for its time, or by the system."""
    if outcome.status == "timeout" and not outcome.doubt:
        verdict = undecided(f"{outcome.ending}; a longer --timeout would decide it", outcome.ending)
    elif outcome.status == "killed":
        verdict = undecided(f"{outcome.ending}; a run with more memory would decide it", outcome.ending)
    elif outcome.doubt:
        verdict = undecided(f"{outcome.ending}: {outcome.doubt}", outcome.ending, outcome.doubt)
    else:
        verdict = fail(outcome.ending)
    if outcome.detail:
        verdict.notes.append(outcome.detail)
    return verdict


def mismatch(stats: Difference) -> str:
    """One line about a view that differs."""
    name = stats.name or f"view {stats.view}"
    count = stats.outside or stats.different
    text = f"{name}: {count:,} of {stats.elements:,} elements differ"
    if first := stats.first:
        index = ", ".join(map(str, first.index))
        text += f", first at {name}[{index}]: expected {first.expected}, found {first.found}"
    text += f"; max abs {stats.max_abs:.3g}, max rel {stats.max_rel:.3g}"
    if stats.nan:
        text += f"; {counted(stats.nan, 'element')} {'is' if stats.nan == 1 else 'are'} NaN on one side only"
    return text


def within(found: list[Difference]) -> str:
    """The summary of a pass by tolerance."""
    worst = max(found, key=lambda stats: stats.max_rel, default=None)
    if worst is None:
        return "within tolerance: bytes that differ between baseline replays"
    name = worst.name or f"view {worst.view}"
    largest = max(stats.max_abs for stats in found)
    return f"within tolerance: max abs {largest:.3g}, max rel {worst.max_rel:.3g} in {name}"
