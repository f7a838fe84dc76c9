"""Where the verdicts of an edit session go: a terminal, a pipe, lines of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from kerncap import log
from kerncap.answer import Answer
from kerncap.printable import printable
from kerncap.report import edit_text as text
from kerncap.streams import styled

_COLOURS = {Answer.YES: "bold green", Answer.NO: "bold red", Answer.UNDECIDED: "bold yellow"}


class JsonLines:
    """One document for each verdict on stdout; everything else goes to stderr."""

    def opened(self, session: Any, editor: Any, keys: bool) -> None:
        for line in text.opening(session, editor):
            log.line(line)

    def judging(self, which: str) -> None:
        pass

    def result(self, result: Any) -> None:
        _write(json.dumps(result.as_dict()))

    def as_text(self, result: Any) -> str:
        return text.block(result)

    def say(self, what: str) -> None:
        log.line(what)

    def diff(self, lines: list[str]) -> None:
        log.block("\n".join(text.diff_lines(lines)))

    def help(self) -> None:
        log.block(text.HELP)


class Plain:
    """One block of lines for each judgement, an empty line behind it."""

    def opened(self, session: Any, editor: Any, keys: bool) -> None:
        _write("\n".join(text.opening(session, editor)) + "\n")

    def judging(self, which: str) -> None:
        pass

    def result(self, result: Any) -> None:
        _write(text.block(result) + "\n")

    def as_text(self, result: Any) -> str:
        return text.block(result)

    def say(self, what: str) -> None:
        _write(what)

    def diff(self, lines: list[str]) -> None:
        _write("\n".join(text.diff_lines(lines)))

    def help(self) -> None:
        _write(text.HELP)


class Terminal:
    """The same in colours, with the keys below. The scrollback keeps what was before."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(file=styled(sys.stdout), highlight=False, soft_wrap=True)
        self._keys = False

    def opened(self, session: Any, editor: Any, keys: bool) -> None:
        self._keys = keys
        for line in text.opening(session, editor):
            self._print(line, "dim" if line.startswith("note") else "")

    def judging(self, which: str) -> None:
        self._print(f"… {'building and ' if which == 'candidate' else ''}running the {which}", "dim")

    def result(self, result: Any) -> None:
        from rich.text import Text

        word = result.answer.word
        head, _, rest = text.headline(result).partition(f" {word}")
        colour = _COLOURS[result.answer]
        self._console.print()
        self._console.print(Text.assemble((printable(head) + " ", "bold"), (word, colour), printable(rest)))
        for line in text.reasons(result):
            self._print(line, "red" if line.lstrip().startswith("|") and line.endswith("^") else "")
        self._table(text.rows(result))
        for line in text.notes(result):
            self._print(line, "dim")
        self._print(text.last_line(result), "dim")
        if self._keys:
            self._print(text.KEYS, "dim cyan")

    def as_text(self, result: Any) -> str:
        return text.block(result)

    def say(self, what: str) -> None:
        self._print(what)

    def diff(self, lines: list[str]) -> None:
        colours = {"+": "green", "-": "red", "@": "cyan"}
        for line in text.diff_lines(lines):
            self._print(line, colours.get(line[:1], ""))

    def help(self) -> None:
        self._print(text.HELP)

    def _table(self, rows: list[text.Row]) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        if not rows:
            return
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
        for name, justify in (
            ("", "left"),
            ("original", "right"),
            ("candidate", "right"),
            ("change", "left"),
        ):
            made.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        for row in rows:
            colour = {True: "green", False: "yellow", None: ""}[row.better]
            cells = [Text(printable(cell)) for cell in (row.name, row.original, row.candidate)]
            made.add_row(*cells, Text(printable(row.change), colour))
        self._console.print(made)

    def _print(self, line: str, style: str = "") -> None:
        from rich.text import Text

        if line:
            self._console.print(Text(printable(line), style))


def screen(as_json: bool) -> JsonLines | Plain | Terminal:
    """The one for this process's stdout."""
    if as_json:
        return JsonLines()
    return Terminal() if sys.stdout.isatty() else Plain()


def _write(text: str) -> None:
    """One write for each block, so that a reader of the pipe gets it whole."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
