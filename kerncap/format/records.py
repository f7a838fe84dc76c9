"""Session records, as `shims/contract/records.h` lays them out.

The payload of every kind is a JSON object (UTF-8); what each holds is written down in
`shims/contract/payloads.def`. Bulk bytes never travel in a record.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from kerncap.format.contract import ALIGNMENT, HEADER, MAGIC, MAX_PAYLOAD, VERSION, RecordKind

__all__ = [
    "ALIGNMENT", "HEADER", "MAGIC", "MAX_PAYLOAD", "VERSION", "Record", "RecordKind", "decode", "encode",
]  # fmt: skip


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
