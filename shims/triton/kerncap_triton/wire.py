"""Appends session records; the layout is shims/include/kerncap/records.h."""

from __future__ import annotations

import json
import os
import struct
import threading
import zlib
from typing import Any, Dict

MAGIC = 0x5243434B
VERSION = 1
HEADER = struct.Struct("<IHHQII")

PROCESS, SEEN, LAUNCH, COMPLETE, DROPPED, FAILED, COUNTS, END = range(1, 9)


def encode(kind: int, payload: Dict[str, Any]) -> bytes:
    body = json.dumps(payload, separators=(",", ":")).encode()
    head = HEADER.pack(MAGIC, kind, VERSION, len(body), zlib.crc32(body), 0)
    return head + body + b"\0" * (-len(body) % 8)


class RecordFile:
    """Append-only. One write per record, so that a kill leaves at most one torn record, at the end."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()

    def append(self, kind: int, payload: Dict[str, Any]) -> None:
        data = memoryview(encode(kind, payload))
        with self._lock:
            while data:
                data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        os.close(self._fd)
