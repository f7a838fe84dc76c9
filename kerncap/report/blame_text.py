"""The stages of a kernel's compilation as a table, and who is to blame."""

from __future__ import annotations

from typing import Any

from kerncap.log import one_line
from kerncap.report.tables import table

_WORDS = {"equal": "equal", "rounding": "equal within rounding", "differs": "differs"}


def render(found: Any) -> str:
    """All lines of a `Blame`; the last one is ``Result: PASS …``, ``FAIL …`` or ``UNDECIDED …``."""
    lines = []
    for run in found.runs:
        of = f" of {run.python or 'no Python'}" if run.python or not run.compiler else ""
        lines += [one_line(f"{found.kernel}: {run.maker}{of}")]
        lines.append(table_of(run))
        guilty = run.guilty
        if guilty is not None:
            lines.append(f"guilty: {one_line(guilty.what)}")
            lines += [f"  report it to: {guilty.to}"] if guilty.to else []
    lines += [f"note: {one_line(note)}" for note in found.notes]
    lines += [f"bug report: {one_line(str(found.folder))}"] if found.folder is not None else []
    return "\n".join([*lines, one_line(found.line)])


def table_of(run: Any) -> str:
    """One row for each stage, and the places of differences below it."""
    rows = [
        [
            one_line(stage.name),
            one_line(stage.how) or "-",
            _compared(stage, "before"),
            _compared(stage, "application"),
            one_line(stage.why, 200) or ("varies from run to run" if stage.varies else ""),
        ]
        for stage in run.stages
    ]
    text = table(["stage", "run", "the stage before", "the application", ""], rows).rstrip("\n")
    places = [
        f"{one_line(stage.name)}, {what}: {one_line(found.place)}"
        for stage in run.stages
        for what, found in (("the stage before", stage.before), ("the application", stage.application))
        if found is not None and found.place
    ]
    return "\n".join([text, *places])


def _compared(stage: Any, key: str) -> str:
    if stage.ended != "ran":
        return stage.ended if key == "before" else "-"
    found = getattr(stage, key)
    return "-" if found is None else _WORDS[found.result]
