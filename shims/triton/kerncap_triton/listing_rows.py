"""`kerncap list`: a kernel's launches by grid, configuration, stream, device and range."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .contract import key

MAX_ROWS = 1024  # of one kernel
MAX_PROCESS_ROWS = 8192


class Key(NamedTuple):
    """What makes launches of a kernel different from each other; None is not known."""

    grid: Optional[Tuple[int, int, int]] = None
    config: Optional[str] = None
    stream: Optional[str] = None
    device: Optional[int] = None
    range: Tuple[str, ...] = ()
    route: Optional[str] = None


class Row:
    """How many, and how long those took that were timed."""

    __slots__ = ("launches", "time_ns", "timed", "min_ns", "max_ns")

    def __init__(self) -> None:
        self.launches = self.time_ns = self.timed = 0
        self.min_ns: Optional[int] = None
        self.max_ns: Optional[int] = None

    def took(self, elapsed_ns: int) -> None:
        self.time_ns += elapsed_ns
        self.timed += 1
        self.min_ns = elapsed_ns if self.min_ns is None else min(self.min_ns, elapsed_ns)
        self.max_ns = elapsed_ns if self.max_ns is None else max(self.max_ns, elapsed_ns)

    def times(self) -> Dict[str, Any]:
        return {
            key.time_ns: self.time_ns,
            key.timed: self.timed,
            key.min_ns: self.min_ns,
            key.max_ns: self.max_ns,
        }


class Room:
    """How many rows a process may still have; its kernels share it."""

    def __init__(self) -> None:
        self.left = MAX_PROCESS_ROWS


class Rows:
    """Of one kernel. What does not fit goes into ``rest``."""

    def __init__(self, room: Room) -> None:
        self.total = Row()
        self._room = room
        self._rows: Dict[Key, Row] = {}
        self._rest: Optional[Row] = None

    def launched(self, alike: Key) -> Row:
        """The row of a launch, which is counted in it."""
        row = self._rows.get(alike)
        if row is None:
            if len(self._rows) < MAX_ROWS and self._room.left > 0:
                self._room.left -= 1
                row = self._rows[alike] = Row()
            else:
                row = self._rest = self._rest or Row()
        row.launches += 1
        self.total.launches += 1
        return row

    def took(self, row: Row, elapsed_ns: int) -> None:
        row.took(elapsed_ns)
        self.total.took(elapsed_ns)

    def as_records(self) -> List[Dict[str, Any]]:
        records = [_record(alike, row) for alike, row in self._rows.items()]
        if self._rest is not None:
            records.append({**_record(Key(), self._rest), key.rest: True})
        return records


def _record(alike: Key, row: Row) -> Dict[str, Any]:
    return {
        key.grid: alike.grid,
        key.block: None,
        key.shared_bytes: None,
        key.config: alike.config,
        key.stream: alike.stream,
        key.device: alike.device,
        key.range: alike.range,
        key.route: alike.route,
        key.launches: row.launches,
        **row.times(),
    }


def joined(one: Dict[str, Any], other: Dict[str, Any]) -> Dict[str, Any]:
    """What two kernels of one name have of `as_records` and `Row.times`, in one record of COUNTS."""
    least = [each[key.min_ns] for each in (one, other) if each[key.min_ns] is not None]
    most = [each[key.max_ns] for each in (one, other) if each[key.max_ns] is not None]
    return {
        key.rows: [*one[key.rows], *other[key.rows]],
        key.stack: one[key.stack] or other[key.stack],
        key.min_ns: min(least) if least else None,
        key.max_ns: max(most) if most else None,
    }
