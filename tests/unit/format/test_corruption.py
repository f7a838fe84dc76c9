"""One damage per error: the message says what is wrong, and the offset is the byte where it stands."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap.errors import FormatError, UsageError
from kerncap.format import Checks, Reproducer, SelfCheck, WriteSet
from kerncap.format.documents import canonical_json
from tests.unit.format.damage import GOLDEN_HIP, edit_index, edit_manifest, write_manifest, write_stored

Manifest = Any


def damaged(folder: Path, file: str, message: str) -> FormatError:
    """Open and verify ``folder``; it must fail in ``file`` with one line that has ``message``."""
    with pytest.raises(FormatError, match=message) as caught:
        with Reproducer.open(folder) as reproducer:
            reproducer.verify()
            WriteSet.load(reproducer)
    assert Path(caught.value.path) == folder / file
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert f"byte {caught.value.offset}: " in text
    return caught.value


# --- manifest: rules --------------------------------------------------------------------------


def put(*steps: str | int) -> Callable[[Any], Callable[[Manifest], None]]:
    """put("a", 0, "b")(value): the edit that sets manifest["a"][0]["b"]."""

    def with_value(value: Any) -> Callable[[Manifest], None]:
        def edit(manifest: Manifest) -> None:
            for step in steps[:-1]:
                manifest = manifest[step]
            manifest[steps[-1]] = value

        return edit

    return with_value


def nested(depth: int) -> Any:
    value: Any = {"kind": "none"}
    for _ in range(depth - 1):
        value = {"kind": "sequence", "items": [value]}
    return value


def zeros(offset: int, size: int = 2 << 20) -> dict[str, int]:
    """A range of zeros; region 0 begins at offset 0."""
    return {"base": 0x7F0000000000 + offset, "size": size}


INT = {"kind": "int", "value": "1"}
DESCRIPTOR = {"kind": "descriptor", "view": 0, "shape": [2], "strides": [1], "block_shape": [2, 2]}
RULES = [
    (put("version", "major")(2), '"major": ', "2", "format version 2 is not known"),
    (put("format")("other"), '"format": ', '"other"', "format 'other'; expected"),
    (
        put("regions", 0, "size")(2**60), '"size": ', str(2**60),
        r"Expected `int` <= 281474976710656 \(regions.0.size\)",
    ),
    (put("regions", 0, "size")(2**48), '"size": ', str(2**48), "regions add up to more than"),
    (put("regions", 0, "base")(2**63), '"base": ', str(2**63), "Expected `int` <= 9223372036854775807"),
    (put("regions", 0, "base")(2**63 - 1), '"size": ', "787432", "region 0 ends beyond address 2"),
    (put("regions", 0, "size")(-1), '"size": ', "-1", "Expected `int` >= 0"),
    (put("zeros")([zeros(4096)]), "[", '{"base": ', "2097152 bytes at 0x7f0000001000 are not whole pages"),
    (put("zeros")([zeros(0, size=3)]), "[", '{"base": ', "zeros of 3 bytes at 0x7f0000000000 are not whole"),
    (put("zeros")([zeros(0)]), '"zeros": ', "[", "at 0x7f0000000000 share a page with other memory"),
    (put("zeros")([zeros(2**30), zeros(2**30)]), '"zeros": ', "[", "at 0x7f0040000000 share a page"),
    (put("zeros")([zeros(0, size=2**41)]), '"zeros": ', "[", "zeros add up to more than"),
    (put("views", 0, "region")(4), '"region": ', "4", "region 4 of only 4"),
    (put("views", 0, "offset")(2**40), '"offset": ', str(2**40), "view reaches bytes"),
    (put("views", 0, "strides")([2**48, 1]), '"offset": ', "0", "view reaches bytes 0 to 709316[0-9]+"),
    (put("views", 1, "offset")(504), '"offset": ', "504", "view reaches bytes -4 to 508"),
    (put("views", 3, "offset")(1), '"offset": ', "1", "offset 1 in a region of 0 bytes"),
    (put("views", 0, "strides")([1]), '"strides": ', "[", "1 strides for 2 dimensions"),
    (put("views", 0, "itemsize")(0), '"itemsize": ', "0", "Expected `int` >= 1"),
    (put("arguments", 0, "value", "view")(9), '"view": ', "9", "view 9 of only 4"),
    (
        put("arguments", 0, "value")(DESCRIPTOR), '"block_shape": ', "[",
        "a descriptor's shapes differ in rank",
    ),
    (put("arguments", 0, "value")(nested(33)), "", '{"kind": "none"}', "values nested deeper than 32"),
    (put("arguments", 0, "value")({"kind": "no"}), '"kind": ', '"no"', "Invalid value 'no'"),
    (put("arguments", 4, "value", "value")("0x1p+99999"), '"value": ', '"0x1p+99999"', "not a 64-bit float"),
    (put("arguments", 3, "value", "value")("1e5"), '"value": ', '"1e5"', "matching regex"),
    (put("arguments", 0, "divisibility")(10**30), '"divisibility": ', "1000", "Expected `int` <="),
    (
        put("arguments", 2, "value")({"kind": "sequence", "items": [INT], "fields": ["a", "b"]}),
        '"fields": ', "[", "2 field names for 1 items",
    ),
    (put("autotune", "chosen")(1), '"chosen": ', "1", "configuration 1 of only 1"),
    (put("memory", "index", "path")("memory/other"), '"path": ', '"memory/other"', "expected 'memory/index'"),
    (put("memory", "index", "size")(2**30), '"size": ', str(2**30), "1073741824 bytes; at most 268435456"),
    (put("memory", "chunk_bytes")(2**30), '"chunk_bytes": ', str(2**30), "Expected `int` <= 16777216"),
    (put("memory", "pre_bytes")(7), '"pre_bytes": ', "7", "pre_bytes is 7, the index lists 529384"),
    (put("memory", "post_bytes")(7), '"post_bytes": ', "7", "post_bytes is 7, the index lists 263144"),
    (put("code", 0, "file", "size")(2**40), '"size": ', str(2**40), "at most 4294967296 are allowed"),
    (put("code", 0, "file", "path")("../x"), '"path": ', '"../x"', "leads out of the reproducer"),
    (put("code", 0, "file", "path")("/etc/passwd"), '"path": ', '"/etc/passwd"', "is absolute"),
    (put("code", 0, "file", "path")("C:/x"), '"path": ', '"C:/x"', "is absolute"),
    (put("code", 0, "file", "path")("a\\b"), '"path": ', '"a\\\\b"', "has a backslash"),
    (put("code", 0, "file", "path")("a\0b"), '"path": ', '"a\\u0000b"', "a path with a NUL byte"),
    (put("code", 0, "file", "path")("a//b"), '"path": ', '"a//b"', "not in its plain form"),
    (put("code", 0, "file", "path")("./a"), '"path": ', '"./a"', "not in its plain form"),
    (put("code", 0, "file", "path")(""), '"path": ', '""', "length >= 1"),
    (put("code", 0, "file", "path")("a/" * 40 + "b"), '"path": ', '"a/a', "too deep"),
    (
        put("code", 0, "file", "path")("checks.json"), '"path": ', '"checks.json"',
        "not a file that a manifest may",
    ),
    (put("files", 0, "path")("code/kernel.ttir"), '"path": ', '"code/kernel.ttir"', "listed twice"),
    (put("files", 0, "path")("source/scale.py/x"), '"path": ', '"source/scale.py/x"', "is below another"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "before", "at", "message"), RULES, ids=[rule[3][:40] for rule in RULES])
def test_a_rule_of_the_manifest(
    folder: Path, edit: Callable[[Manifest], None], before: str, at: str, message: str
) -> None:
    manifest = json.loads((folder / "manifest.json").read_bytes())
    edit(manifest)
    # One line per object, so that "what stands at the offset" can be said in one piece.
    data = json.dumps(manifest).encode()
    write_manifest(folder, data)
    error = damaged(folder, "manifest.json", message)
    assert data[error.offset :].startswith(at.encode())
    assert data[: error.offset].endswith(before.encode())


def test_newer_minor_and_unknown_keys_are_read(folder: Path) -> None:
    def edit(manifest: Manifest) -> None:
        manifest["version"]["minor"] = 9
        manifest["future"] = {"deep": [1, {"more": 2.5}]}
        manifest["regions"][0]["future"] = None

    edit_manifest(folder, edit)
    with Reproducer.open(folder) as reproducer:
        assert reproducer.manifest.version.minor == 9
        reproducer.verify()


# --- manifest: bytes --------------------------------------------------------------------------


def test_json_syntax_error_names_its_byte(folder: Path) -> None:
    data = (folder / "manifest.json").read_bytes()
    at = data.index(b'"grid"')
    write_manifest(folder, data[:at] + b"?" + data[at + 1 :])
    assert damaged(folder, "manifest.json", "not valid JSON").offset == at


def test_truncated_manifest(folder: Path) -> None:
    data = (folder / "manifest.json").read_bytes()[:1000]
    write_manifest(folder, data)
    assert damaged(folder, "manifest.json", "truncated").offset == 1000


def test_empty_manifest(folder: Path) -> None:
    write_manifest(folder, b"")
    assert damaged(folder, "manifest.json", "truncated").offset == 0


def test_manifest_that_is_not_utf8(folder: Path) -> None:
    data = (folder / "manifest.json").read_bytes()
    at = data.index(b"train.py")
    write_manifest(folder, data[:at] + b"\xff" + data[at + 1 :])
    assert damaged(folder, "manifest.json", "not UTF-8").offset == at


def test_manifest_nested_without_end(folder: Path) -> None:
    write_manifest(folder, b'{"x":' * 200_000)
    damaged(folder, "manifest.json", "nested too deep")


def test_manifest_without_a_required_key(folder: Path) -> None:
    edit_manifest(folder, lambda manifest: manifest.pop("kernel"))
    damaged(folder, "manifest.json", "missing required field `kernel`")


def test_oversized_manifest(folder: Path) -> None:
    with open(folder / "manifest.json", "r+b") as file:
        file.truncate(1 << 40)
    damaged(folder, "manifest.json", "1099511627776 bytes; at most 16777216 are allowed")


def test_flipped_byte_that_is_still_valid_json(folder: Path) -> None:
    data = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(data.replace(b"train.py", b"trail.py", 1))
    damaged(folder, "manifest.json", "damaged: SHA-256 is .* manifest.sha256 says")


def test_manifest_digest_file_of_another_form(folder: Path) -> None:
    (folder / "manifest.sha256").write_text("0" * 64)
    damaged(folder, "manifest.sha256", "not '<SHA-256>  manifest.json'")


@pytest.mark.parametrize(
    "name", ["manifest.json", "manifest.sha256", "memory/index", "memory/chunks", "code/kernel.ttir"]
)
def test_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    damaged(folder, name, "the file is missing")


# --- files ------------------------------------------------------------------------------------


def test_flipped_byte_in_a_listed_file(folder: Path) -> None:
    (folder / "code/kernel.ttir").write_bytes(b"module [\n}\n")
    damaged(folder, "code/kernel.ttir", "damaged: SHA-256")


def test_listed_file_that_is_too_long(folder: Path) -> None:
    with open(folder / "README.md", "ab") as file:
        size = file.tell()
        file.write(b"x")
    assert damaged(folder, "README.md", "too long").offset == size


def test_source_that_is_not_utf8(folder: Path) -> None:
    write_stored(folder, ("source", "file"), "source/scale.py", b"x = 1\n\xff")
    with Reproducer.open(folder) as reproducer, pytest.raises(FormatError, match="not UTF-8") as caught:
        reproducer.source_text()
    assert caught.value.offset == 6


@pytest.mark.parametrize("name", ["code/kernel.ttir", "manifest.json", "memory/chunks"])
def test_link_in_place_of_a_file(folder: Path, name: str, tmp_path: Path) -> None:
    shutil.move(folder / name, tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    damaged(folder, name, "not a regular file|a symbolic link")


def test_link_in_place_of_a_folder(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "code", tmp_path / "code")
    (folder / "code").symlink_to(tmp_path / "code")
    damaged(folder, "code", "a symbolic link")


def test_link_that_nothing_lists(folder: Path) -> None:
    (folder / "extra").symlink_to("/etc/passwd")
    damaged(folder, "extra", "a symbolic link")


def test_fifo_does_not_block(folder: Path) -> None:
    (folder / "code/kernel.ttir").unlink()
    os.mkfifo(folder / "code/kernel.ttir")
    damaged(folder, "code/kernel.ttir", "neither a folder nor a regular file")


def test_fifo_in_place_of_the_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    damaged(folder, "manifest.json", "not a regular file")


def test_no_reproducer_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such reproducer"):
        Reproducer.open(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a reproducer folder"):
        Reproducer.open(tmp_path / "file")


def test_hostile_names_stay_on_one_line(folder: Path) -> None:
    edit_manifest(folder, put("code", 0, "file", "path")("/\x1b[2J\nResult: PASS"))
    error = damaged(folder, "manifest.json", "is absolute")
    assert "\x1b" not in str(error) and "\n" not in str(error)


# --- memory/index -----------------------------------------------------------------------------

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


def test_index_of_an_unknown_version(folder: Path) -> None:
    edit_index(folder, lambda index: index.update(version=2))
    damaged(folder, "memory/index", "memory index version 2 is not known")


def test_index_of_another_chunk_size(folder: Path) -> None:
    edit_index(folder, lambda index: index.update(chunk_bytes=4096))
    damaged(folder, "memory/index", "chunk size 4096; the manifest says 262144")


def test_index_that_is_no_messagepack(folder: Path) -> None:
    write_stored(folder, ("memory", "index"), "memory/index", b"\x85\xa7version\xc1")
    assert damaged(folder, "memory/index", "not a memory index").offset == 9


def test_index_that_is_cut_short(folder: Path) -> None:
    data = (folder / "memory/index").read_bytes()[:100]
    write_stored(folder, ("memory", "index"), "memory/index", data)
    assert damaged(folder, "memory/index", "not a memory index: Input data was truncated").offset == 100


def test_index_that_claims_a_huge_column(folder: Path) -> None:
    data = b"\x85\xa7version\x01\xabchunk_bytes\xce\x00\x04\x00\x00\xa5table\xc6\xff\xff\xff\xff"
    write_stored(folder, ("memory", "index"), "memory/index", data)
    damaged(folder, "memory/index", "not a memory index")


def test_flipped_byte_in_the_index(folder: Path) -> None:
    data = bytearray((folder / "memory/index").read_bytes())
    data[50] ^= 1
    (folder / "memory/index").write_bytes(data)
    damaged(folder, "memory/index", "damaged: SHA-256")


# --- memory/chunks ----------------------------------------------------------------------------


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


def test_truncated_chunks(folder: Path) -> None:
    with open(folder / "memory/chunks", "r+b") as file:
        file.truncate(5000)
    assert damaged(folder, "memory/chunks", "truncated: 5000 bytes, the manifest says").offset == 5000


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


# --- checks.json and the write set ---------------------------------------------------------------


def test_flipped_byte_in_checks(folder: Path) -> None:
    data = (folder / "checks.json").read_bytes()
    (folder / "checks.json").write_bytes(data.replace(b"bit for bit", b"bit for bat"))
    damaged(folder, "checks.json", "damaged: its content has SHA-256")


def test_checks_with_an_unknown_result(folder: Path) -> None:
    data = (folder / "checks.json").read_bytes()
    (folder / "checks.json").write_bytes(data.replace(b'"pass"', b'"best"'))
    error = damaged(folder, "checks.json", r"Invalid enum value 'best' \(self_check.result\)")
    assert data[error.offset :].startswith(b'"pass"')


def test_oversized_checks(folder: Path) -> None:
    with open(folder / "checks.json", "r+b") as file:
        file.truncate(1 << 33)
    damaged(folder, "checks.json", "at most 1048576 are allowed")


def test_checks_of_another_manifest_are_ignored_with_a_note(folder: Path) -> None:
    edit_manifest(folder, put("created")("2027-01-01T00:00:00Z"))
    with Reproducer.open(folder) as reproducer:
        assert reproducer.checks() is None
        assert WriteSet.load(reproducer) is None
        assert reproducer.notes == ["checks.json belongs to another manifest and is ignored"]


def rewrite_set(folder: Path, edit: Callable[[Any], None]) -> str:
    """Change the write set's map and tie it in again; gives its file name."""
    with Reproducer.open(folder) as reproducer:
        checks = reproducer.checks()
        assert checks is not None and checks.write_set is not None
        old = folder / checks.write_set.path
        content = msgspec.msgpack.decode(old.read_bytes())
        edit(content)
        data = msgspec.msgpack.encode(content)
        old.write_bytes(data)
        import hashlib

        stored = msgspec.structs.replace(
            checks.write_set, size=len(data), sha256=hashlib.sha256(data).hexdigest()
        )
        reproducer.write_checks(msgspec.structs.replace(checks, write_set=stored))
        return old.name


