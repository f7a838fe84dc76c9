"""A doctor's report as text: facts, then what they add up to; and what of a program could be seen."""

from __future__ import annotations

from typing import Any

from kerncap.log import one_line
from kerncap.report.tables import table

_MARKS = {
    "ok": "ok",
    "missing": "MISSING",
    "note": "note",
    "pass": "pass",
    "fail": "FAIL",
    "skipped": "skipped",
}
_SHOWN_PROCESSES = 40


def render(report: Any) -> str:
    """The report for people."""
    width = max(len(check.name) for check in report.checks)
    lines = []
    for check in report.checks:
        lines.append(f"{_MARKS[check.status]:>7}  {check.name:<{width}}  {check.detail}")
        if check.next_step:
            lines.append(f"{'':>7}  {'':<{width}}  -> {check.next_step}")
    lines.append("")
    for way in report.ways:
        lines.append(f"{way.name}: {'works' if way.works else f'no ({way.reason})'}")
    lines.append("inspect, diff, report, sanitize REPRO: work everywhere")
    if report.self_test:
        lines += ["", *_self_test(report)]
    return "\n".join(lines)


def _self_test(report: Any) -> list[str]:
    lines = ["self-test: a vector addition is run alone, captured, verified"]
    for one in report.self_test:
        took = ", ".join(f"{step.name} {step.seconds:.1f} s" for step in one.steps)
        said = {
            "pass": f" ({took})",
            "skipped": "",
            "fail": f": {one.step}: {one.reason}" + (f" (before it: {took})" if took else ""),
        }[one.result]
        lines.append(f"{_MARKS[one.result]:>7}  {one.way}{said}")
    tried = [one for one in report.self_test if one.result != "skipped"]
    failed = [one for one in tried if one.result == "fail"]
    if not tried:
        return [*lines, "Result: FAIL (nothing to test)"]
    passed = f"{len(tried) - len(failed)} of {len(tried)}"
    return [*lines, f"Result: {'FAIL' if failed else 'PASS'} ({passed} ways capture and replay)"]


def render_program(report: Any) -> str:
    """Which routes are live in a program, process by process."""
    rows = []
    telling = [one for one in report.processes if one.live or one.libraries or one.missed]
    for one in telling[:_SHOWN_PROCESSES]:
        seen = ", ".join(f"{route} {count:,}" for route, count in one.routes.items()) or "-"
        rows.append((
            str(one.pid), one_line(one.name, 40), ", ".join(one.live) or "-", ", ".join(one.libraries) or "-",
            f"{one.launches:,}", seen,
        ))  # fmt: skip
    headers = ("process", "program", "live in it", "loaded", "launches", "by")
    lines = table(headers, rows, right=(4,)).rstrip("\n").split("\n")
    lines = lines if rows else ["no process had a GPU's library or a part of kerncap in it"]
    others = len(report.processes) - len(telling)
    more = [f"{len(telling) - len(rows):,} more"] if len(telling) > len(rows) else []
    more += [f"{others:,} with no GPU's library and no Python"] if others else []
    lines += [f"and processes that are not shown: {', '.join(more)} (--json has them)"] if more else []
    if report.missed:
        lines += ["", *(f"missed: {one_line(text)}" for text in report.missed[:_SHOWN_PROCESSES])]
    lines += [f"note: {one_line(text)}" for text in report.notes]
    lines += [f"  -> {step}" for step in report.next_steps]
    ended = "" if not report.target_status else f"; the program ended with status {report.target_status}"
    counts = f"{report.kernels:,} kernels, {report.launches:,} launches"
    if report.works:
        lines += ["", f"Result: OK ({counts} seen, nothing missed{ended})"]
    else:
        why = f"{len(report.missed)} missed" if report.missed else "no launch was seen"
        lines += ["", f"Result: MISSING ({why}; {counts} seen{ended})"]
    return "\n".join(lines)
