"""Contents of a launch's storages while the program runs, and which of their bytes somebody wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.launch import Bytes


class FetchedContents:
    """`Contents` that are fetched when they are first asked for, each storage once.

    ``fetch(storage, size_bytes)`` gives a private copy of the bytes (the launch may change them), or None.
    ``patterns``: what each storage was filled with when it was allocated (8 bytes); None: it was not.
    """

    def __init__(
        self,
        fetch: Callable[[int, int], Bytes | None],
        sizes: Sequence[int],
        patterns: Sequence[bytes | None],
    ) -> None:
        self._fetch = fetch
        self._sizes = sizes
        self._patterns = patterns
        self._bytes: dict[int, Bytes | None] = {}
        self._digests: dict[int, str | None] = {}
        self._written: dict[int, npt.NDArray[np.bool_] | None] = {}

    def read(self, storage: int) -> Bytes | None:
        if storage not in self._bytes:
            self._bytes[storage] = self._fetch(storage, self._sizes[storage])
        return self._bytes[storage]

    def digest(self, storage: int) -> str | None:
        if storage not in self._digests:
            data = self.read(storage)
            self._digests[storage] = None if data is None else digest_of(data)
        return self._digests[storage]

    def written(self, storage: int) -> npt.NDArray[np.bool_] | None:
        if storage not in self._written:
            pattern = self._patterns[storage]
            if pattern is None:  # not known to be fresh
                self._written[storage] = np.broadcast_to(np.True_, self._sizes[storage])
            else:
                self._written[storage] = written_of(pattern, self.read(storage))
        return self._written[storage]


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
    )


def digest_of(data: Bytes) -> str:
    return hashlib.blake2b(data.data, digest_size=16).hexdigest()


def written_of(pattern: bytes, data: Bytes | None) -> npt.NDArray[np.bool_] | None:
    """Per byte, whether it was written since the storage was filled with ``pattern`` (8 bytes, repeated).

    Aligned words of 8 bytes that hold the whole pattern are unwritten, and so are the last 4 to 7 bytes where
    they hold its beginning; fewer bytes than that could be any value.
    """
    if data is None:
        return None
    written = np.ones(data.size, np.bool_)
    words = data.size // 8
    word = np.frombuffer(pattern, np.uint64)[0]
    written[: words * 8] = np.repeat(data[: words * 8].view(np.uint64) != word, 8)
    rest = data.size - words * 8
    if rest >= 4 and bytes(data[words * 8 :]) == pattern[:rest]:
        written[words * 8 :] = False
    return written


def _frozen(array: Bytes) -> Bytes:
    array.flags.writeable = False
    return array
