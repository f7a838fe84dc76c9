"""``%load_ext kerncap`` in IPython and Jupyter: ``%kerncap COMMAND``, and ``%%kerncap`` before a program.

Each command is a process of its own, as in a shell: nothing of it is loaded into the notebook's.
"""

from __future__ import annotations

import codecs
import html
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from kerncap import child, printable, scratch
from kerncap.exit_status import ExitStatus

_REPORT_S = 600.0  # for one that asks z3


class Page:
    """An HTML page in a frame of its own, which reaches neither the notebook nor the network."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 50em; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(self.text)}"></iframe>'


class Reproducer:
    """A reproducer as a notebook shows it; as text it is its path, so ``%kerncap verify {it}`` works."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return shlex.quote(str(self.path))

    def __repr__(self) -> str:
        return f"Reproducer({str(self.path)!r})"

    def _repr_html_(self) -> str:
        done = child.run_text(_words("inspect", str(self.path)), cwd=Path.cwd(), timeout=_REPORT_S)
        summary = html.escape(printable.visible(self.path.name))
        text = html.escape(done.stdout + done.stderr)
        return f"<details><summary>{summary}</summary><pre>{text}</pre></details>"

    def report(self) -> Page:
        """The page of ``kerncap report``. Raises RuntimeError with its error message."""
        with scratch.temporary("report") as folder:
            page = Path(folder) / "page.html"
            words = _words("report", str(self.path), "-o", str(page))
            done = child.run_text(words, cwd=Path.cwd(), timeout=_REPORT_S)
            if done.returncode:
                raise RuntimeError(done.stderr.strip())
            return Page(page.read_text())


class Reproducers(list[Reproducer]):
    """What a command captured, in order."""

    def _repr_html_(self) -> str:
        return "".join(each._repr_html_() for each in self)


def load(shell: Any) -> None:
    """Register the magic with an IPython ``InteractiveShell``."""

    def magic(line: str, cell: str | None = None) -> Reproducers | None:
        """A command of kerncap; with %%, the cell is the program. `%kerncap --help` lists the commands."""
        try:
            status, found = run(shlex.split(line), cell)
        except (OSError, ValueError) as error:
            print(f"kerncap: {printable.visible(str(error))}")
            status, found = ExitStatus.USAGE, None
        shell.user_ns["_exit_code"] = status  # as IPython itself does for `!`
        return found

    shell.register_magic_function(magic, "line_cell", "kerncap")


def run(words: Sequence[str], cell: str | None = None) -> tuple[int, Reproducers | None]:
    """``kerncap WORDS`` with its output printed as it comes; its exit status, and what `capture` captured.

    ``cell`` is run by this Python, as a script of the current folder. Raises KeyboardInterrupt after the
    command has ended by it, OSError, and ValueError if the words name a program as well.
    """
    if cell is None:
        return _run(words)
    if "--" in words:
        raise ValueError("%%kerncap: the cell is the program; leave out -- and what follows it")
    with scratch.file("cell", Path.cwd(), hidden=True) as file:
        file.path.write_text(cell)
        return _run([*words, "--", sys.executable, "-u", str(file.path)])


def _run(words: Sequence[str]) -> tuple[int, Reproducers | None]:
    captures = words[:1] == ["capture"] and "--json" not in words
    if not captures:
        return _streamed(words, subprocess.STDOUT, None), None
    with tempfile.TemporaryFile() as document:
        status = _streamed(["capture", "--json", *words[1:]], subprocess.PIPE, document)
        document.seek(0)
        text = document.read()
    # A mistake in the words is a line and no document.
    return status, Reproducers(map(Reproducer, json.loads(text)["captured"])) if text else None


def _streamed(words: Sequence[str], stderr: int, stdout: IO[bytes] | None) -> int:
    """Run it and print what comes; ``stdout``, if given, gets that stream. Its status."""
    process = child.Child(
        _words(*words), cwd=Path.cwd(), env=child.for_kerncap(), stderr=stderr,
        stdout=stdout or subprocess.PIPE,
    )  # fmt: skip
    source = process.stdout or process.stderr
    assert source is not None
    interrupted: KeyboardInterrupt | None = None
    with process, source:
        while True:
            try:
                _print(source.fileno(), process)
                break
            except KeyboardInterrupt as error:
                if interrupted:
                    process.end()
                interrupted = error
                os.killpg(process.pid, signal.SIGINT)
    if interrupted:
        raise interrupted
    return process.returncode


def _print(source: int, process: subprocess.Popen[bytes]) -> None:
    """All that comes, until its end, or what is there when the process ends: others may hold the pipe."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        has_ended = process.poll() is not None
        if select.select([source], [], [], 0 if has_ended else 0.1)[0]:
            block = os.read(source, 1 << 16)
            sys.stdout.write(decoder.decode(block, final=not block))
            sys.stdout.flush()
            if not block:
                return
        elif has_ended:
            return


def _words(*words: str) -> list[str]:
    return child.kerncap("kerncap.cli", *words)
