"""Which pages of this process's memory anything backs: what was never touched need not be copied."""

from __future__ import annotations

import array
import os
from typing import List, Tuple

PAGE = os.sysconf("SC_PAGE_SIZE")
_ENTRY = 8
_BACKED = 0b11 << 62  # in memory, or swapped out. Source: Linux, Documentation/admin-guide/mm/pagemap.rst
_AT_ONCE = 1 << 16  # bytes of the map: 32 MiB of memory


def ranges(address: int, size: int) -> List[Tuple[int, int]]:
    """[start, end) from ``address``, in order, of what is backed; all else reads as zeros.

    Only of private anonymous memory: of a file's mapping, what was not read yet is not backed either, and
    counts as backed here. Raises OSError if the kernel does not tell.
    """
    if not _is_anonymous(address, size):
        return [(0, size)]
    first, last = address // PAGE, (address + size - 1) // PAGE
    runs: List[List[int]] = []
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        pagemap.seek(first * _ENTRY)
        page = first
        while page <= last:
            data = pagemap.read(min(_AT_ONCE, (last + 1 - page) * _ENTRY))
            if not data:
                raise OSError("the map of pages ends early")
            if data.count(0) == len(data):  # nothing of it, which is quicker than a look at each
                page += len(data) // _ENTRY
                continue
            entries = array.array("Q", data)
            for at, entry in enumerate(entries, page):
                if entry & _BACKED:
                    if runs and runs[-1][1] == at:
                        runs[-1][1] = at + 1
                    else:
                        runs.append([at, at + 1])
            page += len(entries)
    return [(max(low * PAGE - address, 0), min(high * PAGE - address, size)) for low, high in runs]


def _is_anonymous(address: int, size: int) -> bool:
    """Whether the range lies in mappings that no file and no shared memory is behind."""
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            fields = line.split(None, 5)
            low, high = (int(part, 16) for part in fields[0].split(b"-"))
            if high <= address or low >= address + size:
                continue
            if fields[4] != b"0" or fields[1][3:4] != b"p":
                return False
    return True
