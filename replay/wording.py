"""What a verdict is, and how its reasons are worded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Tolerance:
    """What the user asked for in place of the dtypes' own."""

    rtol: float | None = None
    atol: float | None = None


BY_DTYPE = Tolerance()


@dataclass
class Verdict:
    """``summary`` is what stands in brackets behind PASS or FAIL."""

    passed: bool
    summary: str
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared_bytes: int = 0
    poisoned_bytes: int = 0
    views: list[dict[str, Any]] = field(default_factory=list)
    exact: bool = False

    @property
    def line(self) -> str:
        return f"Result: {'PASS' if self.passed else 'FAIL'} ({self.summary})"


def fail(summary: str, *reasons: str) -> Verdict:
    return Verdict(False, summary, list(reasons) or [summary])


def mismatch(stats: dict[str, Any]) -> str:
    """One line about a view that differs."""
    name = stats["name"] or f"view {stats['view']}"
    count = stats["outside"] or stats["different"]
    first = stats["first"]
    text = f"{name}: {count:,} of {stats['elements']:,} elements differ"
    if first:
        index = ", ".join(map(str, first["index"]))
        text += f", first at {name}[{index}]: expected {first['expected']}, found {first['found']}"
    text += f"; max abs {stats['max_abs']:.3g}, max rel {stats['max_rel']:.3g}"
    if stats["nan"]:
        text += f"; {stats['nan']:,} elements are NaN on one side only"
    return text


def within(found: list[dict[str, Any]]) -> str:
    """The summary of a pass by tolerance."""
    worst = max(found, key=lambda stats: float(stats["max_rel"]), default=None)
    if worst is None:
        return "within tolerance: bytes that differ between baseline replays"
    name = worst["name"] or f"view {worst['view']}"
    largest = max(float(stats["max_abs"]) for stats in found)
    return f"within tolerance: max abs {largest:.3g}, max rel {worst['max_rel']:.3g} in {name}"
