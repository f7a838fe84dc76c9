"""A profile in words: each claim, and below it the metrics that back it."""

from __future__ import annotations

from typing import Any

from kerncap.log import one_line
from kerncap.report.verdict_text import milliseconds

_MARKS = {"limit": "=", "problem": "!", "fact": "-"}


def render(result: Any) -> str:
    """All lines of a `ProfileResult`."""
    head = result.head
    parts = [f"{one_line(result.kernel)}" + (f" on {one_line(result.device)}" if result.device else "")]
    if "time_s" in head:
        parts.append(milliseconds(head["time_s"] * 1e3))
    if "registers" in head:
        parts.append(f"{head['registers']:.0f} registers per thread")
    if "grid" in head and "block" in head:
        parts.append(f"{head['grid']:,.0f} blocks of {head['block']:,.0f} threads")
    lines = ["; ".join(parts)]
    for claim in result.claims:
        lines.append(f"{_MARKS[claim.severity]} {claim.topic}: {claim.text}")
        lines += [f"    {name} {value:,.4g}" for name, value in claim.evidence]
    if not result.claims:
        lines.append("the report has no metric that kerncap explains")
    if result.report is not None:
        lines.append(f"ncu's own report: {result.report}")
    return "\n".join(lines)
