"""Notices saves of a few files by their stat: of any editor, on every file system.

Editors truncate and write, or write beside and rename, or delete first; so a change counts once the file is
there and has stood still for a moment. A stat of a few files takes microseconds: the caller looks every
`TICK_S` and is never more than that late.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

TICK_S = 0.008
_SETTLE_S = 0.003  # a file that did not change for so long was written to its end
_EMPTY_S = 0.05  # truncated, and the text not yet there
_GONE_S = 0.5  # deleted, and the new one not yet there
_LONGEST_S = 2.0  # something writes all the time: what is there is taken

Stamp = tuple[int, int, int, int]  # device, inode, size, nanoseconds


def stamp(path: Path) -> Stamp | None:
    """What tells one state of a file from another; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Watcher:
    """Of the files that it is given; those that are not there yet count once they are.

    ``clock`` and ``pause`` are time's own.
    """

    def __init__(
        self,
        files: Iterable[Path],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._seen = {path: stamp(path) for path in dict.fromkeys(files)}

    @property
    def files(self) -> list[Path]:
        return list(self._seen)

    def changed(self) -> list[Path]:
        """The files that were saved since the last time, each written to its end; none: nothing to do.

        One that was deleted and did not come back is not among them.
        """
        moved = [path for path, before in self._seen.items() if stamp(path) != before]
        return self._settled() if moved else []

    def mark(self) -> None:
        """Take everything as it is now as seen."""
        self._seen = {path: stamp(path) for path in self._seen}

    def _settled(self) -> list[Path]:
        begin = self._clock()
        before = self._stamps()
        while True:
            self._pause(_SETTLE_S)
            now = self._stamps()
            waited = self._clock() - begin
            if now == before and not self._expects_more(now, waited):
                break
            if waited > _LONGEST_S:
                break
            before = now
        found = [path for path, each in now.items() if each != self._seen[path] and each is not None]
        self._seen = now
        return found

    def _expects_more(self, now: dict[Path, Stamp | None], waited: float) -> bool:
        for path, each in now.items():
            was = self._seen[path]
            if was is None or each == was:
                continue
            if each is None and waited < _GONE_S:
                return True
            if each is not None and each[2] == 0 and was[2] > 0 and waited < _EMPTY_S:
                return True
        return False

    def _stamps(self) -> dict[Path, Stamp | None]:
        return {path: stamp(path) for path in self._seen}


def saved_ago_s(paths: Iterable[Path]) -> float:
    """Seconds since the newest of these was written; 0 if its clock is ahead of this machine's."""
    newest = max((each[3] for path in paths if (each := stamp(path)) is not None), default=0)
    return max(0.0, (time.time_ns() - newest) / 1e9) if newest else 0.0
