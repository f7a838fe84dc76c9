"""Where two runs differ, as text: both runs, what was found, the result in the last line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from kerncap.answer import Answer
from kerncap.log import counted, duration, one_line
from kerncap.report.diff_text import memory_lines, source_lines
from kerncap.report.sanitize_text import sanitized_line
from kerncap.report.trace_text import cost_text

_SHOWN = 8  # of each list; --json has all
_OF_EACH_RUN = ("captured", "command", "called from", "defined in")


def render(found: Any) -> str:
    """All lines of a `Divergence`; the last is ``Result: EQUAL …``, ``DIFFERENT …`` or ``UNDECIDED …``."""
    lines = [*(_run(side) for side in (found.a, found.b)), ""]
    lines.append(_aligned(found))
    if found.named is not None:
        lines += ["", *_named(found.named, found.once)]
    for one in found.nondeterministic[:_SHOWN]:
        lines += ["", f"Nondeterministic: {_where(one)}"]
        lines.append("  two runs of the same command differ here")
    lines += _more(found.nondeterministic, "launches that differ between runs of one command")
    for title, places in (
        ("different arguments and the same results", found.changed),
        ("within the tolerance", found.within),
        ("differs only in bytes that it neither reads nor writes", found.harmless),
    ):
        lines += [f"note: {title}: {_place(one)}" for one in places[:_SHOWN]] + _more(places, title)
    lines += [f"not compared: {one_line(text)}" for text in found.uncompared[:_SHOWN]]
    lines += _more(found.uncompared, "things that were not compared")
    lines += [f"note: {one_line(text)}" for text in found.notes]
    return "\n".join([*lines, "", f"Result: {_result(found)}"]) + "\n"


def _run(side: Any) -> str:
    what = f"recorded in {side.recorded}" if side.recorded else shlex.join(side.command)
    of_rank = "" if side.rank is None else f"rank {side.rank} of "
    launches = counted(side.launches, "launch")
    return f"{side.name}: {of_rank}{one_line(what, 200)}: {launches}; {cost_text(side)}"


def _aligned(found: Any) -> str:
    text = f"{counted(found.aligned, 'launch')} aligned"
    for name, count in zip("AB", found.only, strict=True):
        text += f", {count:,} only in {name}" if count else ""
    text += f"; the search took {duration(found.search_ns)}"
    if found.plain_ns and not (found.a.recorded and found.b.recorded):
        text += f", {found.search_ns / found.plain_ns:.2f} times as long as the programs without kerncap"
    return text


def _named(named: Any, once: bool) -> list[str]:
    lines = [f"First difference: {_where(named)}"]
    for name, place in (("A", named.a), ("B", named.b)):
        if place is not None:
            lines.append(f"  {name}: {_from(place)}")
    lines.append(f"  {_said(named, once)}")
    lines += [_change(change) for change in named.changed]
    if named.since is not None:
        lines.append(f"  {', '.join(named.before)}: equal after {_place(named.since)}")
    elif named.before:
        lines.append(f"  {', '.join(named.before)}: no earlier launch uses this memory")
    if named.diff is not None:
        states = ("pre", "post") if named.before else ("post",)
        lines += [f"  {line}" for line in memory_lines(named.diff, states)]
        lines += [f"  source: {line}" for line in source_lines(named.diff)]
        surroundings = [one for one in named.diff.environment if one.what not in _OF_EACH_RUN]
        lines += [_change(change) for change in surroundings[:_SHOWN]]
    for side, reports in named.sanitized:
        lines += [
            f"  sanitize {side}: {one_line(finding.message)}" for r in reports for finding in r.findings
        ]
        lines.append(f"  sanitize {side}: {sanitized_line(reports).removeprefix('Result: ')}")
    lines += [f"  {one_line(problem)}" for problem in named.problems]
    for place in (named.a, named.b):
        if place is not None and place.reproducer is not None:
            lines.append(f"  {'A' if place is named.a else 'B'}: {place.reproducer}")
    if None not in (named.a, named.b) and named.a.reproducer and named.b.reproducer:
        lines.append(f"  kerncap diff {shlex.quote(named.a.reproducer)} {shlex.quote(named.b.reproducer)}")
    return lines


def _said(named: Any, once: bool) -> str:
    after, before = ", ".join(named.after), ", ".join(named.before)
    if named.kind == "launch":
        why = "; both sides are one command: it is nondeterministic" if once else ""
        if named.diff is not None and source_lines(named.diff):
            why = "; its source differs"
        return f"its inputs agree, its results differ: {after}{why}"
    if named.kind == "arguments":
        return f"its arguments and its results differ: {after}"
    if named.kind == "memory":
        return f"its inputs differ: {before}; no earlier launch differs, so something between them does"
    if named.kind == "moved":
        return "both sides launch it, in a different order"
    if named.kind == "raised":
        return "; ".join(
            f"{name} raised {one_line(text)}" if text else f"{name} raised nothing"
            for name, text in zip("AB", named.raised, strict=True)
        )
    return f"only {'A' if named.b is None else 'B'} launches it"


def _where(named: Any) -> str:
    places = [place for place in (named.a, named.b) if place is not None]
    text = " / ".join(dict.fromkeys(place.kernel for place in places))
    positions = " / ".join(dict.fromkeys(f"{place.position:,}" for place in places))
    ordinals = " / ".join(dict.fromkeys(f"{place.ordinal:,}" for place in places))
    rest = f" of process {places[0].process}" if places[0].process else ""
    return one_line(f"{text}, launch {ordinals} of this kernel, {positions} of all{rest}")


def _from(place: Any) -> str:
    text = f"{place.file}:{place.line}" if place.file else "an unknown file"
    if place.launched_from is not None:
        text += f", launched from {place.launched_from[0]}:{place.launched_from[1]}"
    return one_line(text)


def _place(place: Any) -> str:
    return one_line(f"{place.kernel}, launch {place.ordinal}")


def _change(change: Any) -> str:
    return f"  {one_line(change.what, 60)}: {_side(change.a)} in A, {_side(change.b)} in B"


def _side(text: str | None) -> str:
    return "-" if text is None else one_line(text, 70)


def _more(listed: Sequence[Any], what: str) -> list[str]:
    count = len(listed) - _SHOWN
    return [f"… and {count:,} more {what} (--json has them)"] if count > 0 else []


def _result(found: Any) -> str:
    if found.named is not None:
        kernel = found.named.a or found.named.b
        return f"DIFFERENT ({_place(kernel)})"
    if found.answer is Answer.YES:
        tolerance = f", {len(found.within):,} of them within the tolerance" if found.within else ""
        return f"EQUAL ({counted(found.aligned, 'launch')} compared{tolerance}; no launch differs)"
    if not found.aligned:
        return "UNDECIDED (no launch was traced on both sides)"
    if found.nondeterministic:
        return "UNDECIDED (a nondeterministic launch hides what comes after it)"
    return f"UNDECIDED ({counted(len(found.uncompared), 'thing')} not compared)"
