"""Single keys of a terminal, which is left as it was found."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from types import FrameType, TracebackType
from typing import Any


class Keys:
    """A context manager; `wait` is what the loop sleeps in. Without a terminal there are no keys."""

    def __init__(self) -> None:
        self._fd = -1
        self._saved: list[Any] | None = None
        self._continued: Any = None
        if sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
            self._fd = sys.stdin.fileno()

    @property
    def there(self) -> bool:
        return self._fd >= 0

    def __enter__(self) -> Keys:
        if self.there:
            self._saved = termios.tcgetattr(self._fd)
            self._continued = signal.signal(signal.SIGCONT, self._again)
            self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.there:
            self.give()
            signal.signal(signal.SIGCONT, self._continued)

    def take(self) -> None:
        """Keys come one by one and unseen; Ctrl-C stays a signal."""
        if self.there:
            tty.setcbreak(self._fd)

    def give(self) -> None:
        """The terminal as it was: an editor, or the shell, is next."""
        if self._saved is not None:
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)

    def wait(self, timeout_s: float) -> str:
        """The next key, or nothing when the time is up."""
        if not self.there:
            time.sleep(timeout_s)
            return ""
        ready, _, _ = select.select([self._fd], [], [], timeout_s)
        if not ready:
            return ""
        try:
            data = os.read(self._fd, 32)
        except OSError:
            data = b""
        if not data:
            raise KeyboardInterrupt  # the terminal was closed
        return data[:1].decode("ascii", "replace") if data[:1] != b"\x1b" else ""

    def _again(self, _signal: int, _frame: FrameType | None) -> None:
        self.take()  # the shell has set its own way while this was stopped
