"""What `kerncap list` has found: rows of launches by process, and the clocks that measured them.

A Triton kernel is known to the hook by name and configuration, and to a native shim of the same
process by device time; the shim's rows then become the hook's kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

import msgspec

from kerncap.capture.payloads import Frame, KernelCounts, RowRecord
from kerncap.capture.process_log import ProcessLog
from kerncap.format import contract


@dataclass(frozen=True)
class Row:
    """Like launches of one kernel in one process."""

    record: RowRecord
    process: str  # name of its folder
    pid: int
    rank: int | None


@dataclass(frozen=True)
class Clock:
    """What measured in a process, and why it was no better one."""

    name: contract.Clock
    reason: str | None
    pid: int


@dataclass(frozen=True)
class Span:
    """When a process was there, from its first launch to its end, as time.time_ns() has it."""

    pid: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Listing:
    """Of all processes of a session. ``rows`` and ``stacks`` are by the kernel's qualified name."""

    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    stacks: Mapping[str, tuple[Frame, ...]] = field(default_factory=dict)
    clocks: tuple[Clock, ...] = ()
    spans: tuple[Span, ...] = ()
    graphs: tuple[int, ...] = ()  # launches of each CUDA graph, in the order of first launches

    def side_by_side(self, time_of: Callable[[Row], int], rows: Iterable[Row]) -> int:
        """The sum over ``rows``, where processes that run side by side count once: the longest.

        What a program can gain at most if this time is gone: ranks wait for each other.
        """
        by_pid: dict[int, int] = {}
        for row in rows:
            by_pid[row.pid] = by_pid.get(row.pid, 0) + time_of(row)
        return sum(max((by_pid.get(pid, 0) for pid in group), default=0) for group in self._groups())

    def _groups(self) -> list[set[int]]:
        """Processes whose spans overlap, directly or through others."""
        groups: list[set[int]] = []
        reached = -1
        for span in sorted(self.spans, key=lambda span: span.start_ns):
            if not groups or span.start_ns >= reached:
                groups.append(set())
            groups[-1].add(span.pid)
            reached = max(reached, span.end_ns)
        return groups


def collect(processes: Iterable[ProcessLog], end_ns: int) -> Listing:
    """The rows of all processes; ``end_ns`` is the end of those that could not say theirs."""
    logs = list(processes)
    rows: dict[str, list[Row]] = {}
    stacks: dict[str, tuple[Frame, ...]] = {}
    for log in logs:
        hooked = Hooked.of(log, logs)
        measured = {
            kernel for other in logs if other.pid == log.pid and other.is_native for kernel in _timed(other)
        }
        for name, counts in (log.counts.kernels if log.counts is not None else {}).items():
            found = [(name, record) for record in _rows_of(counts)]
            if log.is_native:
                found = [
                    (owner[0], msgspec.structs.replace(record, config=owner[1]))
                    for _, record in found
                    if (owner := hooked.owner(name, record.config)) is not None
                ]
            elif not counts.rows and (measured & hooked.names_of(name)):
                found = []  # the shim has them
            for whose, record in found:
                rows.setdefault(whose, []).append(Row(record, log.name, log.pid, log.rank))
            if counts.stack:
                stacks.setdefault(name, counts.stack)
    return Listing(
        {name: tuple(found) for name, found in rows.items()},
        stacks,
        tuple(
            Clock(log.counts.clock, log.counts.clock_reason, log.pid)
            for log in logs
            if log.counts is not None and log.counts.clock is not None and log.counts.launches
        ),
        _spans(logs, end_ns),
        tuple(map(sum, zip_longest(*(log.counts.graphs for log in logs if log.counts), fillvalue=0))),
    )


def _timed(log: ProcessLog) -> set[str]:
    return {name for name, counts in log.counts.kernels.items() if counts.launches} if log.counts else set()


def _rows_of(counts: KernelCounts) -> tuple[RowRecord, ...]:
    """The kernel's rows; of one that has none, all its launches as one."""
    if counts.rows or not counts.launches:
        return counts.rows
    timed = counts.launches if counts.time_ns else 0
    return (RowRecord(launches=counts.launches, time_ns=counts.time_ns, timed=timed, rest=True),)


class Hooked:
    """The Triton kernels of a process's hook, to which rows of its shim belong."""

    @classmethod
    def of(cls, log: ProcessLog, logs: Iterable[ProcessLog]) -> Hooked:
        return cls([other for other in logs if other.pid == log.pid and not other.is_native])

    def __init__(self, hooks: list[ProcessLog]) -> None:
        self._short = {name: seen.kernel for hook in hooks for name, seen in hook.seen.items()}
        self._by_name: dict[str, list[str]] = {}
        for name, short in self._short.items():
            self._by_name.setdefault(short, []).append(name)
        self._own = {
            name
            for hook in hooks
            if hook.counts is not None
            for name, c in hook.counts.kernels.items()
            if c.rows
        }

    def names_of(self, name: str) -> set[str]:
        """What a shim calls this kernel of the hook's."""
        return {self._short[name]} if name in self._short else set()

    def owner(self, name: str, config: str | None) -> tuple[str, str | None] | None:
        """Whose a launch is, and the configuration alone; None if the hook has counted it."""
        told, tab, own = (config or "").partition("\t")
        if tab:
            config = own or None
            if told in self._short:
                return told, config
        # A launch that the hook did not announce: an autotuner's own, or one of a graph.
        named = self._by_name.get(name, [])
        if any(each in self._own for each in named):
            return None  # a shim that takes no announcements: the hook measures itself
        return (named[0] if len(named) == 1 else name), config


def _spans(logs: Iterable[ProcessLog], end_ns: int) -> tuple[Span, ...]:
    found: dict[int, tuple[int, int]] = {}
    for log in logs:
        if log.process is None or log.counts is None:
            continue
        start, end = log.process.time_ns, log.ended_ns or end_ns
        known = found.get(log.pid, (start, end))
        found[log.pid] = (min(known[0], start), max(known[1], end))
    return tuple(Span(pid, start, end) for pid, (start, end) in found.items())
