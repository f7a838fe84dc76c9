"""Sets of bytes of a region, kept by page: what is the same for a whole page costs one byte for all of it.

A launch may touch 64 bytes of 8 GiB. Of a page all bytes are in the set, or none, or some; the pages with
some have a row each, packed, one bit a byte of memory, the lowest bit of a byte first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .byte_ranges import Range

Packed = npt.NDArray[np.uint8]

PAGE = 64 * 1024  # bytes of memory; a smaller region is one page
_NONE, _SOME, _ALL = 0, 1, 2
_ROWS = 512  # that are worked on at once where each bit becomes a byte

_ONES = np.array([bin(value).count("1") for value in range(256)], dtype=np.uint8)


class Bits:
    """A set of bytes of a region of ``size`` bytes; it never changes."""

    __slots__ = ("_kinds", "_rows", "size")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, size: int, kinds: Packed, rows: Packed) -> None:
        """``kinds`` has one number a page; ``rows`` those of the pages with some, ascending."""
        self.size, self._kinds, self._rows = size, kinds, rows

    def __and__(self, other: Bits) -> Bits:
        kinds = np.minimum(self._kinds, other._kinds)
        some = np.flatnonzero(kinds == _SOME)
        return self._settled(kinds, some, self._rows_of(some) & other._rows_of(some))

    def __or__(self, other: Bits) -> Bits:
        kinds = np.maximum(self._kinds, other._kinds)
        some = np.flatnonzero(kinds == _SOME)
        return self._settled(kinds, some, self._rows_of(some) | other._rows_of(some))

    def __invert__(self) -> Bits:
        rows = ~self._rows
        if self._kinds.size and self._kinds[-1] == _SOME:
            rows[-1] &= self._full_row(len(self._kinds) - 1)
        return Bits(self.size, _ALL - self._kinds, rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bits):
            return NotImplemented
        same = self.size == other.size and np.array_equal(self._kinds, other._kinds)
        return same and np.array_equal(self._rows, other._rows)

    def __repr__(self) -> str:
        return f"<{count(self):,} of {self.size:,} bytes>"

    def any(self) -> bool:
        """Whether there is a byte in it."""
        return bool(self._kinds.any())

    def all_of(self, start: int, stop: int) -> bool | None:
        """Whether the pages with [start, stop) are in it as a whole; None if they are in part."""
        kinds = self._kinds[start // PAGE : -(-stop // PAGE)]
        if not kinds.any():
            return False
        return True if (kinds == _ALL).all() else None

    def pages(self) -> list[Range]:
        """[start, stop) of whole pages that hold all bytes of the set, ascending and apart."""
        edges = np.flatnonzero(np.diff(self._kinds != _NONE, prepend=False, append=False)) * PAGE
        return [(start, min(stop, self.size)) for start, stop in edges.reshape(-1, 2).tolist()]

    def packed(self, start: int = 0, stop: int | None = None) -> Packed:
        """The bits of [start, stop), one for each byte; ``start`` is a multiple of 8."""
        stop = self.size if stop is None else stop
        if start >= stop:
            return np.zeros(0, dtype=np.uint8)
        first, last = start // PAGE, (stop - 1) // PAGE
        skew = (start - first * PAGE) // 8
        rows = self._rows_of(np.arange(first, last + 1)).reshape(-1)[skew : skew + (stop - start + 7) // 8]
        if stop % 8:
            rows[-1] &= 0xFF >> (8 - stop % 8)
        return rows

    def flags(self, start: int = 0, stop: int | None = None) -> npt.NDArray[np.bool_]:
        """For each byte of [start, stop) whether it is in the set."""
        stop = self.size if stop is None else stop
        low = start // 8 * 8
        found = np.unpackbits(self.packed(low, stop), bitorder="little")[start - low : stop - low]
        return found.view(np.bool_)

    def encoded(self) -> Packed:
        """The set as bytes, for `decoded`."""
        head = np.array([self.size], dtype="<u8").view(np.uint8)
        return np.concatenate([head, self._kinds, self._rows.reshape(-1)])

    # --- pages ---------------------------------------------------------------------------------------

    @property
    def _some(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(self._kinds == _SOME)

    def _full_row(self, page: int) -> Packed:
        row = np.full(self._rows.shape[1], 0xFF, dtype=np.uint8)
        inside = min(PAGE, self.size - page * PAGE)
        row[-(-inside // 8) :] = 0
        if inside % 8:
            row[inside // 8] = 0xFF >> (8 - inside % 8)
        return row

    def _rows_of(self, pages: npt.NDArray[np.intp]) -> Packed:
        """A row for each of these pages, whatever they hold."""
        found = np.zeros((len(pages), self._rows.shape[1]), dtype=np.uint8)
        if not len(pages):
            return found
        kinds = self._kinds[pages]
        found[kinds == _ALL] = 0xFF
        if kinds[-1] == _ALL and pages[-1] == len(self._kinds) - 1:
            found[-1] = self._full_row(int(pages[-1]))
        some = kinds == _SOME
        if some.any():
            found[some] = self._rows[np.searchsorted(self._some, pages[some])]
        return found

    def _settled(self, kinds: Packed, some: npt.NDArray[np.intp], rows: Packed) -> Bits:
        """A set of the same region, if rows may turn out to hold nothing or all."""
        if not len(some):
            return Bits(self.size, kinds, rows)
        found = np.full(len(some), _SOME, dtype=np.uint8)
        found[~rows.any(axis=1)] = _NONE
        full = (rows == 0xFF).all(axis=1)
        if some[-1] == len(kinds) - 1:
            full[-1] = (rows[-1] == self._full_row(len(kinds) - 1)).all()
        found[full] = _ALL
        kinds[some] = found
        return Bits(self.size, kinds, rows if (found == _SOME).all() else rows[found == _SOME])


# --- made of something ---------------------------------------------------------------------------------


def empty(size: int) -> Bits:
    """No byte of a region of ``size`` bytes."""
    width = (min(size, PAGE) + 7) // 8
    return Bits(size, np.zeros(-(-size // PAGE), dtype=np.uint8), np.zeros((0, width), dtype=np.uint8))


def span(size: int, start: int, stop: int) -> Bits:
    """Bytes [start, stop)."""
    return of_ranges(size, [(start, stop)])


def of_ranges(size: int, ranges: Iterable[Range]) -> Bits:
    """What lies in any of several [start, stop) within the region."""
    none = empty(size)
    kinds, rows = none._kinds, dict[int, Packed]()

    def part(page: int, start: int, stop: int) -> None:
        row = rows.setdefault(page, np.zeros(none._rows.shape[1], dtype=np.uint8))
        first, last = start // 8, (stop - 1) // 8
        head, tail = (0xFF << start % 8) & 0xFF, 0xFF >> (7 - (stop - 1) % 8)
        if first == last:
            row[first] |= head & tail
            return
        row[first] |= head
        row[first + 1 : last] = 0xFF
        row[last] |= tail

    for start, stop in ranges:
        if start >= stop:
            continue
        first, last = -(-start // PAGE), stop // PAGE  # whole pages between them
        if first > last:  # within one page
            part(last, start - last * PAGE, stop - last * PAGE)
            continue
        kinds[first:last] = _ALL
        if start < first * PAGE:
            part(first - 1, start - (first - 1) * PAGE, PAGE)
        if stop > last * PAGE:
            part(last, 0, stop - last * PAGE)
    return _of_rows(none, rows)


def of_parts(size: int, parts: Iterable[tuple[int, Packed]]) -> Bits:
    """From (offset, packed bits from there on), each offset a multiple of 8; no byte twice."""
    none = empty(size)
    rows = dict[int, Packed]()
    width = PAGE // 8
    for offset, packed in parts:
        at = offset // 8
        while len(packed):
            page, skew = divmod(at, width)
            whole = 0 if skew else len(packed) // width
            here = packed[: whole * width or width - skew]
            if whole:
                stack = here.reshape(whole, width)
                low, high = stack.min(axis=1), stack.max(axis=1)
                none._kinds[page : page + whole] = np.where(low == 0xFF, np.uint8(_ALL), np.uint8(_NONE))
                for some in np.flatnonzero((low < 0xFF) & (high > 0)).tolist():
                    rows[page + some] = stack[some].copy()
            elif here.any():
                row = rows.setdefault(page, np.zeros(none._rows.shape[1], dtype=np.uint8))
                row[skew : skew + len(here)] = here
            packed, at = packed[len(here) :], at + len(here)
    return _of_rows(none, rows)


def of_flags(flags: npt.NDArray[Any]) -> Bits:
    """From one flag for each byte of a region."""
    return of_parts(len(flags), [(0, np.packbits(flags, bitorder="little"))])


def decoded(data: Packed) -> Bits:
    """What `Bits.encoded` gave. Raises ValueError for anything else."""
    size = int(data[:8].view("<u8")[0]) if data.dtype == np.uint8 and len(data) >= 8 else -1
    if not 0 <= size < 1 << 63 or len(data) < 8 + -(-size // PAGE):
        raise ValueError("not a set of bytes")
    none = empty(size)
    kinds = data[8 : 8 + len(none._kinds)]
    rows = data[8 + len(kinds) :]
    if len(rows) != np.count_nonzero(kinds == _SOME) * none._rows.shape[1] or (kinds > _ALL).any():
        raise ValueError("not a set of bytes")
    return Bits(size, kinds, rows.reshape(-1, none._rows.shape[1]) if len(rows) else none._rows)


def _of_rows(none: Bits, rows: dict[int, Packed]) -> Bits:
    """With rows for some pages; those that are wholly in the set already stay so."""
    kinds = none._kinds
    some = np.array(sorted(page for page in rows if kinds[page] != _ALL), dtype=np.intp)
    stacked = np.stack([rows[page] for page in some.tolist()]) if len(some) else none._rows
    return none._settled(kinds, some, stacked)


# --- questions -----------------------------------------------------------------------------------------


def count(bits: Bits) -> int:
    """How many bytes are in a set."""
    whole = int(np.count_nonzero(bits._kinds == _ALL)) * PAGE
    if len(bits._kinds) and bits._kinds[-1] == _ALL:
        whole -= len(bits._kinds) * PAGE - bits.size
    return whole + int(_ONES[bits._rows].sum(dtype=np.int64))


def first(bits: Bits) -> int:
    """The lowest byte in a set, -1 if the set is empty."""
    pages = bits.pages()
    if not pages:
        return -1
    start = pages[0][0]
    return start + int(np.flatnonzero(bits.flags(start, min(start + PAGE, bits.size)))[0])


def runs(bits: Bits, most: int) -> list[Range]:
    """[start, stop) of each run of bytes in a set, ascending; none if they are more than ``most``."""
    starts, stops = _edges(bits)
    return [] if len(starts) > most else list(zip(starts.tolist(), stops.tolist(), strict=True))


def _edges(bits: Bits) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where runs of bytes in a set start and stop, ascending."""
    some, kinds = bits._some, bits._kinds
    last = kinds == _ALL  # whether the last byte of a page is in the set
    last[some] = bits._rows[:, -1] >> 7 if bits.size >= PAGE else False
    before = np.concatenate([[False], last[:-1]]) if len(last) else last
    starts = [np.flatnonzero((kinds == _ALL) & ~before) * PAGE]
    stops = [np.flatnonzero((kinds == _NONE) & before) * PAGE]
    for at in range(0, len(some), _ROWS):
        pages = some[at : at + _ROWS]
        flags = np.unpackbits(bits._rows[at : at + _ROWS], axis=1, bitorder="little").view(np.int8)
        edges = np.diff(flags, axis=1, prepend=before[pages, None].view(np.int8))
        for found, value in ((starts, 1), (stops, -1)):
            row, column = np.nonzero(edges == value)
            found.append(pages[row] * PAGE + column)
    both = [np.sort(np.concatenate(found)) for found in (starts, stops)]
    if len(both[0]) > len(both[1]):
        both[1] = np.append(both[1], bits.size)
    return both[0], both[1]


