"""A heap that keeps what is freed: the arrays of an evaluation are made and dropped again and again."""

from __future__ import annotations

import ctypes

# Parameters of mallopt. Source: glibc, malloc.h
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
_LARGEST_BLOCK = 32 << 20  # bytes, the most that glibc takes; a larger one goes back at once
_MOST_KEPT = 128 << 20


def keep() -> None:
    """For kerncap's own process, before its threads: they share what is kept.

    By default each free of some megabytes goes to the system, and each page of the next array is asked for
    again, which took more than half of an evaluation's time. Does nothing for a libc without `mallopt`.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
