"""The rules of `memory/index`, and chunks that are damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap.errors import FormatError
from kerncap.format import Reproducer
from tests.unit.format.damage import damaged, edit_index, write_stored

ROW, ENTRY = 52, 12


def pack_into(
    column: str, record: int, size: int, field: int, form: str, value: int
) -> Callable[[Any], None]:
    return lambda index: struct.pack_into(form, index[column], record * size + field, value)


INDEX_RULES = [
    (pack_into("table", 0, ROW, 32, "<Q", 5), "table", 32, "table record 0: chunks are not contiguous"),
    (
        pack_into("table", 1, ROW, 32, "<Q", 2**64 - 1), "table", ROW + 32,
        "table record 1: chunks are not contiguous",
    ),
    (pack_into("table", 0, ROW, 40, "<I", 0), "table", 40, "table record 0: stored size does not fit"),
    (
        pack_into("table", 0, ROW, 40, "<I", 2**32 - 1), "table", 40,
        "table record 0: stored size does not fit",
    ),
    (
        pack_into("table", 3, ROW, 40, "<I", 1), "table", 3 * ROW + 40,
        "table record 3: stored size does not fit",
    ),
    (pack_into("table", 0, ROW, 44, "<I", 0), "table", 44, "table record 0: raw size is not 1 to 262144"),
    (pack_into("table", 0, ROW, 44, "<I", 2**31), "table", 44, "table record 0: raw size is not 1 to 262144"),
    (pack_into("table", 0, ROW, 48, "<I", 2), "table", 48, "table record 0: unknown encoding"),
    (pack_into("pre", 0, ENTRY, 0, "<I", 9), "pre", 0, "pre record 0: region is not below 4"),
    (pack_into("pre", 1, ENTRY, 4, "<I", 0), "pre", ENTRY, "pre record 1: records are not in strictly"),
    (
        pack_into("pre", 2, ENTRY, 4, "<I", 4), "pre", 2 * ENTRY + 4,
        "pre record 2: chunk is beyond its region",
    ),
    (pack_into("pre", 0, ENTRY, 8, "<I", 5), "pre", 8, "pre record 0: row is not among the table's 4"),
    (pack_into("pre", 0, ENTRY, 8, "<I", 2), "pre", 8, "pre record 0: the chunk's raw size does not fit"),
    (pack_into("pre", 0, ENTRY, 8, "<I", 0), "pre", 8, "pre record 0: a zero chunk"),
    (pack_into("post", 1, ENTRY, 8, "<I", 2), "post", ENTRY + 8, "post record 1: the chunk did not change"),
    (
        lambda index: index["table"].extend(b"x"), "table", 0,
        "table: 209 bytes are not a whole number of 52-byte",
    ),
    (
        lambda index: index["table"].__delitem__(slice(ROW * 3, None)), "table", 0,
        "the chunks take 2[0-9]+ bytes, memory",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "column", "offset", "message"), INDEX_RULES)
def test_a_rule_of_the_index(
    folder: Path, edit: Callable[[Any], None], column: str, offset: int, message: str
) -> None:
    data = edit_index(folder, edit)
    start = data.index(bytes(msgspec.msgpack.decode(data)[column]))
    if "the chunks take" in message:
        message = message.replace("2[0-9]+", "[0-9]+")
    assert damaged(folder, "memory/index", message).offset == start + offset


def chunk_offset(folder: Path, row: int) -> int:
    with Reproducer.open(folder) as reproducer:
        return int(reproducer.index.table["offset"][row - 1])


@pytest.mark.parametrize("row", [1, 2, 3, 4])
def test_flipped_byte_in_a_chunk(folder: Path, row: int) -> None:
    offset = chunk_offset(folder, row)
    data = bytearray((folder / "memory/chunks").read_bytes())
    data[offset + 12] ^= 1
    (folder / "memory/chunks").write_bytes(data)
    assert damaged(folder, "memory/chunks", f"chunk {row} is damaged").offset == offset


def test_flipped_byte_is_found_when_that_chunk_is_read(folder: Path) -> None:
    data = bytearray((folder / "memory/chunks").read_bytes())
    data[chunk_offset(folder, 4) + 12] ^= 1
    (folder / "memory/chunks").write_bytes(data)
    with Reproducer.open(folder) as reproducer:
        reproducer.read("pre", 0, 0, 4096)
        with pytest.raises(FormatError, match="damaged: SHA-256 is"):
            reproducer.read("post", 0, 0, reproducer.manifest.regions[0].size)
            reproducer.read("pre", 2, 0, 4096)


def test_frame_that_claims_another_size(folder: Path) -> None:
    """A frame that says 2^60 bytes is refused by its header, before anything is allocated."""
    data = bytearray((folder / "memory/chunks").read_bytes())
    offset = chunk_offset(folder, 1)
    # Magic, then a descriptor for a single segment with an 8-byte content size (RFC 8878, 3.1.1.1).
    data[offset + 4 : offset + 13] = b"\xe0" + struct.pack("<Q", 1 << 60)
    write_stored(folder, ("memory", "chunks"), "memory/chunks", bytes(data))
    error = damaged(
        folder, "memory/chunks", "the zstd frame holds 1152921504606846976 bytes, expected 262144"
    )
    assert error.offset == offset


def test_bytes_after_the_frame(folder: Path) -> None:
    """A payload with a tail behind its frame is no second place to hide things."""
    data = (folder / "memory/chunks").read_bytes()
    end = chunk_offset(folder, 2)
    write_stored(folder, ("memory", "chunks"), "memory/chunks", data[:end] + b"hide" + data[end:])

    def edit(index: Any) -> None:
        stored = struct.unpack_from("<I", index["table"], 40)[0]
        struct.pack_into("<I", index["table"], 40, stored + 4)
        for record in (1, 2, 3):
            place = record * ROW + 32
            struct.pack_into(
                "<Q", index["table"], place, struct.unpack_from("<Q", index["table"], place)[0] + 4
            )

    edit_index(folder, edit)
    assert damaged(folder, "memory/chunks", "chunk 1 is damaged: not a zstd frame").offset == 0