# --- sets made of others -------------------------------------------------------------------------------


def widened(bits: Bits, size: int) -> Bits:
    """Every aligned group of ``size`` (1, 2, 4 or 8) bytes of which one is in the set, as a whole."""
    group = (1 << size) - 1
    table = np.zeros(256, dtype=np.uint8)
    for value in range(256):
        for at in range(0, 8, size):
            if value >> at & group:
                table[value] |= group << at
    rows = table[bits._rows]
    if len(rows) and bits._kinds[-1] == _SOME:
        rows[-1] &= bits._full_row(len(bits._kinds) - 1)
    return bits._settled(bits._kinds.copy(), bits._some, rows)


def whole_pages(bits: Bits) -> Bits:
    """The pages of which all bytes are in the set."""
    kinds = np.where(bits._kinds == _ALL, np.uint8(_ALL), np.uint8(_NONE))
    return Bits(bits.size, kinds, bits._rows[:0])


def stretches(bits: Bits, touched: Bits) -> Bits:
    """The runs of ``bits`` in which any byte of ``touched`` is, whole."""
    starts, stops = _edges(bits)
    low, high = _edges(touched & bits)
    hit = np.searchsorted(low, stops) > np.searchsorted(high, starts, side="right")
    return of_ranges(bits.size, zip(starts[hit].tolist(), stops[hit].tolist(), strict=True))


def halves(bits: Bits) -> tuple[Bits, Bits]:
    """The bytes of a set as two: the lower half of their range, and the upper."""
    low = first(bits)
    if low < 0:
        return bits, bits
    begin = (bits.pages()[-1][1] - 1) // PAGE * PAGE
    high = begin + int(np.flatnonzero(bits.flags(begin))[-1])
    lower = span(bits.size, 0, (low // 8 + high // 8 + 1) // 2 * 8)
    return bits & lower, bits & ~lower
