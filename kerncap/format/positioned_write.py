"""Bytes into their place in a file that several threads write."""

from __future__ import annotations

import os
from collections.abc import Sequence

_MOST_PARTS = 1000  # of one call, IOV_MAX is 1024

Part = bytes | memoryview


def write_parts(fd: int, offset: int, parts: Sequence[Part]) -> None:
    """Put ``parts`` one after the other from ``offset`` on. Raises OSError, if there is no room say."""
    for first in range(0, len(parts), _MOST_PARTS):
        left = [memoryview(part).cast("B") for part in parts[first : first + _MOST_PARTS]]
        while left:
            written = os.pwritev(fd, left, offset)
            offset += written
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if written:
                left[0] = left[0][written:]
