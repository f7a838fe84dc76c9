"""Appends session records; shims/contract/records.h has their layout."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import zlib
from typing import Any, Dict, Tuple

from .contract import ALIGNMENT, HEADER, MAGIC, VERSION, RecordKind
from .quiet_signals import QuietSignals


def encode(kind: RecordKind, payload: Dict[str, Any]) -> bytes:
    body = json.dumps(payload, separators=(",", ":")).encode()
    head = HEADER.pack(MAGIC, kind, VERSION, len(body), zlib.crc32(body), 0)
    return head + body + b"\0" * (-len(body) % ALIGNMENT)


def write_whole(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = os.write(fd, rest)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = rest[written:]


def write_file(path: str, data: bytes) -> None:
    """A whole new file of the session, or OSError and none."""
    with QuietSignals():
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            try:
                write_whole(fd, data)
            finally:
                os.close(fd)  # a network's file system may say only here that it is full
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise


class OwnDescriptor:
    """A descriptor that the target may close under us, as a daemon closes all that it has.

    Its number may then name a file of the target's, which we must neither write nor close.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._identity = _identity(fd)

    @property
    def is_ours(self) -> bool:
        try:
            return _identity(self.fd) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        if self.is_ours:
            os.close(self.fd)


def _identity(fd: int) -> Tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


class RecordFile:
    """Append-only. One write per record, so that a kill leaves at most one torn record, at the end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._own = self._open()
        self._lock = threading.Lock()

    def _open(self) -> OwnDescriptor:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return OwnDescriptor(os.open(self._path, flags, 0o600))

    def append(self, kind: RecordKind, payload: Dict[str, Any]) -> None:
        """Raises OSError; the file then ends with the record before."""
        data = encode(kind, payload)
        with self._lock, QuietSignals():
            if not self._own.is_ours:
                self._own = self._open()
            end = os.fstat(self._own.fd).st_size
            try:
                write_whole(self._own.fd, data)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._own.fd, end)  # half a record would hide all that come after it
                raise

    def close(self) -> None:
        self._own.close()
