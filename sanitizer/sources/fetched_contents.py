"""Contents of a launch's storages while the program runs, and which of their bytes somebody wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.launch import Bytes, Unwritten

_AT_ONCE = 4 << 20  # bytes; a multiple of 8
_NOTHING = Unwritten(np.zeros(0, np.int64), np.zeros(0, np.int64))


class FetchedContents:
    """`Contents` that are fetched when they are first asked for, each storage once.

    ``fetch(storage, size_bytes)`` gives a private copy of the bytes (the launch may change them), or None.
    ``patterns``: what each storage was filled with when it was allocated (8 bytes); None: it was not; empty:
    it came with what nobody wrote in it, but was too large to be filled. ``held(storage)``: how many of its
    bytes are backed by memory; None where nobody can say.
    """

    def __init__(
        self,
        fetch: Callable[[int, int], Bytes | None],
        sizes: Sequence[int],
        patterns: Sequence[bytes | None],
        held: Callable[[int], int | None],
    ) -> None:
        self._fetch = fetch
        self._held = held
        self._sizes = sizes
        self._patterns = patterns
        self._bytes: dict[int, Bytes | None] = {}
        self._digests: dict[int, str | None] = {}
        self._unwritten: dict[int, Unwritten | None] = {}

    def read(self, storage: int) -> Bytes | None:
        if storage not in self._bytes:
            self._bytes[storage] = self._fetch(storage, self._sizes[storage])
        return self._bytes[storage]

    def held(self, storage: int) -> int | None:
        return self._held(storage)

    def digest(self, storage: int) -> str | None:
        if storage not in self._digests:
            data = self.read(storage)
            self._digests[storage] = None if data is None else digest_of(data)
        return self._digests[storage]

    def unwritten(self, storage: int) -> Unwritten | None:
        if storage not in self._unwritten:
            pattern = self._patterns[storage]
            if pattern is None:  # not known to be fresh
                self._unwritten[storage] = _NOTHING
            else:
                self._unwritten[storage] = unwritten_of(pattern, self.read(storage)) if pattern else None
        return self._unwritten[storage]


def from_tensors(reader: Any) -> FetchedContents:
    """Contents of this process's own tensors; ``reader`` is the hook's `contents.Reader`."""

    def fetch(storage: int, _size: int) -> Bytes | None:
        data = reader.read(storage)
        return None if data is None else _frozen(np.frombuffer(data, np.uint8))

    count = reader.count
    return FetchedContents(
        fetch,
        [reader.size(storage) for storage in range(count)],
        [reader.pattern(storage) for storage in range(count)],
        lambda storage: sum(end - start for start, end in reader.held(storage)),
    )


def digest_of(data: Bytes) -> str:
    return hashlib.blake2b(data.data, digest_size=16).hexdigest()


def unwritten_of(pattern: bytes, data: Bytes | None) -> Unwritten | None:
    """What was not written since the storage was filled with ``pattern`` (8 bytes, repeated).

    Aligned words of 8 bytes that hold the whole pattern are unwritten, and so are the last 4 to 7 bytes where
    they hold its beginning; fewer bytes than that could be any value.
    """
    if data is None:
        return None
    whole = data.size // 8 * 8
    word = np.frombuffer(pattern, np.uint64)[0]
    edges = [
        _edges(data[at : min(at + _AT_ONCE, whole)].view(np.uint64) == word, at)
        for at in range(0, whole, _AT_ONCE)
    ]
    rest = data.size - whole
    if rest >= 4 and bytes(data[whole:]) == pattern[:rest]:
        edges.append(np.array([whole, data.size]))
    found = np.concatenate(edges) if edges else np.zeros(0, np.int64)
    # A run that goes on in the next piece ends and begins at one place.
    meets = np.flatnonzero(found[1:-1:2] == found[2::2]) * 2 + 1
    found = np.delete(found, np.concatenate((meets, meets + 1)))
    return Unwritten(found[0::2], found[1::2])


def _edges(fresh: npt.NDArray[np.bool_], at: int) -> npt.NDArray[np.int64]:
    """Where the runs of a piece's words begin and end, in turn, as offsets in bytes."""
    runs = Unwritten.of(~fresh)
    return np.stack((runs.starts, runs.ends), axis=1).reshape(-1) * 8 + at


def _frozen(array: Bytes) -> Bytes:
    array.flags.writeable = False
    return array
