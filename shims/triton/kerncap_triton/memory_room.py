"""Whether a file that lives in memory may grow: a memfd, or a session folder on a tmpfs.

Past the limit of a memory cgroup no call fails, fallocate does not either: the kernel ends a process of the
group, which is the target. So the limit is asked first.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from typing import Dict, Iterator

RESERVE = 64 << 20  # is left to the target
_IN_MEMORY = (0x01021994, 0x858458F6)  # tmpfs (a memfd too), ramfs
_CGROUPS = "/sys/fs/cgroup"
_libc = ctypes.CDLL(None, use_errno=True)


class Room:
    """Counts what is written to one file; asks the system again only when half of the last answer is used."""

    def __init__(self, fd: int) -> None:
        self._in_memory = lives_in_memory(fd)
        self._left = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Before that many bytes are written. OSError if memory would get short."""
        if not self._in_memory:
            return
        with self._lock:
            self._left -= size
            if self._left < 0:
                free = available_memory() - RESERVE - size
                if free < 0:
                    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
                self._left = free // 2


def lives_in_memory(fd: int) -> bool:
    status = (ctypes.c_long * 32)()  # a struct statfs, and more; f_type comes first
    return _libc.fstatfs(fd, status) == 0 and int(status[0]) & 0xFFFFFFFF in _IN_MEMORY


def available_memory() -> int:
    """Bytes that this process may still take, by the machine and by every memory cgroup that it is in."""
    least = 1 << 62
    try:
        least = _numbers("/proc/meminfo").get("MemAvailable:", least >> 10) << 10
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return least
    for line in lines:
        for left in _left_in_groups(line):
            least = min(least, left)
    return least


def _left_in_groups(line: str) -> Iterator[int]:
    """Of a line of /proc/self/cgroup: what its groups leave, from the process's own up to the top."""
    number, kinds, path = line.split(":", 2)
    if "memory" in kinds.split(","):
        base, limit, usage, cache = (
            f"{_CGROUPS}/memory",
            "limit_in_bytes",
            "usage_in_bytes",
            "total_inactive_file",
        )
    elif number == "0" and not kinds:
        base, limit, usage = _CGROUPS, "max", "current"
        cache = "inactive_file"
    else:
        return
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts), -1, -1):
        folder = "/".join([base, *parts[:depth]])
        try:
            with open(f"{folder}/memory.{limit}", encoding="ascii") as file:
                most = int(file.read())  # "max": no limit
            with open(f"{folder}/memory.{usage}", encoding="ascii") as file:
                used = int(file.read())
            # What is only cached of files goes before anything is short.
            yield most - used + _numbers(f"{folder}/memory.stat").get(cache, 0)
        except (OSError, ValueError):
            continue


def _numbers(path: str) -> Dict[str, int]:
    """The lines `name number …` of a file."""
    with open(path, encoding="ascii", errors="replace") as file:
        words = (line.split() for line in file)
        return {each[0]: int(each[1]) for each in words if len(each) > 1 and each[1].isdigit()}
