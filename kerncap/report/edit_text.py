"""What a save came to, as lines and as the rows of one small table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kerncap import log
from kerncap.log import one_line
from kerncap.printable import printable
from kerncap.report.tables import table
from kerncap.report.verdict_text import milliseconds

_MOST_REASONS = 4
_MOST_NOTES = 3
_SHOWN_TRACEBACK = 12  # lines
KEYS = "r rerun   o original/candidate   d diff   a apply   e editor   h help   q quit"
HELP = """\
r  run again without a save        o  run the original in place of the candidate, and back
d  what was edited, as a diff      a  write a patch against the application's files
e  open the editor again           q  quit (Ctrl-C too); the working copy stays
A line `# kerncap: num_warps=8 BLOCK=256 grid=32` in a Triton source launches it that way."""


class Row(NamedTuple):
    """One line of the table; ``better`` says whether the change is one, None if that is unknown."""

    name: str
    original: str
    candidate: str
    change: str
    better: bool | None = None


def headline(result: Any) -> str:
    """``save 3 PASS (…)``: the line to look for."""
    word = result.answer.word
    who = "save" if result.which == "candidate" else "original, run"
    text = f"{who} {result.number} {word} ({result.verdict.summary})"
    if result.which == "candidate" and result.passed and not result.edited:
        text += ", not edited yet"
    return one_line(text)


def rows(result: Any) -> list[Row]:
    """Time, facts of the compiled kernel, what changed in the launch; what is not known is left out."""
    found = [] if result.times is None else [_time_row(result.times)]
    before, after = result.original, result.candidate
    if before is not None and after is not None:
        for name, title, show in _FACTS:
            a, b = getattr(before, name), getattr(after, name)
            if a is not None or b is not None:
                found.append(_fact_row(name, title, show, a, b))
    for name, (a, b) in result.launch_changes.items():
        found.append(Row(str(_LAUNCH.get(name, name)), _launch(a), _launch(b), "changed"))
    return found


def _time_row(times: Any) -> Row:
    original = milliseconds(times.original_ms)
    if times.candidate_ms is None:
        return Row("time", original, "", f"{times.rounds} rounds, {times.clock}")
    if times.ratio is None:
        return Row("time", original, milliseconds(times.candidate_ms), "too short for a ratio")
    change = f"{times.ratio:.2f}x ({times.low:.2f} to {times.high:.2f})"
    better = True if times.high < 1 else False if times.low > 1 else None
    return Row("time", original, milliseconds(times.candidate_ms), change, better)


def _fact_row(name: str, title: str, show: Any, a: Any, b: Any) -> Row:
    if a is None or b is None:
        return Row(title, "" if a is None else show(a), "" if b is None else show(b), "")
    if a == b:
        return Row(title, show(a), show(b), "")
    sign = "+" if b > a else "-"
    points = name == "occupancy"
    change = f"{sign}{abs(b - a) * 100:.0f} points" if points else f"{sign}{show(abs(b - a))}"
    return Row(title, show(a), show(b), change, (b > a) == points)


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %"


_FACTS = (
    ("registers", "registers", str),
    ("spilled_bytes", "spills", log.size),
    ("shared_bytes", "shared memory", log.size),
    ("occupancy", "occupancy", _percent),
)
_LAUNCH = {"dynamic_shared_bytes": "dynamic shared"}


def _launch(value: Any) -> str:
    if value is None:
        return "?"
    return "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def last_line(result: Any) -> str:
    """How long it took, and the best so far."""
    parts = []
    if result.compile_ms is not None:
        cached = result.candidate is not None and result.candidate.cached
        parts.append(f"compile {milliseconds(result.compile_ms)}{' (cached)' if cached else ''}")
    if result.save_to_verdict_ms is not None:
        parts.append(f"save to verdict {milliseconds(result.save_to_verdict_ms)}")
    if result.best is not None and result.best.ratio is not None:
        parts.append(f"best so far: save {result.best.number}, {result.best.ratio:.2f}x")
    return "; ".join(parts)


def reasons(result: Any) -> list[str]:
    """Why it failed: places in the user's file first, then the verdict's reasons beyond its summary."""
    if result.passed:
        return []
    lines: list[str] = []
    for each in result.diagnostics:
        lines += diagnostic(each)
    told = result.verdict.summary
    others = [reason for reason in result.verdict.reasons if one_line(reason) != one_line(told)]
    if not result.diagnostics or result.stage != "build":
        lines += [f"- {one_line(reason)}" for reason in others[:_MOST_REASONS]]
        if len(others) > _MOST_REASONS:
            lines.append(f"- and {len(others) - _MOST_REASONS} more")
    return lines


def diagnostic(found: Any) -> list[str]:
    """``kernel.py:12:17: error``, the line, the lines before it, and a caret."""
    place = f"{found.file}:{found.line}" + (f":{found.column}" if found.column is not None else "")
    lines = [f"{one_line(place)}: {one_line(found.message)}"]
    width = len(str(found.line))
    for number, text in found.context:
        lines.append(f"  {number:>{width}} | {_shown(text)}".rstrip())
    if found.context and found.column is not None:
        own = found.context[-1][1][: found.column - 1]
        lead = "".join(c if c == "\t" else " " for c in own)
        lines.append(f"  {'':>{width}} | {_shown(lead)}^")
    return lines


def notes(result: Any) -> list[str]:
    """Notes; of a traceback that no place was found in, the end."""
    found: list[str] = []
    for note in [*result.notes, *result.verdict.notes][:_MOST_NOTES]:
        lines = note.strip().split("\n")
        if len(lines) > 1:
            if not result.diagnostics:
                found += [f"  {_shown(line)}" for line in lines[-_SHOWN_TRACEBACK:]]
        else:
            found.append(f"note: {one_line(note)}")
    return found


def block(result: Any) -> str:
    """All of it as plain text."""
    lines = [headline(result), *reasons(result)]
    found = rows(result)
    if found:
        cells = [(row.name, row.original, row.candidate, row.change) for row in found]
        lines.append(table(("", "original", "candidate", "change"), cells, right=(1, 2)).rstrip())
    lines += [line for line in (*notes(result), last_line(result)) if line]
    return "\n".join(lines)


def opening(session: Any, editor: Any) -> list[str]:
    """What a user should know before the first verdict."""
    copy, engine = session.copy, session.engine
    kernel = one_line(session.reproducer.manifest.kernel.name)
    software = f", Triton {engine.facts.triton}" if engine.facts.triton else ""
    lines = [f"{kernel}: {engine.choice.name} on {engine.facts.device}{software}"]
    again = f" (taken up again, {session.history.count} kept)" if copy.resumed else ""
    lines.append(f"edit {log.from_here(session.working_copy)}{again}; the original stays in the reproducer")
    others = len(copy.watched) - 1
    if others:
        lines.append(f"watching {log.counted(others, 'more file')} of its unit")
    if editor is not None and editor.place == "terminal":
        lines.append(
            f"while the editor has this terminal, the last verdict is in {log.from_here(copy.verdict_file)}"
        )
    lines += [f"note: {one_line(note)}" for note in session.notes]
    return lines


def _shown(text: str) -> str:
    return printable(text)[:400]


def diff_lines(lines: Sequence[str]) -> list[str]:
    """A diff for a terminal; without edits, that."""
    return [_shown(line) for line in lines] or ["nothing was edited"]
