"""What failed tests left, as lines for the terminal and as a text for a pull request."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from kerncap.log import from_here
from kerncap.printable import printable
from kerncap.testing.on_failure.rerun import Left


def text(left: Left) -> str:
    """A test, then a line for each reproducer, or one that says why nothing was captured."""
    if not left.reproducers:
        return f"{left.test}: no reproducer: {left.reason}"
    lines = [left.test]
    lines += [f"  {from_here(path)}: {why}" for path, why in left.reproducers.items()]
    return "\n".join(lines)


def markdown(left: Sequence[Left], failed: int, output: Path) -> str:
    """A text for a pull request: names of tests are code, so that none of them is a mention or a link."""
    having = [one for one in left if one.reproducers]
    lines = [f"### kerncap: {len(having)} of {failed} failed tests left a reproducer", ""]
    if having:
        lines += ["| test | reproducer | why this launch |", "|---|---|---|"]
        lines += [
            f"| {_code(one.test)} | {_code(os.path.relpath(path, output))} | {_code(why)} |"
            for one in having
            for path, why in one.reproducers.items()
        ]
        first = os.path.relpath(next(iter(having[0].reproducers)), output)
        lines += [
            "",
            "With the reproducers, which `inspect` and `view` read without running anything in them:",
        ]
        lines += ["", "```console", f"$ kerncap inspect {shlex.quote(first)}", "```"]
    without = [one for one in left if not one.reproducers]
    if without:
        lines += ["", "Without a reproducer:", ""]
        lines += [f"- {_code(one.test)}: {_code(one.reason)}" for one in without]
    if failed > len(left):
        lines += ["", f"{failed - len(left)} more failed and were not run again."]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """A code span in a cell of a table, whatever the text holds."""
    plain = re.sub(r"\s+", " ", printable(text))[:300].replace("`", "'").replace("|", "\\|").strip()
    return f"`{plain or '-'}`"
