"""One edit per rule of the manifest: the message says what is wrong, and the offset is the wrong byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import Reproducer
from tests.unit.format.damage import damaged, edit_manifest, put, write_manifest

Manifest = Any


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


def test_hostile_names_stay_on_one_line(folder: Path) -> None:
    edit_manifest(folder, put("code", 0, "file", "path")("/\x1b[2J\nResult: PASS"))
    error = damaged(folder, "manifest.json", "is absolute")
    assert "\x1b" not in str(error) and "\n" not in str(error)