def set_region(field: int, value: Any) -> Callable[[Any], None]:
    def edit(content: Any) -> None:
        content["regions"][0][field] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c.update(version=3), "write set version 3 is not known"),
        (lambda c: c.update(manifest_sha256="0" * 64), "belongs to another manifest"),
        (lambda c: c["regions"].append(c["regions"][0]), "region 2 is not in the manifest, or there twice"),
        (set_region(0, 4), "region 4 is not in the manifest"),
        (set_region(1, 2**40), "region 2 has 4096 bytes, not 1099511627776"),
        (set_region(3, []), "0 pieces do not fit 4096 bytes"),
        (set_region(4, [b"", b""]), "2 pieces do not fit 4096 bytes"),
        (set_region(3, [b"none"]), "damaged mask: not a zstd frame"),
        (set_region(2, [b""]), "damaged mask: a byte is also input but not written"),
        (lambda c: c["regions"][0].__setitem__(4, c["regions"][0][2]), "a byte is untouched and written"),
        (lambda c: c.pop("regions"), "not a write set"),
    ],
)
def test_a_rule_of_the_write_set(folder: Path, edit: Callable[[Any], None], message: str) -> None:
    damaged(folder, rewrite_set(folder, edit), message)


def test_write_set_under_another_name(folder: Path) -> None:
    with Reproducer.open(folder) as reproducer:
        checks = reproducer.checks()
        assert checks is not None and checks.write_set is not None
        stored = msgspec.structs.replace(checks.write_set, path="../write_set.bin")
        reproducer.write_checks(msgspec.structs.replace(checks, write_set=stored))
    damaged(folder, "checks.json", "expected write_set-<16 hex>.bin")


