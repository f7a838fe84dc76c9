"""Every launch of a run judged once: what is equal in all that was looked at is not analysed again."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kerncap import log
from kerncap.sanitizer.findings import NOT_SANITISED, HostRead, LaunchReport, Violated
from kerncap.sanitizer.launch import Argument, Contents, DescriptorArgument, Launch, TensorArgument, Unwritten
from kerncap.sanitizer.live.carried_out import CarryOutError, carry_out
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.paged_bytes import Bytes, Ints, NotReadable, PagedBytes
from kerncap.sanitizer.sources import hook_messages as messages
from kerncap.sanitizer.sources.described_launch import launch_of

MAX_KNOWN = 1 << 14  # analysed launches that are kept for comparison
MAX_OF_ONE_KEY = 64  # that differ in contents alone
ALIGNMENT = 64  # bytes: no access and no descriptor asks for more, unless the kernel promises it
_PROMISED = re.compile(r"tt\.(?:divisibility|contiguity) = (?:dense<)?(\d+)")
# Where a kernel makes numbers of pointers, or pointers of numbers or memory, addresses themselves count.
_SEES_ADDRESSES = re.compile(r"ptr_to_int|int_to_ptr|bitcast .*!tt\.ptr|!tt\.ptr<!tt\.ptr")

Engine = Callable[[Launch, Options], LaunchReport]


class _Looked(NamedTuple):
    storage: int
    pages: tuple[int, ...] | None  # None: which bytes are unwritten


@dataclasses.dataclass(frozen=True)
class _Known:
    """An analysed launch: what it looked at, and what it saw there."""

    looked: tuple[_Looked, ...]
    seen: tuple[str | None, ...]
    index: int


class Judge:
    """Reports in the order of the launches; ``repeats`` of a report counts the launches that needed none.

    What a judgement returns says where this very launch came from; `reports` say it of the first.
    """

    def __init__(self, options: Options | None = None, engine: Engine | None = None) -> None:
        self._options = options or Options()
        self._engine = engine
        self._known: dict[str, list[_Known]] = {}
        self._count = 0
        self._reports: list[LaunchReport] = []
        self._host_reads: list[HostRead] = []
        self._lost: set[tuple[int, int]] = set()  # addresses, [start, end)
        self._needs_bytes = 0
        # The solver is not made for threads; two launches of two processes wait for each other.
        self._lock = threading.RLock()

    @property
    def reports(self) -> list[LaunchReport]:
        with self._lock:
            return list(self._reports)

    @property
    def host_reads(self) -> list[HostRead]:
        with self._lock:
            return list(self._host_reads)

    @property
    def needs_bytes(self) -> int:
        """What would have been enough for the launches that memory did not suffice to carry out; or 0."""
        with self._lock:
            return self._needs_bytes

    def host_read(self, found: HostRead) -> None:
        """What torch read; of several processes with the same program once."""
        with self._lock:
            if found not in self._host_reads:
                self._host_reads.append(found)

    def judge(
        self, facts: messages.Facts, ttir: str, sources: Mapping[str, str], contents: Contents
    ) -> tuple[LaunchReport, Launch | None]:
        """The report of a launch as the hook describes it; an error in the analysis is a note in it.

        The launch is None if its TTIR can't be read, or its arguments don't fit it.
        """
        try:
            launch = self._without_lost(launch_of(facts, ttir, sources, contents))
        except Exception as error:
            return self.missed(facts.kernel, log.one_line(error)), None
        return self.judge_launch(launch), launch

    def carry_out(
        self, report: LaunchReport, launch: Launch | None, ended: Callable[[], bool] | None = None
    ) -> dict[int, list[tuple[int, Bytes]]]:
        """What a launch that was judged changes; see `carry_out`. Raises CarryOutError.

        What the launch would have written is then not what the program made: no later launch is judged by it.
        """
        if launch is None:
            raise CarryOutError("; ".join(report.notes))
        try:
            return carry_out(launch, self._options, ended)
        except CarryOutError as error:
            with self._lock:
                self._needs_bytes = max(self._needs_bytes, error.needs_bytes)
                for storage in (launch.storages[index] for index in error.lost):
                    self._lost.add((storage.address, storage.address + storage.size_bytes))
            raise

    def _without_lost(self, launch: Launch) -> Launch:
        with self._lock:
            lost = frozenset(
                index
                for index, one in enumerate(launch.storages)
                if any(
                    start < one.address + one.size_bytes and one.address < end for start, end in self._lost
                )
            )
        return dataclasses.replace(launch, contents=_Without(launch.contents, lost)) if lost else launch

    def judge_launch(self, launch: Launch) -> LaunchReport:
        with self._lock:
            seen = _Seen(launch)
            key = _key_of(launch)
            known = self._find(key, seen)
            if known is not None:
                before = self._reports[known.index]
                self._reports[known.index] = dataclasses.replace(before, repeats=before.repeats + 1)
                return _from_elsewhere(dataclasses.replace(before, repeats=0), launch)
            report = self._analyse(dataclasses.replace(launch, contents=seen))
            self._reports.append(report)
            self._remember(key, seen, len(self._reports) - 1)
            return report

    def missed(self, kernel: str, reason: str) -> LaunchReport:
        """A launch that nobody could describe."""
        with self._lock:
            report = LaunchReport(kernel, (0, 0, 0), (), (f"{NOT_SANITISED}: {reason}",))
            for index, one in enumerate(self._reports):
                if one == dataclasses.replace(report, repeats=one.repeats):
                    self._reports[index] = dataclasses.replace(one, repeats=one.repeats + 1)
                    return self._reports[index]
            self._reports.append(report)
            return report

    def _analyse(self, launch: Launch) -> LaunchReport:
        if launch.program_count == 0:
            return _report(launch, "the grid is empty: nothing runs")
        try:
            return self._loaded()(launch, self._options)
        except Exception as error:  # a sanitizer that fails must not take the user's program with it
            return _report(launch, f"{NOT_SANITISED}: {type(error).__name__}: {log.one_line(error)}")

    def _loaded(self) -> Engine:
        if self._engine is None:
            from kerncap.sanitizer import engine

            self._engine = engine.sanitize
        return self._engine

    def _find(self, key: str, seen: _Seen) -> _Known | None:
        for known in self._known.get(key, ()):
            if all(seen.value(one) == value for one, value in zip(known.looked, known.seen, strict=True)):
                return known
        return None

    def _remember(self, key: str, seen: _Seen, index: int) -> None:
        if self._count >= MAX_KNOWN:
            self._known.clear()
            self._count = 0
        group = self._known.setdefault(key, [])
        if len(group) >= MAX_OF_ONE_KEY:
            group.pop(0)
            self._count -= 1
        looked = seen.looked()
        group.append(_Known(looked, tuple(seen.value(one) for one in looked), index))
        self._count += 1


class _Without:
    """`Contents` of which some are not available."""

    def __init__(self, inner: Contents, lost: frozenset[int]) -> None:
        self._inner = inner
        self._lost = lost

    def read(self, storage: int) -> PagedBytes | None:
        return None if storage in self._lost else self._inner.read(storage)

    def unwritten(self, storage: int) -> Unwritten | None:
        return None if storage in self._lost else self._inner.unwritten(storage)


class _Seen:
    """`Contents` that remembers which of them were asked for."""

    def __init__(self, launch: Launch) -> None:
        self._inner = launch.contents
        self._bytes: dict[int, PagedBytes | None] = {}
        self._pages: dict[int, list[Ints]] = {}
        self._unwritten: set[int] = set()

    def read(self, storage: int) -> PagedBytes | None:
        if storage not in self._bytes:
            pages = self._pages[storage] = []
            inner = self._inner.read(storage)
            self._bytes[storage] = None if inner is None else inner.watched(pages.append)
        return self._bytes[storage]

    def unwritten(self, storage: int) -> Unwritten | None:
        self._unwritten.add(storage)
        return self._inner.unwritten(storage)

    def looked(self) -> tuple[_Looked, ...]:
        """All looks so far."""
        return (
            *(
                _Looked(storage, tuple(sorted(int(page) for part in parts for page in part)))
                for storage, parts in sorted(self._pages.items())
            ),
            *(_Looked(storage, None) for storage in sorted(self._unwritten)),
        )

    def value(self, looked: _Looked) -> str | None:
        """What a look gives now."""
        if looked.pages is not None:
            contents = self._inner.read(looked.storage)
            try:
                return None if contents is None else contents.digest(np.array(looked.pages, dtype=np.int64))
            except NotReadable:
                return None
        runs = self._inner.unwritten(looked.storage)
        if runs is None:
            return None
        return hashlib.blake2b(np.concatenate((runs.starts, runs.ends)).data, digest_size=16).hexdigest()


def _key_of(launch: Launch) -> str:
    """Equal for launches that differ in nothing but contents and where the allocator put their memory."""
    distinct = _distinct_addresses(launch.ttir)
    storages = [
        (
            one.size_bytes,
            one.address % distinct if distinct else one.address,
            one.address - one.allocation_address,
            one.allocation_bytes,
        )
        for one in launch.storages
    ]
    arguments = [_without_address(one, launch) for one in launch.arguments]
    values = repr([launch.kernel, launch.grid, launch.target, storages, arguments])
    return hashlib.blake2b((values + launch.ttir).encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=256)
def _distinct_addresses(ttir: str) -> int:
    """Addresses that are equal modulo this number are the same to the kernel; 0: none are."""
    if _SEES_ADDRESSES.search(ttir):
        return 0
    promised = (int(number) for number in _PROMISED.findall(ttir))
    return math.lcm(ALIGNMENT, *(number for number in promised if 0 < number <= 1 << 20))


def _without_address(argument: Argument, launch: Launch) -> Argument:
    """Its address as an offset into its storage; a bare address stays."""
    if isinstance(argument, DescriptorArgument):
        tensor = _in_its_storage(argument.tensor, launch)
        return dataclasses.replace(argument, tensor=tensor)
    return _in_its_storage(argument, launch) if isinstance(argument, TensorArgument) else argument


def _in_its_storage(tensor: TensorArgument, launch: Launch) -> TensorArgument:
    return dataclasses.replace(tensor, address=tensor.address - launch.storages[tensor.storage].address)


def _from_elsewhere(report: LaunchReport, launch: Launch) -> LaunchReport:
    """The report of an equal launch, as this one's."""
    if (report.python_stack, report.label) == (launch.python_stack, launch.label):
        return report
    settled = tuple(
        dataclasses.replace(one, verdict=_with_stack(one.verdict, launch))
        if isinstance(one.verdict, Violated)
        else one
        for one in report.settled
    )
    return dataclasses.replace(report, settled=settled, python_stack=launch.python_stack, label=launch.label)


def _with_stack(verdict: Violated, launch: Launch) -> Violated:
    return Violated(
        tuple(dataclasses.replace(finding, python_stack=launch.python_stack) for finding in verdict.findings)
    )


def _report(launch: Launch, note: str) -> LaunchReport:
    return LaunchReport(
        launch.kernel, launch.grid, (), (note,), launch.label, launch.configuration, launch.python_stack
    )
