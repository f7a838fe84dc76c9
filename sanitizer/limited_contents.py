"""Contents of a launch as far as they fit into a limit of memory."""

from __future__ import annotations

from kerncap.log import size
from kerncap.sanitizer.launch import Bytes, Launch, Unwritten

_COPIES = 2  # what is read, and what the evaluation writes to


class LimitedContents:
    """`Contents` of which a storage is not available if its copies do not fit beside those before it."""

    def __init__(self, launch: Launch, limit_bytes: int) -> None:
        self._inner = launch.contents
        self._storages = launch.storages
        self._limit_bytes = limit_bytes
        self._taken: dict[int, int] = {}
        self._refused: dict[int, int] = {}

    @property
    def needed_bytes(self) -> int:
        """What all that was asked for takes; 0 if it fits."""
        return sum(self._taken.values()) + sum(self._refused.values()) if self._refused else 0

    @property
    def told(self) -> str:
        """What was left out, and what would let it in."""
        names = (self._storages[one].name or f"storage {one}" for one in sorted(self._refused))
        return (
            f"contents of {', '.join(names)} were not read: that needs {size(self.needed_bytes)}, and "
            f"--max-memory is {size(self._limit_bytes)}"
        )

    def held(self, storage: int) -> int | None:
        return self._inner.held(storage)

    def read(self, storage: int) -> Bytes | None:
        return self._inner.read(storage) if self._fits(storage) else None

    def digest(self, storage: int) -> str | None:
        return self._inner.digest(storage) if self._fits(storage) else None

    def unwritten(self, storage: int) -> Unwritten | None:
        return self._inner.unwritten(storage) if self._fits(storage) else None

    def _fits(self, storage: int) -> bool:
        if storage in self._taken:
            return True
        if storage in self._refused:
            return False
        held = self._inner.held(storage)
        needed = _COPIES * (self._storages[storage].size_bytes if held is None else held)
        fits = sum(self._taken.values()) + needed <= self._limit_bytes
        (self._taken if fits else self._refused)[storage] = needed
        return fits
