"""The command line on a terminal, in this process: a start of its own costs more than most commands do."""

from __future__ import annotations

import os
import pty
import sys
import termios
import threading
from dataclasses import dataclass

import pytest

from kerncap.cli import main
from kerncap.printable import printable


@dataclass(frozen=True)
class Seen:
    """What came out on the terminal, both streams together."""

    status: int
    text: str

    @property
    def raw(self) -> str:
        """The characters that should have been escaped, as escapes and in order."""
        return "".join(ascii(c)[1:-1] for c in self.text if printable(c) != c)


def on_terminal(monkeypatch: pytest.MonkeyPatch, *words: object) -> Seen:
    """``kerncap WORDS`` with both streams on a new terminal, which changes nothing of what is written."""
    master, slave = pty.openpty()
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    data = bytearray()

    def read() -> None:
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # no writer is left
                return
            if not piece:
                return
            data.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with open(slave, "w", encoding="utf-8", errors="surrogateescape", closefd=True) as stream:
            with monkeypatch.context() as patched:
                patched.setattr(sys, "stdout", stream)
                patched.setattr(sys, "stderr", stream)
                status = main([str(word) for word in words])
    finally:
        reader.join()
        os.close(master)
    return Seen(status, data.decode("utf-8", "backslashreplace"))
