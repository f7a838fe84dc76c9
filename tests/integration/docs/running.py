"""Runs a page: one shell, one folder of its own, commands in order, each held against what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.integration import forked_commands
from tests.integration.docs.pages import Command, Reproducers, commands, given, script
from tests.integration.docs.shown_output import differs
from tests.integration.small_softmax import small_softmax

ROOT = Path(__file__).parents[3]
# Python frames below those of a program that is a fork: see `forked_targets`.
_OF_FORKS = re.compile(r"/(?:kerncap/capture/target|tests/integration/forked_\w+)\.py:\d+ in ")


class Shell:
    """A bash in ``folder`` that reads commands one by one; stderr goes where stdout goes, as in a window."""

    def __init__(self, folder: Path, configuration: Path) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, env=_environment(configuration), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        )  # fmt: skip

    def run(self, text: str) -> tuple[int, list[str]]:
        """Exit status and lines of one command."""
        assert self._process.stdin is not None and self._process.stdout is not None
        # Its own stdin is empty: what reads from it must not eat the commands to come.
        body = text if "<<" in text or text.startswith(("export ", "cd ")) else f"{{ {text}\n}} < /dev/null"
        self._process.stdin.write(script(body))
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith("\036"):
                if lines and not lines[-1]:
                    lines.pop()  # the newline before the mark
                return int(line[1:]), lines
            lines.append(line.rstrip("\n"))
        return self._process.wait(), lines

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=300)


def run_page(page: Path, folder: Path, reproducers: dict[str, Path], configuration: Path) -> None:
    """Fails at the first command whose status or output is another than the page says.

    ``configuration``: the folder of what is trusted, in which ``reproducers`` were captured.
    """
    text = page.read_text()
    (folder / "samples").mkdir()
    for sample in (ROOT / "samples").iterdir():
        (folder / "samples" / sample.name).symlink_to(sample)
    (folder / "samples" / "softmax").unlink()
    small_softmax(folder / "samples" / "softmax")  # no page's numbers are compared
    for name in given(text):
        shutil.copytree(reproducers[name], folder / "kerncap-out" / reproducers[name].name)
    known = Reproducers()
    shell = Shell(folder, configuration)
    try:
        for command in commands(text):
            _run_one(shell, page, command, known)
    finally:
        shell.close()


def _run_one(shell: Shell, page: Path, command: Command, known: Reproducers) -> None:
    text = known.translate(command.text, shell.folder)
    status, printed = shell.run(text)
    where = f"{page.name}:{command.line}: $ {text}"
    said = "\n".join(printed[-60:])
    as_said = status == 0 or (status in (1, 2, 3, 4, 5) and command.may_fail)
    assert as_said, f"{where}\nended with status {status}:\n{said}"
    compared = [line for line in printed if not _OF_FORKS.search(line)]
    wrong = differs(command.shown, compared)
    if differs(command.exchanged, compared) is None:
        wrong = None
    assert wrong is None, f"{where}\n{wrong}\nall that was printed:\n{said}"


def _environment(configuration: Path) -> dict[str, str]:
    """A user's: this Python's commands first, nothing remembered, the interpreter where there is no GPU."""
    found = dict(os.environ)
    commands = [str(forked_commands.client().parent), str(Path(sys.executable).parent)]
    found["PATH"] = os.pathsep.join([*commands, found["PATH"]])
    if not Path("/dev/nvidia0").exists():
        found["TRITON_INTERPRET"] = "1"
    found["XDG_CONFIG_HOME"] = str(configuration)
    found["COLUMNS"] = "120"
    found.pop("KERNCAP_SANITIZER_STRICT", None)
    return found
