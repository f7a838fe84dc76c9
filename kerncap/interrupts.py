"""SIGINT, SIGTERM and SIGHUP end a command in order: as an exception that every `finally` sees.

A signal that was ignored when kerncap was started stays ignored: `nohup`, and background jobs of a script.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from kerncap import scratch

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# `timeout` and a terminal that closes signal a process twice at once. Who waited this long means it.
_IMPATIENT_AFTER_S = 1.0
_last_s = 0.0


class Interrupted(KeyboardInterrupt):
    """A signal that ends the command; ``number`` says which."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_status(self) -> int:
        """What a shell shows for a process that the signal ended."""
        return 128 + self.number

    def __str__(self) -> str:
        name = signal.Signals(self.number).name
        return "interrupted" if self.number == signal.SIGINT else f"interrupted by {name}"


def of(error: BaseException) -> Interrupted:
    """``error``, or what it was raised from, as a signal: libraries raise errors of their own for one."""
    found = _in(error)
    return found if found is not None else Interrupted()


@contextlib.contextmanager
def raised(for_good: bool = False) -> Iterator[None]:
    """Inside, these signals raise `Interrupted` in the main thread. In another thread it does nothing.

    ``for_good``: nothing follows but the end of the process, which they may end at once then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: handler
        for number in ENDING
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN and handler is not None
    }
    for number in before:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if for_good else handler)


def end(number: int) -> NoReturn:
    """End this process by the signal itself, so that a script that runs it ends, too."""
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # process 1 of a container takes no such signal


def _raise(number: int, _frame: FrameType | None) -> None:
    global _last_s
    # What runs at this moment is the end of the first one: its clean-up must not be cut short.
    if _in(sys.exc_info()[1]) is None:
        _last_s = time.monotonic()
        raise Interrupted(number)
    if time.monotonic() - _last_s > _IMPATIENT_AFTER_S:
        scratch.remove_all()
        end(number)


def _in(error: BaseException | None) -> Interrupted | None:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Interrupted):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None
