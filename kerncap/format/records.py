"""Session records: the Python mirror of `shims/include/kerncap/records.h`.

The payload of every kind is a JSON object (UTF-8); what each holds is written down in
`docs/session.md`. Bulk bytes never travel in a record.
"""

from __future__ import annotations

import enum
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

MAGIC = 0x5243434B
VERSION = 1
ALIGNMENT = 8
MAX_PAYLOAD = 256 * 1024 * 1024
HEADER = struct.Struct("<IHHQII")


class RecordKind(enum.IntEnum):
    PROCESS = 1
    SEEN = 2
    LAUNCH = 3
    COMPLETE = 4
    DROPPED = 5
    FAILED = 6
    COUNTS = 7
    END = 8
    ANNOTATION = 9
    LAST = 10
    PROGRESS = 11


class Record(NamedTuple):
    kind: RecordKind
    payload: dict[str, Any]
    end_offset: int


def encode(kind: RecordKind, payload: dict[str, Any]) -> bytes:
    """One record as bytes, padded to the alignment."""
    body = json.dumps(payload, separators=(",", ":")).encode()
    head = HEADER.pack(MAGIC, kind, VERSION, len(body), zlib.crc32(body), 0)
    return head + body + b"\0" * (-len(body) % ALIGNMENT)


def decode(data: bytes | memoryview, start: int = 0) -> Iterator[Record]:
    """Whole records from ``start`` on; ends quietly at a torn or foreign one.

    A target can die in the middle of an append, so a bad tail is no error: the caller
    keeps ``end_offset`` of the last record and may call again when the file has grown.
    """
    view = memoryview(data)
    offset = start
    while offset + HEADER.size <= len(view):
        magic, kind, _version, size, crc, _reserved = HEADER.unpack_from(view, offset)
        body_start = offset + HEADER.size
        end = body_start + size + (-size % ALIGNMENT)
        if magic != MAGIC or size > MAX_PAYLOAD or end > len(view):
            return
        body = bytes(view[body_start : body_start + size])
        if zlib.crc32(body) != crc:
            return
        offset = end
        try:
            payload = json.loads(body)
            record = Record(RecordKind(kind), payload, end)
        except ValueError:
            continue  # a kind or a payload of a newer shim
        if isinstance(payload, dict):
            yield record
