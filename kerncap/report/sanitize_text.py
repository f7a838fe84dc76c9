"""Sanitizer reports as text: each finding with its source, then how every launch was settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kerncap.answer import Answer
from kerncap.log import one_line
from kerncap.report.sanitize_answer import NO_PROGRAM, Counts, counts_of, unproven_of
from kerncap.report.sanitize_baseline import Baseline, counts_of_run
from kerncap.report.sanitize_causes import Cause, all_of, causes_of, line_of, once_each, seen
from kerncap.report.sanitize_finding import finding_lines, known_line, note_line, place, shown_path
from kerncap.report.sanitize_host_reads import known_read_line, lines_of
from kerncap.result_line import result_line
from kerncap.sanitizer.findings import LaunchReport, Program, Proved, Settled, Violated
from kerncap.sanitizer.ttir.ir import Location

# Of one launch; `--json` has all of them.
_SHOWN_FINDINGS = 20
_SHOWN_NOTES = 10
_SHOWN_UNPROVEN = 12
_SHOWN_PLACES = 4


def render(
    reports: Sequence[LaunchReport],
    every: bool = False,
    program: Program = NO_PROGRAM,
    portable: bool = False,
    alone: Callable[[str], str] | None = None,
    at: str | None = None,
    baseline: Baseline | None = None,
) -> str:
    """All lines for people; the last one is ``Result: PASS …``, ``FAIL …`` or ``UNDECIDED …``.

    Findings of one cause are shown once, the worst kind first, with the launch of the strongest witness.
    ``every``: also how each check of each operation was settled. ``program``: the one that made the launches.
    ``portable``: each note, and not only how many there are. ``alone``: makes a place the command that shows
    only its causes. ``at``: show only those, ``FILE:LINE``. A cause that ``baseline`` has takes one line.
    """
    causes = causes_of(reports)
    new = causes if baseline is None else baseline.new_causes(reports, causes)
    if at is not None:
        causes = [cause for cause in causes if is_at(cause.finding.location, at)]
    if alone is not None and len(causes) == len(reports) == 1:
        alone = None
    first = [*(one for one in causes if one in new), *causes]
    shown = list(dict.fromkeys([*(cause.position for cause in first), *range(len(reports))]))
    lines: list[str] = []
    for position in shown:
        report = reports[position]
        own = [cause for cause in causes if cause.position == position]
        of_new = [one for one in own if one in new]
        for line in _launch(report, every, portable, of_new, alone) if own or at is None else ():
            if line or (lines and lines[-1]):  # never two blank lines
                lines.append(line)
        if known := [known_line(one.finding) for one in own if one not in new]:
            lines[-1:] = [*_limited(known, _SHOWN_FINDINGS, "known findings"), ""]
    old = [] if baseline is None else baseline.known_reads(program)
    for read in program.host_reads:
        if read not in old:
            lines += [*lines_of(read), ""]
    if old:
        lines += [*(known_read_line(read) for read in old), ""]
    return "\n".join([*lines, sanitized_line(reports, program, baseline)])


def is_at(location: Location, place: str) -> bool:
    """Whether a place is FILE:LINE, of which the file may be the end of its path."""
    line = line_of(location)
    return line is not None and f"/{line[0]}:{line[1]}".endswith(f"/{place}")


def sanitized_line(
    reports: Sequence[LaunchReport], program: Program = NO_PROGRAM, baseline: Baseline | None = None
) -> str:
    """``Result: PASS (…)`` if all is proved; with what was proved and what was not."""
    counts = counts_of_run(reports, program, baseline)
    if not counts.launches and counts.answer is not Answer.NO:
        return result_line(counts.answer, counts.why_open)
    said = f"{_number(counts.launches, 'launch', 'launches')}; {_settled(counts)}"
    if baseline is not None:
        said = f"{_beside(counts, baseline)}; {said}"
    elif counts.answer is Answer.NO:
        causes = len(causes_of(reports)) + len(program.host_reads)
        of_causes = f" of {_number(causes, 'cause', 'causes')}" if causes < counts.findings else ""
        said = f"{_number(counts.findings, 'finding', 'findings')}{of_causes}; {said}"
    if counts.answer is Answer.UNDECIDED:
        said = f"{counts.why_open}; {said}"
    if program.status and counts.program_ending not in said:
        said += f"; {counts.program_ending}"
    return result_line(counts.answer, said)


def _beside(counts: Counts, baseline: Baseline) -> str:
    """``no new finding, 2 known in known.sarif``: a pass beside known findings is no proof."""
    new = _number(counts.findings, "new finding", "new findings") if counts.findings else "no new finding"
    return f"{new}, {counts.known:,} known in {baseline.name}"


def _settled(counts: Counts) -> str:
    """``memory operations: 3 proved (1 for these contents), 2 violated, 1 unproven``."""
    if not counts.operations:
        return "no memory operation"
    parts = [f"{counts.proved:,} proved"]
    if counts.contents:
        parts[0] += f" ({counts.contents:,} for these contents)"
    if counts.violated:
        parts.append(f"{counts.violated:,} violated")
    if counts.unproven:
        parts.append(f"{counts.unproven:,} unproven")
    return f"memory operations: {', '.join(parts)}"


def _launch(
    report: LaunchReport,
    every: bool,
    portable: bool,
    causes: Sequence[Cause],
    alone: Callable[[str], str] | None,
) -> Iterator[str]:
    counts = counts_of(report)
    findings = f"{_number(counts.findings, 'finding', 'findings')}; " if counts.findings else ""
    yield f"{_headline(report)}: {findings}{_settled(counts)}"
    yield from (f"  note: {one_line(note)}" for note in report.notes)
    if report.for_all is not None:
        yield f"  assumed: {one_line('; '.join(report.for_all.assumed))}"
    for cause in causes[:_SHOWN_FINDINGS]:
        yield ""
        yield from finding_lines(report, cause.finding, _facts_of(cause, alone))
    if len(causes) > _SHOWN_FINDINGS:
        yield ""
        yield f"  and {_number(len(causes) - _SHOWN_FINDINGS, 'cause', 'causes')} more: --json has them all"
    elif causes:
        yield ""
    yield from _limited(_notes(report), _SHOWN_NOTES, "notes") if portable else _notes_counted(report)
    yield from _limited(_unproven(report), _SHOWN_UNPROVEN, "reasons")
    if every:
        for one in report.settled:
            yield f"  {place(one.location)}: {one.access} {one.check}: {_verdict(one)}"
    yield ""


def _facts_of(cause: Cause, alone: Callable[[str], str] | None) -> list[tuple[str, str]]:
    facts = [("seen", f"in {', '.join(found)}")] if (found := list(seen(cause))) else []
    line = line_of(cause.finding.location)
    if alone is not None and line is not None:
        facts.append(("alone", alone(f"{shown_path(line[0])}:{line[1]}")))
    return facts


def _notes_counted(report: LaunchReport) -> Iterator[str]:
    noted = once_each([finding for finding in all_of(report) if finding.note])
    kinds = Counter("promise" if finding.check == "promise" else finding.note for finding in noted)
    parts = []
    if kinds["portability"]:
        places = _number(kinds["portability"], "access is", "accesses are")
        parts.append(f"{places} right only by the zeros that this target puts into left-out lanes")
    if kinds["same-value"]:
        parts.append(f"{_number(kinds['same-value'], 'race stores', 'races store')} equal values")
    if kinds["promise"]:
        promises = _number(
            kinds["promise"], "promise is false, of an address", "promises are false, of addresses"
        )
        parts.append(f"{promises} that the widest access of this target allows")
    if parts:
        yield f"  note: {' and '.join(parts)}; --portable lists them"


def _notes(report: LaunchReport) -> list[str]:
    """One line for each, and for races that store equal values one for each pair of lines."""
    notes = once_each([finding for finding in all_of(report) if finding.note])
    return list(dict.fromkeys(note_line(finding) for finding in notes))


def _unproven(report: LaunchReport) -> list[str]:
    """One line for each reason, with the places that it holds for."""
    places: dict[tuple[str, str], dict[str, None]] = {}
    for entry in unproven_of(report):
        places.setdefault((entry.check, entry.reason), {})[place(entry.location)] = None
    lines = []
    for (check, reason), where in places.items():
        shown = ", ".join(list(where)[:_SHOWN_PLACES])
        more = f" and {len(where) - _SHOWN_PLACES} more places" if len(where) > _SHOWN_PLACES else ""
        lines.append(f"  unproven[{check}]: {shown}{more}: {one_line(reason)}")
    return lines


def _limited(lines: list[str], limit: int, what: str) -> Iterator[str]:
    yield from lines[:limit]
    if len(lines) > limit:
        yield f"  and {len(lines) - limit} more {what}: --json has them all"


def _headline(report: LaunchReport) -> str:
    text = f"{one_line(report.kernel)}[{one_line(report.grid_text)}]"
    if report.for_all is not None:
        sizes = (f"{name} in {interval}" for name, interval in report.for_all.sizes.items())
        text += f" for all {one_line(', '.join(sizes))}"
    if report.label:
        text += f" ({one_line(report.label)})"
    if report.repeats:
        text += f", and {_number(report.repeats, 'equal launch', 'equal launches')}"
    if report.python_stack:
        file, line, _ = report.python_stack[-1]
        text += f" from {shown_path(file)}:{line}"
    return text


def _verdict(one: Settled) -> str:
    verdict = one.verdict
    if isinstance(verdict, Proved):
        return f"proved ({verdict.how}{', for these contents' if verdict.contents else ''})"
    if isinstance(verdict, Violated):
        return "noted" if all(f.note for f in verdict.findings) else "violated"
    return f"unproven ({one_line(verdict.reason)})"


def _number(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
