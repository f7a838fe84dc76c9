"""Contents of a launch, as many as fit into a limit of memory."""

from __future__ import annotations

from kerncap.log import size
from kerncap.sanitizer.launch import Launch, Unwritten
from kerncap.sanitizer.paged_bytes import Ints, NotReadable, PagedBytes

_COPIES = 2  # what is read, and what the evaluation writes to


class LimitedContents:
    """`Contents` of which no page is brought whose copies do not fit beside those before it."""

    def __init__(self, launch: Launch, limit_bytes: int) -> None:
        self._inner = launch.contents
        self._storages = launch.storages
        self._limit_bytes = limit_bytes
        self._bytes: dict[int, PagedBytes | None] = {}
        self._taken = 0
        self._refused: dict[int, int] = {}  # bytes by storage

    @property
    def told(self) -> str | None:
        """What was left out, and what would let it in; None if all fits."""
        if not self._refused:
            return None
        names = (self._storages[one].name or f"storage {one}" for one in sorted(self._refused))
        needed = size(self._taken + sum(self._refused.values()))
        return (
            f"contents of {', '.join(names)} were not all read: that needs at least {needed}, and "
            f"--max-memory is {size(self._limit_bytes)}"
        )

    @property
    def needs_bytes(self) -> int:
        """A limit that is enough, whatever else the launch touches; 0 if all fits."""
        return _COPIES * sum(one.size_bytes for one in self._storages) if self._refused else 0

    def read(self, storage: int) -> PagedBytes | None:
        if storage not in self._bytes:
            inner = self._inner.read(storage)
            self._bytes[storage] = None if inner is None else self._limited(storage, inner)
        return self._bytes[storage]

    def unwritten(self, storage: int) -> Unwritten | None:
        return self._inner.unwritten(storage)

    def _limited(self, storage: int, inner: PagedBytes) -> PagedBytes:
        def take(pages: Ints) -> None:
            needed = _COPIES * min(len(pages) * inner.page, inner.size)
            if self._taken + needed > self._limit_bytes:
                self._refused[storage] = max(needed, self._refused.get(storage, 0))
                raise NotReadable(f"contents of {self._storages[storage].name} are more than --max-memory")
            self._taken += needed

        return inner.watched(take)
