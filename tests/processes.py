"""The processes that a process started."""

from __future__ import annotations

from pathlib import Path


def children(pid: int) -> list[int]:
    """Source: proc(5), /proc/PID/task/TID/children."""
    lists = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for some in lists for child in some]


def descendants(pid: int) -> list[int]:
    """Its children, each before its own."""
    return [each for child in children(pid) for each in (child, *descendants(child))]
