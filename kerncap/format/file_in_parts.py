"""A file whose parts several threads write at once.

write(2) holds a file's lock while it copies. That suits a disk; a memory-backed file is mapped instead, with
its room reserved first: a page that can't be had would end the process.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kerncap.scratch import SHARED_MEMORY

_MAPPED_FROM = 64 << 20  # a small file is written before a thread gets into another's way
# Bytes that are mapped at once; an earlier window stays only until it is written.
_WINDOW = 256 << 20
_MOST_PARTS = 1000  # of one call, IOV_MAX is 1024

Part = bytes | memoryview


class FileInParts:
    """``fd`` stays the caller's and is open for reading and writing; nothing else writes to it meanwhile.

    After the last `write` the file may be longer than what was written: `finish` gives it its size.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._windows: dict[int, npt.NDArray[np.uint8]] = {}
        self._in_memory = _is_in_memory(fd)

    def write(self, offset: int, parts: Sequence[Part]) -> None:
        """Put ``parts`` one after the other from ``offset`` on. Raises OSError, if there is no room say."""
        if not self._in_memory or offset < _MAPPED_FROM:
            _write_all(self._fd, offset, parts)
            return
        os.posix_fallocate(self._fd, offset, sum(len(part) for part in parts))
        for part in parts:
            data = np.frombuffer(part, np.uint8)
            while len(data):
                number, inside = divmod(offset, _WINDOW)
                here = data[: _WINDOW - inside]
                self._window(number)[inside : inside + len(here)] = here
                data, offset = data[len(here) :], offset + len(here)

    def finish(self, size: int) -> None:
        """Let go of what is mapped and give the file its ``size`` in bytes; every `write` has returned."""
        self._windows.clear()
        if os.fstat(self._fd).st_size != size:
            os.ftruncate(self._fd, size)

    def _window(self, number: int) -> npt.NDArray[np.uint8]:
        with self._lock:
            window = self._windows.get(number)
            if window is None:
                end = (number + 1) * _WINDOW
                if os.fstat(self._fd).st_size < end:
                    os.ftruncate(self._fd, end)
                mapped = mmap.mmap(self._fd, _WINDOW, offset=number * _WINDOW)
                window = self._windows[number] = np.frombuffer(mapped, np.uint8)
                for old in [old for old in self._windows if old < number - 1]:
                    del self._windows[old]
            return window


def _is_in_memory(fd: int) -> bool:
    try:
        return os.fstat(fd).st_dev == os.stat(SHARED_MEMORY).st_dev
    except OSError:
        return False


def _write_all(fd: int, offset: int, parts: Sequence[Part]) -> None:
    for first in range(0, len(parts), _MOST_PARTS):
        left = [memoryview(part).cast("B") for part in parts[first : first + _MOST_PARTS]]
        while left:
            written = os.pwritev(fd, left, offset)
            offset += written
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if written:
                left[0] = left[0][written:]