def test_flipped_byte_in_the_write_set(folder: Path) -> None:
    (path,) = folder.glob("write_set-*.bin")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    damaged(folder, path.name, "damaged: SHA-256")


def test_checks_cannot_be_written_for_another_manifest(folder: Path) -> None:
    with Reproducer.open(folder) as reproducer, pytest.raises(ValueError, match="another manifest"):
        reproducer.write_checks(Checks(manifest_sha256="0" * 64, self_check=SelfCheck(result="pass")))


# --- every byte -------------------------------------------------------------------------------


def test_a_flip_anywhere_is_noticed(folder: Path) -> None:
    """Some bits of every file; what is left over is text that names the same thing (there is none)."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        for at in range(0, len(data), max(1, len(data) // 23)):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x04]) + data[at + 1 :])
            with pytest.raises(FormatError) as caught:
                with Reproducer.open(folder) as reproducer:
                    reproducer.verify()
                    reproducer.checks()
                    WriteSet.load(reproducer)
            assert re.match(re.escape(str(folder)) + r"/\S+: byte \d+: ", str(caught.value))
        path.write_bytes(data)
    assert canonical_json({"b": 1, "a": "é"}) == '{\n "a": "é",\n "b": 1\n}\n'.encode()


# --- native launches, since version 1.1 -----------------------------------------------------------------

PARAMETERS = ("launch", "parameters")


@pytest.mark.parametrize(
    ("edit", "after", "message"),
    [
        (put(*PARAMETERS, "layout", 4, 1)(17), None, "parameter 4 at bytes 32 to 49; 32 to 48 are left"),
        (put(*PARAMETERS, "layout", 1, 0)(4), None, "parameter 1 at bytes 4 to 12; 8 to 48 are left"),
        (put(*PARAMETERS, "layout", 0, 1)(2**48), None, "parameter 0 at bytes 0 to"),
        (put(*PARAMETERS, "layout", 0, 1)(2**49), "281474976710656", "<= 281474976710656"),
        (put(*PARAMETERS, "layout", 0)([0]), None, "of length 2"),
        (put(*PARAMETERS, "bytes")("0g"), '"0g"', "matching regex"),
        (put(*PARAMETERS, "bytes")("abc"), '"abc"', "matching regex"),
        (put(*PARAMETERS, "bytes")("00" * 65_537), None, "length <= 131072"),
        (put("launch", "block")(None), None, "a native launch without block"),
        (put("launch", "parameters")(None), None, "a native launch without parameters"),
        (put("launch", "block")([1, -1, 1]), "-1", ">= 0"),
        (put("launch", "attributes", 0, "value")("00"), '"00"', "matching regex"),
        (put("launch", "attributes")([{"id": 1, "value": "0" * 128}] * 65), None, "length <= 64"),
        (put("kernel", "mangled")("_Z" + "x" * 2**18), None, "length <= 262144"),
        (put("kernel", "name")("x" * 4097), None, "length <= 4096"),
        (put("source", "build", "unit")("source/other.cu"), '"source/other.cu"', "not a file of the source"),
        (put("source", "build", "unit")("../scale.cu"), '"../scale.cu"', "not a file of the source"),
        (
            put("source", "build", "headers", "/app/gain.h")("README.md"),
            '"README.md"',
            "not a file of the source",
        ),
        (put("source", "build", "include_dirs", 0, "stored")("../.."), '"../.."', "leads out"),
        (put("source", "language")("perl"), '"perl"', "Invalid enum value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_native_rules(native_folder: Path, edit: Any, after: str | None, message: str) -> None:
    edit_manifest(native_folder, edit)
    error = damaged(native_folder, "manifest.json", re.escape(message))
    if after is not None and after.startswith('"'):
        text = (native_folder / "manifest.json").read_bytes()
        assert text[error.offset :].startswith(after.encode())


# --- launches on an AMD GPU, since version 1.3 ------------------------------------------------------------

DISPATCH = ("launch", "dispatch")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put(*DISPATCH, "work_items")([1025, 2, 1]), "1025 work-items in workgroups of 256 are not the 4"),
        (put(*DISPATCH, "work_items")([768, 2, 1]), "768 work-items in workgroups of 256 are not the 4"),
        (put("launch", "grid")([4, 3, 1]), "2 work-items in workgroups of 1 are not the 3"),
        (put(*DISPATCH, "work_items")([0, 2, 1]), ">= 1"),
        (put(*DISPATCH, "work_items")([2**32, 2, 1]), "<= 4294967295"),
        (put(*DISPATCH, "work_items")([1000, 2]), "of length 3"),
        (put(*DISPATCH, "group_bytes")(2**32), "<= 4294967295"),
        (put(*DISPATCH, "private_bytes")(-1), ">= 0"),
        (put(*DISPATCH, "dimensions")(4), "<= 3"),
        (put("launch", "block")([0, 1, 1]), "without the size of its workgroups"),
        (put("kernel", "language")("opencl"), "Invalid enum value"),
        (put("source", "build", "tool")("clang"), "Invalid enum value"),
    ],
)
def test_rules_of_a_dispatch(tmp_path: Path, edit: Any, message: str) -> None:
    folder = tmp_path / "hip"
    shutil.copytree(GOLDEN_HIP, folder)
    edit_manifest(folder, edit)
    damaged(folder, "manifest.json", re.escape(message))


def test_an_older_reader_ignores_the_dispatch(tmp_path: Path) -> None:
    """A key that is not known is no error: so does this reader with what comes after it."""
    folder = tmp_path / "hip"
    shutil.copytree(GOLDEN_HIP, folder)
    edit_manifest(folder, put("launch", "queue")({"priority": 3}))
    with Reproducer.open(folder) as reproducer:
        assert reproducer.manifest.launch.dispatch is not None


def test_a_native_reproducer_of_1_0_has_no_native_part(folder: Path) -> None:
    with Reproducer.open(folder) as reproducer:
        launch = reproducer.manifest.launch
        assert (launch.block, launch.parameters, launch.attributes, launch.cooperative) == (
            None,
            None,
            (),
            False,
        )


# --- a tensor's own storage in its region, since version 1.2 ----------------------------------------------


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ([512, 3585], "storage of bytes 512 to 4097 of region 0, which has 4096"),
        ([512, 2**49], "<= 281474976710656"),
        ([-1, 4], ">= 0"),
        ([516, 1000], "view reaches bytes 512 to 1512, its storage has only 516 to 1516"),
        ([512, 999], "view reaches bytes 512 to 1512, its storage has only 512 to 1511"),
        ([512], "of length 2"),
        ("512", "Expected `array | null`"),
    ],
)
def test_a_storage_lies_in_its_region_and_holds_its_view(
    block_folder: Path, storage: Any, message: str
) -> None:
    edit_manifest(block_folder, put("views", 0, "storage")(storage))
    damaged(block_folder, "manifest.json", re.escape(message))


def test_a_storage_may_be_left_out(block_folder: Path) -> None:
    edit_manifest(block_folder, lambda manifest: manifest["views"][0].pop("storage"))
    with Reproducer.open(block_folder) as reproducer:
        assert reproducer.manifest.views[0].storage is None
