"""The record layout: what a C compiler makes of the header against the Python mirror; torn tails."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import records
from kerncap.format.records import RecordKind

SHIMS = Path(__file__).parents[3] / "shims"
PROGRAM = r"""
#include <stddef.h>
#include <stdio.h>
#include "contract/records.h"
#define FIELD(name) printf("field " #name " %zu %zu\n", offsetof(struct kerncap_record_header, name), \
                           sizeof(((struct kerncap_record_header*)0)->name))
int main(void) {
  printf("size %zu\n", sizeof(struct kerncap_record_header));
  printf("MAGIC %lu\n", (unsigned long)KERNCAP_RECORD_MAGIC);
  printf("VERSION %lu\n", (unsigned long)KERNCAP_RECORD_VERSION);
  printf("ALIGNMENT %lu\n", (unsigned long)KERNCAP_RECORD_ALIGNMENT);
  printf("MAX_PAYLOAD %lu\n", (unsigned long)KERNCAP_RECORD_MAX_PAYLOAD);
  FIELD(magic); FIELD(kind); FIELD(version); FIELD(payload_bytes); FIELD(payload_crc32); FIELD(reserved);
%s
  return 0;
}
"""
RECORDS: list[tuple[RecordKind, dict[str, Any]]] = [
    (RecordKind.PROCESS, {"pid": 1}),
    (RecordKind.SEEN, {"kernel": "é"}),
    (RecordKind.LAUNCH, {"launch": 0, "regions": []}),
    (RecordKind.END, {}),
]
LOG = b"".join(records.encode(kind, payload) for kind, payload in RECORDS)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the compiled header prints about itself, line by line."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("records")
    kinds = "\n".join(f'  printf("kind {k.name} %d\\n", KERNCAP_RECORD_{k.name});' for k in RecordKind)
    (folder / "p.c").write_text(PROGRAM.replace("%s", kinds))
    command = [compiler, "-std=c11", "-Wall", "-Werror", f"-I{SHIMS}", "p.c", "-o", "p"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return subprocess.run([folder / "p"], check=True, capture_output=True, text=True).stdout.splitlines()


def test_header_layout(compiled: list[str]) -> None:
    assert f"size {records.HEADER.size}" in compiled
    fields = [line.split()[1:] for line in compiled if line.startswith("field")]
    assert [name for name, _, _ in fields] == [
        "magic", "kind", "version", "payload_bytes", "payload_crc32", "reserved",
    ]  # fmt: skip
    # Fill each C field with its own number and unpack with Python's layout.
    raw = bytearray(records.HEADER.size)
    for number, (_, offset, size) in enumerate(fields, 1):
        raw[int(offset) : int(offset) + int(size)] = number.to_bytes(int(size), "little")
    assert records.HEADER.unpack(raw) == (1, 2, 3, 4, 5, 6)


def test_constants(compiled: list[str]) -> None:
    for name in ("MAGIC", "VERSION", "ALIGNMENT", "MAX_PAYLOAD"):
        assert f"{name} {getattr(records, name)}" in compiled


def test_kinds(compiled: list[str]) -> None:
    assert [line for line in compiled if line.startswith("kind")] == [
        f"kind {k.name} {k}" for k in RecordKind
    ]
    named = (SHIMS / "contract" / "records.def").read_text()
    assert named.count("\nKERNCAP_KIND(") == len(RecordKind), "a kind that Python does not mirror"


def test_exact_bytes() -> None:
    body = b'{"a":1}'
    expected = struct.pack("<IHHQII", 0x5243434B, 8, 1, 7, zlib.crc32(body), 0) + body + b"\0"
    assert expected[:4] == b"KCCR"
    assert records.encode(RecordKind.END, {"a": 1}) == expected


def test_whole_log() -> None:
    decoded = list(records.decode(LOG))
    assert [(record.kind, record.payload) for record in decoded] == RECORDS
    assert decoded[-1].end_offset == len(LOG)
    assert all(record.end_offset % records.ALIGNMENT == 0 for record in decoded)


def test_torn_tail_at_every_byte() -> None:
    ends = [record.end_offset for record in records.decode(LOG)]
    for cut in range(len(LOG) + 1):
        found = list(records.decode(LOG[:cut]))
        assert len(found) == sum(end <= cut for end in ends)
        if found:
            resumed = list(records.decode(LOG, found[-1].end_offset))
            assert [r.kind for r in (*found, *resumed)] == [kind for kind, _ in RECORDS]


def test_damage_ends_the_log() -> None:
    first = next(records.decode(LOG)).end_offset
    second = json.dumps({"kernel": "é"}, separators=(",", ":")).encode()
    for offset in (first, first + 8, first + 16, first + records.HEADER.size + len(second) - 1):
        torn = bytearray(LOG)
        torn[offset] ^= 0xFF
        assert [r.kind for r in records.decode(bytes(torn))] == [RecordKind.PROCESS]


def test_a_length_that_would_overflow_ends_the_log() -> None:
    head = records.HEADER.pack(records.MAGIC, 1, 1, 2**64 - 1, 0, 0)
    assert list(records.decode(head + bytes(64))) == []


def test_unknown_kinds_and_other_payloads_are_skipped() -> None:
    def raw(kind: int, body: bytes) -> bytes:
        head = records.HEADER.pack(records.MAGIC, kind, 1, len(body), zlib.crc32(body), 0)
        return head + body + b"\0" * (-len(body) % 8)

    log = raw(99, b"{}") + raw(1, b"not json") + raw(1, b"[1]") + records.encode(RecordKind.END, {})
    assert [record.kind for record in records.decode(log)] == [RecordKind.END]
