"""What the hook and the shims could not record: they leave an empty file if a record found no room."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

_MARK = re.compile(r"unwritten-(\d{1,4})-(\d{1,10})")
_NUMBER = re.compile(r"\[Errno (\d{1,4})\]")
_DISK = "the session is next to the output; choose another disk with -o"
_REMEDIES = {
    errno.ENOSPC: _DISK,
    errno.EDQUOT: _DISK,
    errno.EIO: _DISK,
    errno.EROFS: _DISK,
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
}


def unwritten(folder: Path) -> dict[int, int]:
    """By process, the number of the error that kept a record of it from the session."""
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    found = (match for match in map(_MARK.fullmatch, names) if match)
    return {int(match[2]): int(match[1]) for match in found}


def because(number: int) -> str:
    """The error in words, and what to do about it."""
    remedy = _REMEDIES.get(number)
    return os.strerror(number) + (f"; {remedy}" if remedy else "")


def with_remedy(reason: str) -> str:
    """The reason of a failure as a hook gave it; the remedy is added to what the system said of a disk."""
    said = _NUMBER.search(reason)
    remedy = _REMEDIES.get(int(said[1])) if said else None
    return f"{reason}; {remedy}" if remedy else reason
