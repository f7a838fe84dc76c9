"""Files that the user names are opened here: only regular ones, read no further than they may be long.

A FIFO keeps its reader waiting and a device has no end; opening some devices does something by itself.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from kerncap import unexpected_error
from kerncap.errors import UsageError
from kerncap.printable import visible

# O_NONBLOCK: a FIFO that takes the file's place meanwhile must not wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_PIECE = 1 << 20


def open_regular(path: Path | str, limit: int | None = None) -> BinaryIO:
    """Open ``path``, links followed, for reading; the caller closes it.

    ``limit``: the size in bytes that it may have. Raises UsageError if it is missing, larger or not regular.
    """
    fd = -1
    try:
        _check(path, os.stat(path), limit)
        fd = os.open(path, _FLAGS)
        _check(path, os.fstat(fd), limit)
        return os.fdopen(fd, "rb")
    except BaseException as error:
        if fd >= 0:
            os.close(fd)
        if isinstance(error, OSError):
            raise unexpected_error.about(path, error, "can't be read") from error
        if isinstance(error, ValueError):  # a NUL in the name
            raise UsageError(f"{visible(path)}: can't be read: not a path; give another one") from error
        raise


def read_regular(path: Path | str, limit: int) -> bytes:
    """The bytes of the regular file ``path``, at most ``limit`` of them. Raises UsageError."""
    data = bytearray()
    with open_regular(path, limit) as file:
        try:
            while piece := file.read(min(_PIECE, limit + 1 - len(data))):
                data += piece
                if len(data) > limit:  # it grows, or has no size to be asked for (/proc)
                    raise UsageError(_too_large(path, len(data), limit))
        except OSError as error:
            raise unexpected_error.about(path, error, "can't be read") from error
    return bytes(data)


def read_regular_text(path: Path | str, limit: int) -> str:
    """The text of the regular file ``path``, which must be UTF-8. Raises UsageError."""
    data = read_regular(path, limit)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{visible(path)}: byte {error.start}: not UTF-8") from error


def _check(path: Path | str, info: os.stat_result, limit: int | None) -> None:
    if not stat.S_ISREG(info.st_mode):
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "no regular file")
        raise UsageError(f"{visible(path)}: {kind}; give a regular file")
    if limit is not None and info.st_size > limit:
        raise UsageError(_too_large(path, info.st_size, limit))


def _too_large(path: Path | str, size: int, limit: int) -> str:
    return f"{visible(path)}: {size:,} bytes or more; at most {limit:,} are read"
