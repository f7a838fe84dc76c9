"""One process of a session: its records, read as they grow, and the files that they name."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerncap import log
from kerncap.capture import payloads
from kerncap.errors import CaptureError
from kerncap.format import contract, records
from kerncap.format.records import Record, RecordKind

FOLDER = re.compile(r"^([0-9]{1,10})-([0-9]{1,6})$")
# O_NOFOLLOW and O_NONBLOCK: a link or a FIFO in a hostile session must not lead or hang us.
_OPEN_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MAX_THINGS, MAX_TIMED = 1 << 15, 1 << 18  # of one process, as the shims have them
MAX_COMPLAINTS = 20  # of one process; a target that writes nonsense must not flood the terminal


@dataclass
class PendingLaunch:
    """A launch between its LAUNCH record and its end."""

    record: payloads.LaunchRecord
    complete: payloads.CompleteRecord | None = None


@dataclass
class Annotation:
    """The two halves of what the hook says about a launch of a native shim."""

    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


@dataclass
class ProcessLog:
    """What one process has said so far. `read_new` takes in what was appended since."""

    folder: Path
    pid: int
    process: payloads.ProcessRecord | None = None
    seen: dict[str, payloads.SeenRecord] = field(default_factory=dict)
    counts: payloads.CountsRecord | None = None
    failed: list[payloads.FailedRecord] = field(default_factory=list)
    pending: dict[int, PendingLaunch] = field(default_factory=dict)
    annotations: dict[int, Annotation] = field(default_factory=dict)
    traced: list[payloads.TracedRecord] = field(default_factory=list)
    things: list[payloads.TimedThing] = field(default_factory=list)
    timed: list[tuple[int, int, int, int]] = field(default_factory=list)  # thing, start, length, bytes
    untimed: int = 0  # events that found no room there
    last: payloads.LastRecord | None = None
    progress: payloads.ProgressRecord | None = None  # the newest that nobody has shown yet
    ended: bool = False
    ended_ns: int | None = None  # when it said so, as time.time_ns() has it
    complaints: list[str] = field(default_factory=list)
    unread: str | None = None  # why the last look at its records was in vain
    _offset: int = 0
    _size: int = 0  # of the records when they were last read

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def is_native(self) -> bool:
        """Whether a native shim wrote it, not the Triton hook."""
        return self.process is not None and self.process.shim != contract.word.shim.triton

    @property
    def rank(self) -> int | None:
        """Its rank in a distributed program; None if it has none."""
        return self.process.rank if self.process is not None else None

    def complain(self, text: str) -> None:
        """Keep one line about something unusable, up to a bound."""
        if len(self.complaints) < MAX_COMPLAINTS:
            self.complaints.append(f"process {self.pid}: {log.one_line(text)}")

    def read_new(self) -> None:
        """Take in every whole record that was appended since the last call."""
        try:
            descriptor = os.open(self.folder / "records", os.O_RDONLY | _OPEN_FLAGS)
        except FileNotFoundError:
            return  # not there yet
        except OSError as error:
            self.unread = f"process {self.pid}: its records can't be read: {error.strerror}"
            return
        self.unread = None
        try:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_size != self._size:
                self._size = status.st_size
                for record in self._whole_records(descriptor, status.st_size):
                    try:
                        self._take(record)
                    except CaptureError as error:
                        self._refuse(record, error)
        except OSError as error:
            self.unread = f"process {self.pid}: its records can't be read: {error.strerror}"
        finally:
            os.close(descriptor)

    def alive(self) -> bool:
        """Whether the process still holds its lock; one that never took it counts as gone."""
        if not (self.folder / "records").exists():
            # The hook takes its lock first. Ours, held for a moment, must not get in its way.
            return False
        try:
            descriptor = os.open(self.folder / "lock", os.O_RDWR | _OPEN_FLAGS)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    def open_file(self, name: str) -> int:
        """A descriptor on a regular file of this folder, the caller's to close.

        ``name`` has passed the patterns of `payloads`. Raises CaptureError if it is missing or
        anything but a plain file.
        """
        path = self.folder / name
        if path.parent != self.folder and path.parent.is_symlink():
            raise CaptureError(f"{path}: leads out of the session")
        try:
            descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
        except OSError as error:
            raise CaptureError(f"{path}: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise CaptureError(f"{path}: not a plain file")
        return descriptor

    def read_file(self, name: str, limit: int) -> bytes:
        """The whole of a small file; CaptureError if it is larger than ``limit`` bytes."""
        with os.fdopen(self.open_file(name), "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise CaptureError(f"{self.folder / name}: larger than {log.size(limit)}")
        return data

    def _whole_records(self, descriptor: int, size: int) -> Iterator[Record]:
        while self._offset + records.HEADER.size <= size:
            head = os.pread(descriptor, records.HEADER.size, self._offset)
            if len(head) < records.HEADER.size:
                return
            magic, _kind, _version, body, _crc, _reserved = records.HEADER.unpack(head)
            total = records.HEADER.size + body + (-body % records.ALIGNMENT)
            if magic != records.MAGIC or body > records.MAX_PAYLOAD or self._offset + total > size:
                return
            data = os.pread(descriptor, total, self._offset)
            try:
                found = list(records.decode(data))
            except RecursionError:
                found = []
            if not found and not _is_intact(data):
                return  # still being written, or torn
            self._offset += total
            yield from found

    def _take(self, record: Record) -> None:
        kind, payload = record.kind, record.payload
        if kind is RecordKind.PROCESS:
            self.process = payloads.convert(payload, payloads.ProcessRecord, "PROCESS")
        elif kind is RecordKind.SEEN:
            seen = payloads.convert(payload, payloads.SeenRecord, "SEEN")
            self.seen[seen.qualified_name] = seen
        elif kind is RecordKind.LAUNCH:
            launch = payloads.convert(
                payload, payloads.LaunchRecord, f"launch {payload.get(contract.key.launch)}"
            )
            self.pending[launch.launch] = PendingLaunch(launch)
        elif kind is RecordKind.COMPLETE:
            done = payloads.convert(
                payload, payloads.CompleteRecord, f"launch {payload.get(contract.key.launch)}"
            )
            if done.launch in self.pending:
                self.pending[done.launch].complete = done
        elif kind is RecordKind.DROPPED:
            self.pending.pop(payloads.convert(payload, payloads.DroppedRecord, "DROPPED").launch, None)
        elif kind is RecordKind.FAILED:
            failed = payloads.convert(payload, payloads.FailedRecord, "FAILED")
            self.failed.append(failed)
            if failed.launch is not None:
                self.pending.pop(failed.launch, None)
        elif kind is RecordKind.COUNTS:
            self.counts = payloads.convert(payload, payloads.CountsRecord, "COUNTS")
        elif kind is RecordKind.END:
            self.ended = True
            self.ended_ns = payloads.convert(payload, payloads.EndRecord, "END").time_ns
        elif kind is RecordKind.ANNOTATION:
            said = payloads.convert(payload, payloads.AnnotationRecord, "ANNOTATION")
            known = self.annotations.setdefault(said.token, Annotation())
            known.before = said.launch if said.launch is not None else known.before
            known.after = said.complete if said.complete is not None else known.after
        elif kind is RecordKind.LAST:
            self.last = self.last or payloads.convert(payload, payloads.LastRecord, "LAST")
        elif kind is RecordKind.TRACED:
            self.traced.append(payloads.convert(payload, payloads.TracedRecord, "TRACED"))
        elif kind is RecordKind.TIMELINE:
            self._take_timeline(payloads.convert(payload, payloads.TimelineRecord, "TIMELINE"))
        elif kind is RecordKind.PROGRESS:
            self.progress = payloads.convert(payload, payloads.ProgressRecord, "PROGRESS")

    def _take_timeline(self, said: payloads.TimelineRecord) -> None:
        self.things += said.things[: MAX_THINGS - len(self.things)]
        events = [event for event in said.events if event[0] < len(self.things)]
        events = events[: MAX_TIMED - len(self.timed)]
        self.timed += events
        self.untimed += said.lost + len(said.events) - len(events)

    def _refuse(self, record: Record, error: CaptureError) -> None:
        self.complain(f"{record.kind.name} record that can't be used: {error}")
        launch = record.payload.get(contract.key.launch)
        if record.kind is RecordKind.COMPLETE and isinstance(launch, int):
            self.pending.pop(launch, None)


def _is_intact(data: bytes) -> bool:
    """Whether a record that decoded to nothing is one of a newer hook, not a torn one."""
    _magic, _kind, _version, body, crc, _reserved = records.HEADER.unpack_from(data)
    return bool(zlib.crc32(data[records.HEADER.size : records.HEADER.size + body]) == crc)
