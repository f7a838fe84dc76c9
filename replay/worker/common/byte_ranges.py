"""Ranges [start, stop) of bytes, ascending and apart; of a sparse file, those that are not holes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

Range = tuple[int, int]


def union(*several: Iterable[Range]) -> list[Range]:
    """What is in any of them."""
    found: list[Range] = []
    for start, stop in sorted(one for ranges in several for one in ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        elif start < stop:
            found.append((start, stop))
    return found


def minus(ranges: Iterable[Range], without: list[Range]) -> list[Range]:
    """What is in ``ranges`` and not in ``without``."""
    found: list[Range] = []
    at = 0
    for start, stop in ranges:
        while at < len(without) and without[at][1] <= start:
            at += 1
        one = at
        while one < len(without) and without[one][0] < stop:
            if start < without[one][0]:
                found.append((start, without[one][0]))
            start = max(start, without[one][1])
            one += 1
        if start < stop:
            found.append((start, stop))
    return found


def common(ranges: list[Range], others: list[Range]) -> list[Range]:
    """What is in both."""
    return minus(ranges, minus(ranges, others))


def clipped(ranges: Iterable[Range], start: int, stop: int, alignment: int = 1) -> list[Range]:
    """What lies in [start, stop), each end of it moved outwards to a multiple of ``alignment``."""
    return union(
        (max(start, low // alignment * alignment), min(stop, -(-high // alignment) * alignment))
        for low, high in ranges
        if low < stop and high > start
    )


def data_of(file: int, start: int, size: int) -> list[Range]:
    """What of [start, start + size) of a file is no hole, counted from ``start``.

    Source: lseek(2), SEEK_DATA; a file system without holes has one range.
    """
    found: list[Range] = []
    at, end = start, start + size
    while at < end:
        try:
            data = os.lseek(file, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole from here on
                break
            return [(0, size)]
        if data >= end:
            break
        at = min(os.lseek(file, data, os.SEEK_HOLE), end)
        found.append((data - start, at - start))
    return found
