"""All secrets of a file of any size, in time that is linear in it.

One pass of numpy over a file tells which pieces of it may hold one (`candidates`); only those are searched,
each once, in bounded steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from kerncap.format.private import contexts, secret_patterns
from kerncap.format.private.candidates import NAMES, PIECE, RUNS, URLS, Bits, kinds_of_pieces, pattern_bit

Span = tuple[int, int, str]


def secrets_of(
    data: bytes, by_name: bool = True, searched: Callable[[int], None] | None = None
) -> list[Span]:
    """(start, stop, what) of every secret, in order, none inside another.

    ``by_name``: also what only its name tells, which in an image no name does. ``searched`` gets bytes done.
    """
    found = list(secret_patterns.keys_in(data))
    kinds = kinds_of_pieces(data, searched)
    if not kinds.any():
        return found
    if by_name:
        for begin, end in _ranges(kinds, NAMES, len(data)):
            found += contexts.named(data, begin, end)
    for begin, end in _ranges(kinds, URLS, len(data)):
        found += contexts.of_urls(data, begin, end)
    text = data.decode("latin-1")
    for number, pattern in enumerate(secret_patterns.patterns()):
        bit = RUNS if pattern.triggers is None else pattern_bit(number)
        for begin, end in _ranges(kinds, bit, len(data)):
            found += pattern.find(data, text, begin, end)
    return merged(found)


def merged(found: Iterable[Span]) -> list[Span]:
    """Spans in order; those that overlap become one."""
    out: list[Span] = []
    for start, stop, what in sorted(found, key=lambda one: (one[0], -one[1])):
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], stop), out[-1][2])
        elif start < stop:
            out.append((start, stop, what))
    return out


def _ranges(kinds: Bits, bit: int, size: int) -> Iterator[tuple[int, int]]:
    """(begin, end) of the parts of a file that may hold something of one kind."""
    flags = np.concatenate(([False], (kinds & np.uint32(bit)) != 0, [False]))
    edges = np.flatnonzero(flags[1:] != flags[:-1])
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield first * PIECE, min(size, last * PIECE)
