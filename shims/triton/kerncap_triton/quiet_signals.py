"""Keeps what our own writes would do to the target from it, as shims/common/quiet_signals.h does.

A file past the limit on file sizes sends SIGXFSZ, a closed socket SIGPIPE. Python ignores both at first, but
a target may have given them back their default, which ends the process.
"""

from __future__ import annotations

import ctypes
import signal
from typing import Any

_libc = ctypes.CDLL(None)
_Set = ctypes.c_ulong * (128 // ctypes.sizeof(ctypes.c_ulong))  # sigset_t of glibc and musl
_NOW = (ctypes.c_long * 2)()  # a timespec of 0


def _set_of(*numbers: int) -> Any:
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    made = _Set()
    for number in numbers:
        made[(number - 1) // bits] |= 1 << (number - 1) % bits
    return made


_OURS = _set_of(signal.SIGXFSZ, signal.SIGPIPE)


class QuietSignals:
    """Both signals are blocked on this thread for the length of a `with`; what came in it is taken away.

    Through the C library: Python's own functions run the target's pending signal handlers.
    """

    def __enter__(self) -> None:
        self._pending, self._before = _Set(), _Set()
        _libc.sigpending(self._pending)
        _libc.pthread_sigmask(signal.SIG_BLOCK, _OURS, self._before)

    def __exit__(self, *_: Any) -> None:
        # What was pending before is the target's.
        ours = _Set(*(mine & ~theirs for mine, theirs in zip(_OURS, self._pending)))
        while _libc.sigtimedwait(ours, None, _NOW) > 0:
            pass
        _libc.pthread_sigmask(signal.SIG_SETMASK, self._before, None)
