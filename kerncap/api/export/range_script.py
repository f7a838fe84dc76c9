"""A range as a folder of programs, one for each launch, and one that runs them in order; and a test of it."""

from __future__ import annotations

import ast
from pathlib import Path

from kerncap.api.export.project_words import words_of_range
from kerncap.api.export.python_values import quoted
from kerncap.api.export.script import make_script
from kerncap.api.export.templates import filled
from kerncap.format import LaunchRange

RUN, TEST = "run.py", "test_launches.py"


def write_range(opened: LaunchRange, folder: Path, with_test: bool) -> tuple[str, ...]:
    """Write the project into ``folder``, which is empty; notes on it. Raises UsageError for what no script
    can do, naming the kernel."""
    rows, notes = [], []
    for launch in opened.launches:
        script = make_script(launch, inline=False)
        place = folder / f"launch_{launch.number}"
        place.mkdir()
        (place / script.name).write_text(script.text, encoding="utf-8")
        for name, data in script.data.items():
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(data)
        renamed = ", ".join(map(quoted, script.renamed))
        rows.append(f"    ({quoted(f'{place.name}/{script.name}')}, [{renamed}]),")
        notes += [f"launch {launch.number}: {note}" for note in script.notes]
    words = words_of_range(opened.launches)
    values = {"TITLE": words.title, "FACTS": words.facts, "FILE": RUN, "LAUNCHES": "\n".join(rows)}
    templates = {RUN: "range.py.in", **({TEST: "test_range.py.in"} if with_test else {})}
    for file, template in templates.items():
        text = filled(template, values)
        ast.parse(text)
        (folder / file).write_text(text, encoding="utf-8")
    return tuple(notes)
