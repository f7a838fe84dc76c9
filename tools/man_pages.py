"""man_pages.py FOLDER: a manual page of kerncap, and of each command, from its help: kerncap-capture.1."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import kerncap
from kerncap.cli import COMMANDS, group


def page(name: str, purpose: str, command: click.Command, context: click.Context) -> str:
    """The page in man's macros."""
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{name.upper()}" 1 "" "kerncap {kerncap.__version__}" "kerncap"',
        ".SH NAME", f"{roff(name)} \\- {roff(purpose)}",
        ".SH SYNOPSIS", f".B {roff(context.command_path)}", roff(usage),
        ".SH DESCRIPTION", ".PP\n".join(f"{roff(part)}\n" for part in paragraphs(command.help)).rstrip(),
        ".SH OPTIONS",
    ]  # fmt: skip
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record:
            lines += [".TP", f"\\fB{roff(record[0])}\\fR", roff(record[1])]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for other, text in COMMANDS.items():
            lines += [".TP", f"\\fBkerncap-{roff(other)}\\fR(1)", roff(text)]
    return "\n".join(lines) + "\n"


def paragraphs(text: str | None) -> Iterator[str]:
    for part in re.split(r"\n\s*\n", (text or "").strip()):
        yield " ".join(part.replace("\b", "").split())


def roff(text: str) -> str:
    """One line in which nothing is an escape, a request or a hyphen."""
    line = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line.startswith((".", "'")) else line


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    top = click.Context(group, info_name="kerncap")
    (folder / "kerncap.1").write_text(page("kerncap", next(paragraphs(group.help)), group, top))
    for name, purpose in COMMANDS.items():
        command = group.get_command(top, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=top)
        (folder / f"kerncap-{name}.1").write_text(page(f"kerncap-{name}", purpose, command, context))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
