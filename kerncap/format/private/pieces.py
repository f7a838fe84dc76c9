"""All secrets of a file of any size, in time that is linear in it.

One pass of numpy over a file tells which pieces of it hold the beginning of a name, a prefix or a URL;
only those are searched, each once, in bounded steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from kerncap.format.private import contexts, shapes

PIECE = 512
_BLOCK = 1 << 20
_LONG_RUN = 24

Span = tuple[int, int, str]
Bits = npt.NDArray[np.uint32]
_NAMES, _URLS = 1, 2  # bits of a piece; those of the shapes follow
_RUNS = 1 << 31


def secrets_of(
    data: bytes, by_name: bool = True, searched: Callable[[int], None] | None = None
) -> list[Span]:
    """(start, stop, what) of every secret, in order, none inside of another.

    ``by_name``: also what only its name tells, which in an image no name does. ``searched`` gets bytes done.
    """
    found = list(shapes.keys_in(data))
    kinds = _kinds(data, searched)
    if not kinds.any():
        return found
    if by_name:
        for begin, end in _ranges(kinds, _NAMES, len(data)):
            found += contexts.named(data, begin, end)
    for begin, end in _ranges(kinds, _URLS, len(data)):
        found += contexts.of_urls(data, begin, end)
    text = data.decode("latin-1")
    for number, shape in enumerate(shapes.shapes()):
        bit = _RUNS if shape.triggers is None else _shape_bit(number)
        for begin, end in _ranges(kinds, bit, len(data)):
            found += shape.find(data, text, begin, end)
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


def _shape_bit(number: int) -> int:
    return 4 << number


def _ranges(kinds: Bits, bit: int, size: int) -> Iterator[tuple[int, int]]:
    """(begin, end) of the parts of a file that may hold something of one kind."""
    flags = np.concatenate(([False], (kinds & np.uint32(bit)) != 0, [False]))
    edges = np.flatnonzero(flags[1:] != flags[:-1])
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield first * PIECE, min(size, last * PIECE)


def _kinds(data: bytes, searched: Callable[[int], None] | None) -> Bits:
    """For each piece the kinds of secrets that may begin in it."""
    table = _table()
    found = []
    for begin in range(0, len(data), _BLOCK):
        block = np.frombuffer(data, np.uint8, min(_BLOCK + 64, len(data) - begin), begin)
        count = (min(_BLOCK, len(data) - begin) + PIECE - 1) // PIECE
        kinds = np.zeros(count, np.uint32)
        if len(block) >= 3:
            bits = _bits(block, table)[: count * PIECE]
            reduced = np.bitwise_or.reduceat(bits, np.arange(0, len(bits), PIECE))
            kinds[: len(reduced)] = reduced
        kinds |= _long_runs(block, count)
        found.append(kinds)
        if searched is not None:
            searched(min(len(data), begin + _BLOCK))
    kinds_of_all: Bits = np.concatenate(found) if found else np.zeros(0, np.uint32)
    return kinds_of_all


def _bits(block: npt.NDArray[np.uint8], table: Bits) -> Bits:
    """For each byte what may begin there."""
    low = (block & 31).astype(np.uint16)
    code = low[:-2] << 10
    code |= low[1:-1] << 5
    code |= low[2:]
    found: Bits = table[code]
    return found


def _long_runs(block: npt.NDArray[np.uint8], count: int) -> Bits:
    """For each piece whether a run of letters and digits that is long enough for a token reaches into it."""
    ends = np.flatnonzero(~_word_letters()[block])
    edges = np.concatenate(([-1], ends, [len(block)]))
    long = np.flatnonzero(np.diff(edges) > _LONG_RUN)
    first = np.minimum((edges[long] + 1) // PIECE, count - 1)
    last = np.minimum((edges[long + 1] - 1) // PIECE, count - 1)
    out = np.bincount(first, minlength=count + 1) - np.bincount(last + 1, minlength=count + 1)
    found: Bits = np.where(np.cumsum(out)[:count] > 0, np.uint32(_RUNS), np.uint32(0))
    return found


@functools.cache
def _table() -> Bits:
    """What the first three letters of each trigger, with case and the like taken off, may begin."""
    table = np.zeros(1 << 15, np.uint32)
    kinds = [(_NAMES, contexts.STEMS), (_URLS, (b"://",))]
    kinds += [(_shape_bit(n), shape.triggers or ()) for n, shape in enumerate(shapes.shapes())]
    for bit, triggers in kinds:
        for trigger in triggers:
            a, b, c = (byte & 31 for byte in trigger[:3])
            table[a << 10 | b << 5 | c] |= np.uint32(bit)
    return table


@functools.cache
def _word_letters() -> npt.NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    for byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-":
        table[byte] = True
    return table
