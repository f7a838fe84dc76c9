"""Which entries of a search path (PATH, PYTHONPATH) may be followed: none with a stranger's files in it.

Imported before anything else is, by whatever stands in PYTHONPATH: it needs nothing but `os`.
"""

from __future__ import annotations

import os

_HEAD_BYTES = 1 << 16


def kept(entries: str) -> str:
    """A search path without its empty and relative entries, and without those inside a reproducer."""
    return os.pathsep.join(entry for entry in entries.split(os.pathsep) if is_safe(entry))


def is_safe(entry: str) -> bool:
    """Whether an entry of a search path neither means the current folder nor leads into a reproducer."""
    return os.path.isabs(entry) and not inside_reproducer(entry)


def inside_reproducer(path: str) -> bool:
    """Whether a folder is a reproducer, or lies in one."""
    for start in {os.path.normpath(path), os.path.realpath(path)}:
        folder = start
        while True:
            if _is_reproducer(folder):
                return True
            above = os.path.dirname(folder)
            if above == folder:
                break
            folder = above
    return False


def _is_reproducer(folder: str) -> bool:
    if not os.path.isfile(os.path.join(folder, "manifest.json")):  # a FIFO would be waited for
        return False
    if os.path.isdir(os.path.join(folder, "memory")):
        return True
    try:
        with open(os.path.join(folder, "manifest.json"), "rb") as file:
            return b"kerncap-reproducer" in file.read(_HEAD_BYTES)
    except OSError:
        return False
