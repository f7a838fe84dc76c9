"""A storage's bytes before the launch, by the page: it may be far larger than what is touched."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Run = tuple[int, int]  # [start, end), bytes

PAGE = 1 << 16
_WHOLE_BELOW = 1 << 20  # bytes: a smaller storage is one page
_MAPPED_FROM = 1 << 22


class NotReadable(Exception):
    """Bytes that are unavailable, and why."""


class PagedBytes:
    """``data`` holds what was asked for by `need`, `need_range` or `need_pages`, and zeros elsewhere.

    It is only read. ``bring`` gets pages, in order, when they are first needed, and puts them into ``data``
    (NotReadable if it can't).
    """

    def __init__(self, data: Bytes, size: int, page: int, bring: Callable[[Ints], None] | None) -> None:
        self.data = data
        self.size = size
        self.page = page
        self._bring = bring
        self._present = np.full(-(-size // page), bring is None, dtype=np.bool_)
        self.complete = bring is None or not size

    @classmethod
    def of(cls, array: npt.NDArray[np.generic]) -> PagedBytes:
        """All bytes of an array."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return cls(flat, flat.size, _page_of(flat.size), None)

    @classmethod
    def fetched(
        cls, size: int, fetch: Callable[[Sequence[Run], Bytes], None], page: int | None = None
    ) -> PagedBytes:
        """``fetch(runs, data)`` fills these runs of ``data``, which is zeros."""
        page = page or _page_of(size)
        data = zeros(size)

        def bring(pages: Ints) -> None:
            fetch(list(runs_of(pages, page, size)), data)

        return cls(data, size, page, bring)

    def copied(self) -> PagedBytes:
        """A copy to write to, of the pages that are needed; with room for the widest element at its end."""
        data = zeros(self.size + 8)

        def bring(pages: Ints) -> None:
            self.need_pages(pages)
            for start, end in runs_of(pages, self.page, self.size):
                data[start:end] = self.data[start:end]

        return PagedBytes(data, self.size, self.page, bring)

    def watched(self, told: Callable[[Ints], None]) -> PagedBytes:
        """The same bytes; ``told`` gets the pages that are needed through this one, each once, beforehand."""

        def bring(pages: Ints) -> None:
            told(pages)
            self.need_pages(pages)

        return PagedBytes(self.data, self.size, self.page, bring)

    def need(self, offsets: Ints, width: int = 1) -> None:
        """Elements of ``width`` bytes, which lie inside."""
        if not self.complete and offsets.size:
            self.need_pages(self.pages_of(offsets, width))

    def has(self, start: int, end: int) -> bool:
        """Whether all bytes of [start, end), which lie inside, are here."""
        return self.complete or bool(self._present[start // self.page : (end - 1) // self.page + 1].all())

    def pages_of(self, offsets: Ints, width: int) -> Ints:
        """The pages of elements, in order; with those between them if they lie close together."""
        low, high = int(offsets.min()) // self.page, (int(offsets.max()) + width - 1) // self.page
        if (high - low) * self.page <= 2 * offsets.size * width:
            return np.arange(low, high + 1)
        touched = np.zeros(high - low + 1, dtype=np.bool_)
        first = offsets.reshape(-1) // self.page - low
        touched[first] = True
        if width > 1:  # the last byte of an element may lie in the next page
            touched[(offsets.reshape(-1) + (width - 1)) // self.page - low] = True
        found: Ints = np.flatnonzero(touched) + low
        return found

    def need_range(self, start: int, end: int) -> None:
        """All bytes of [start, end), which lie inside."""
        if self.complete or start >= end:
            return
        low, high = start // self.page, (end - 1) // self.page
        self._get(np.flatnonzero(~self._present[low : high + 1]) + low)

    def need_pages(self, pages: Ints) -> None:
        """By number."""
        if not self.complete:
            self._get(pages[~self._present[pages]])

    def whole(self) -> Bytes:
        """All bytes."""
        self.need_range(0, self.size)
        return self.data[: self.size]

    def digest(self, pages: Ints) -> str:
        """Equal for pages with equal bytes."""
        self.need_pages(pages)
        found = hashlib.blake2b(digest_size=16)
        for start, end in runs_of(pages, self.page, self.size):
            found.update(self.data[start:end].data)
        return found.hexdigest()

    def _get(self, pages: Ints) -> None:
        if pages.size:
            assert self._bring is not None
            self._bring(pages)
            self._present[pages] = True
            self.complete = bool(self._present.all())


def zeros(size: int) -> Bytes:
    """``size`` bytes, of which what nobody touches is backed by nothing."""
    if size < _MAPPED_FROM:
        return np.zeros(size, np.uint8)
    # numpy asks for huge pages, which back 2 MiB for each byte that is touched.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        memory = mmap.mmap(-1, size, flags=flags)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    except OSError as error:
        raise MemoryError from error
    return np.frombuffer(memory, np.uint8)


def runs_of(pages: Ints, page: int, size: int) -> Iterator[Run]:
    """Neighbouring pages, in order, as runs of bytes."""
    if not len(pages):
        return
    breaks = np.flatnonzero(np.diff(pages) != 1)
    firsts, lasts = pages[np.r_[0, breaks + 1]], pages[np.r_[breaks, len(pages) - 1]]
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        yield first * page, min((last + 1) * page, size)


def _page_of(size: int) -> int:
    return PAGE if size > _WHOLE_BELOW else _WHOLE_BELOW
