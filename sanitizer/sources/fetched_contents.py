"""Contents of a launch's storages while the program runs, and which of their bytes were written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.launch import Unwritten
from kerncap.sanitizer.paged_bytes import Bytes, NotReadable, PagedBytes, Run

_AT_ONCE = 4 << 20  # bytes; a multiple of 8
_NOTHING = Unwritten(np.zeros(0, np.int64), np.zeros(0, np.int64))


class FetchedContents:
    """`Contents` that are fetched when they are first asked for, each page once.

    ``fetch(storage, runs, data)`` copies runs of bytes to where they belong in ``data``; False if the storage
    can't be read, which it says for no runs, too. ``patterns``: what each storage was filled with when it was
    allocated (8 bytes); None: it was not; empty: there may be what nobody wrote, and nobody knows where.
    ``backed(storage)``: the runs that memory backs; what nothing backs nobody wrote.
    """

    def __init__(
        self,
        fetch: Callable[[int, Sequence[Run], Bytes], bool],
        sizes: Sequence[int],
        patterns: Sequence[bytes | None],
        backed: Callable[[int], Sequence[Run]],
    ) -> None:
        self._fetch = fetch
        self._backed = backed
        self._sizes = sizes
        self._patterns = patterns
        self._bytes: dict[int, PagedBytes | None] = {}
        self._unwritten: dict[int, Unwritten | None] = {}

    def read(self, storage: int) -> PagedBytes | None:
        if storage not in self._bytes:
            self._bytes[storage] = self._paged(storage)
        return self._bytes[storage]

    def unwritten(self, storage: int) -> Unwritten | None:
        if storage not in self._unwritten:
            pattern = self._patterns[storage]
            if pattern is None:  # not known to be fresh
                self._unwritten[storage] = _NOTHING
            else:
                self._unwritten[storage] = self._with_pattern(storage, pattern) if pattern else None
        return self._unwritten[storage]

    def _paged(self, storage: int) -> PagedBytes | None:
        def fetch(runs: Sequence[Run], data: Bytes) -> None:
            if not self._fetch(storage, runs, data):
                raise NotReadable("the program's memory can't be read any more")

        contents = PagedBytes.fetched(self._sizes[storage], fetch)
        return contents if self._fetch(storage, (), contents.data) else None

    def _with_pattern(self, storage: int, pattern: bytes) -> Unwritten | None:
        contents, size = self.read(storage), self._sizes[storage]
        if contents is None:
            return None
        edges, at = [], 0
        try:
            for start, end in self._backed(storage):
                contents.need_range(start, end)
                found = unwritten_of(pattern, contents.data[start:end])
                runs = np.stack((found.starts, found.ends), axis=1).reshape(-1)
                edges += [np.array([at, start]), runs + start]
                at = end
        except NotReadable:
            return None
        return _runs([*edges, np.array([at, size])])


def from_tensors(reader: Any) -> FetchedContents:
    """Contents of this process's own tensors; ``reader`` is the hook's `storage_contents.Reader`."""

    def fetch(storage: int, runs: Sequence[Run], data: Bytes) -> bool:
        for start, end in runs or ((0, 0),):
            for low, high, window in reader.windows(storage, start, end):
                if window is None:
                    return False
                data[low:high] = np.frombuffer(window, np.uint8)
        return True

    count = reader.count
    return FetchedContents(
        fetch,
        [reader.size(storage) for storage in range(count)],
        [reader.pattern(storage) for storage in range(count)],
        reader.backed,
    )


def unwritten_of(pattern: bytes, data: Bytes) -> Unwritten:
    """What was not written since the storage was filled with ``pattern`` (8 bytes, repeated).

    Aligned words of 8 bytes that hold the whole pattern are unwritten, and so are the last 4 to 7 bytes where
    they hold its beginning; fewer bytes than that could be any value.
    """
    whole = data.size // 8 * 8
    word = np.frombuffer(pattern, np.uint64)[0]
    edges = [
        _edges(data[at : min(at + _AT_ONCE, whole)].view(np.uint64) == word, at)
        for at in range(0, whole, _AT_ONCE)
    ]
    rest = data.size - whole
    if rest >= 4 and bytes(data[whole:]) == pattern[:rest]:
        edges.append(np.array([whole, data.size]))
    return _runs(edges)


def _runs(edges: Sequence[npt.NDArray[np.int64]]) -> Unwritten:
    """Of where runs begin and end, in turn; empty ones are left out."""
    found = np.concatenate(edges) if edges else np.zeros(0, np.int64)
    empty = np.flatnonzero(found[0::2] == found[1::2]) * 2
    found = np.delete(found, np.concatenate((empty, empty + 1)))
    # A run that goes on in the next piece ends and begins at one place.
    meets = np.flatnonzero(found[1:-1:2] == found[2::2]) * 2 + 1
    found = np.delete(found, np.concatenate((meets, meets + 1)))
    return Unwritten(found[0::2], found[1::2])


def _edges(fresh: npt.NDArray[np.bool_], at: int) -> npt.NDArray[np.int64]:
    """Where the runs of a piece's words begin and end, in turn, as offsets in bytes."""
    runs = Unwritten.of(~fresh)
    return np.stack((runs.starts, runs.ends), axis=1).reshape(-1) * 8 + at
