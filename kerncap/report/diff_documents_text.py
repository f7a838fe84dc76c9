"""A comparison of two results as text: verdicts and facts that changed, times with their ratio."""

from __future__ import annotations

from typing import Any

from kerncap.log import counted, one_line
from kerncap.report.tables import table

_SHOWN = 60


def render_documents(result: Any) -> str:
    """All lines of a `DocumentDiff`; the last is ``Result: EQUAL``, ``DIFFERENT …`` or ``UNDECIDED …``."""
    lines = [f"kerncap {result.command}: A {one_line(result.a, 200)}, B {one_line(result.b, 200)}"]
    values = [one for one in result.changes if one.kind == "value"]
    times = [one for one in result.changes if one.kind == "time"]
    told = [one for one in result.changes if one.kind == "told"]
    lines += _table("what changed", values)
    lines += _table("times and what follows from them", times, ratios=True)
    lines += _table("which run it was", told)
    if result.omitted:
        lines += ["", f"… and {result.omitted:,} more changes"]
    if result.slower:
        names = ", ".join(one_line(one.where, 80) for one in result.slower[:6])
        lines += ["", f"more than {result.max_ratio:g} times: {names}"]
    parts = [counted(len(values), "value")] if values else []
    parts += [f"{len(result.slower):,} slower than {result.max_ratio:g} times"] if result.slower else []
    if not parts and result.why_open:
        return "\n".join([*lines, "", f"Result: UNDECIDED ({result.why_open})"]) + "\n"
    lines += ["", f"Result: DIFFERENT ({', '.join(parts)})" if parts else "Result: EQUAL"]
    return "\n".join(lines) + "\n"


def _table(title: str, changes: list[Any], ratios: bool = False) -> list[str]:
    if not changes:
        return []
    headers = (title, "A", "B", *(("B / A",) if ratios else ()))
    rows = [
        (
            f"  {one_line(one.where, 90)}", _cell(one.a), _cell(one.b),
            *((("-" if one.ratio is None else f"{one.ratio:.3f}"),) if ratios else ()),
        )
        for one in changes[:_SHOWN]
    ]  # fmt: skip
    right = (1, 2, 3) if ratios else ()
    lines = ["", *table(headers, rows, right=right).rstrip("\n").split("\n")]
    return lines + (
        [f"  … and {len(changes) - _SHOWN:,} more (--json has them)"] if len(changes) > _SHOWN else []
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else one_line(value, 100)
