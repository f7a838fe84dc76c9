"""A program in a terminal: what it writes, and keys for it, through tmux.

Nothing waits by the clock: the pane's output comes through a pipe, and is read until it says what it must.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import time
from pathlib import Path

_LONGEST_S = 300.0
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>])|\r")


class Pane:
    """A program in a terminal of 150 columns; all that it writes."""

    def __init__(self, folder: Path, environment: dict[str, str], command: list[str]) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        fifo = folder / "pane"
        os.mkfifo(fifo)
        self._output = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self._keep = os.open(fifo, os.O_WRONLY)  # so that no reader sees an end between two writers
        self.text = ""
        self._seen = 0
        # The program starts when the pipe is there: nothing that it writes is lost.
        start = f'{self._word("wait-for", "piped")} && {shlex.join(command)}; echo "[ended: $?]"'
        self._call("new-session", "-d", "-x", "150", "-y", "50", "-c", str(folder), start, env=environment)
        self._call("pipe-pane", f"exec cat > {shlex.quote(str(fifo))}")
        self._call("wait-for", "-S", "piped")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)
        os.close(self._output)
        os.close(self._keep)

    def until(self, marker: str) -> str:
        """What was written up to and with ``marker`` (a pattern), after what was looked for before."""
        deadline = time.monotonic() + _LONGEST_S
        while (found := re.compile(marker).search(self.text, self._seen)) is None:
            ready, _, _ = select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {marker!r} within {_LONGEST_S:g} s in:\n{self.text}"
            data = os.read(self._output, 1 << 16).decode(errors="replace")
            self.text = _ESCAPES.sub("", self.text + data)
        text = self.text[self._seen : found.end()]
        self._seen = found.end()
        return text

    def verdict(self) -> str:
        """The next judgement, to its last line."""
        return self.until(r"(save|run) \d+ (PASS|FAIL)[^\n]*\n(?s:.*?)q quit")

    def press(self, key: str) -> None:
        self._call("send-keys", "-l", key)

    def status(self) -> int:
        """How the program ended, when it has."""
        return int(self.until(r"\[ended: \d+\]").rpartition(" ")[2].rstrip("]"))

    def _word(self, *arguments: str) -> str:
        return shlex.join([*self._tmux, *arguments])

    def _call(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run([*self._tmux, *arguments], env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout
