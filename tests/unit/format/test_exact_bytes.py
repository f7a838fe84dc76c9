"""The bytes that FORMAT.md promises, written out by hand."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

from kerncap.format.schema import CHUNK_BYTES
from tests.golden.contents import noise
from tests.unit.format.small import write


def bin_header(size: int) -> bytes:
    return b"\xc4" + bytes([size]) if size < 256 else b"\xc5" + struct.pack(">H", size)


def test_memory_of_a_small_reproducer(tmp_path: Path) -> None:
    """Region 0: a raw chunk, a zero one, the raw one again, then a short one that the launch clears."""
    loud, short = noise(CHUNK_BYTES, 1), noise(24, 2)
    pre = loud + bytes(CHUNK_BYTES) + loud + short
    post = loud + loud + loud + bytes(24)
    folder = write(tmp_path, [(pre, post)])

    assert (folder / "memory/chunks").read_bytes() == loud + short
    table = b"".join(
        hashlib.sha256(raw).digest() + struct.pack("<QIII", offset, len(raw), len(raw), 0)
        for raw, offset in ((loud, 0), (short, CHUNK_BYTES))
    )
    listed = [(0, 0, 1), (0, 2, 1), (0, 3, 2)]
    changed = [(0, 1, 1), (0, 3, 0)]
    pre_column = b"".join(struct.pack("<III", *entry) for entry in listed)
    post_column = b"".join(struct.pack("<III", *entry) for entry in changed)
    expected = (
        b"\x85"
        + b"\xa7version\x01"
        + b"\xabchunk_bytes\xce\x00\x04\x00\x00"
        + b"\xa5table" + bin_header(len(table)) + table
        + b"\xa3pre" + bin_header(len(pre_column)) + pre_column
        + b"\xa4post" + bin_header(len(post_column)) + post_column
    )  # fmt: skip
    assert (folder / "memory/index").read_bytes() == expected


def test_manifest_is_canonical_and_names_the_folder(tmp_path: Path) -> None:
    folder = write(tmp_path, [(b"\x01" * 16, b"\x01" * 16)])
    data = (folder / "manifest.json").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert folder.name == f"k-{digest[:8]}"
    assert (folder / "manifest.sha256").read_bytes() == f"{digest}  manifest.json\n".encode()
    assert data.startswith(b'{\n "arguments": [],\n "closure": {\n  "consistency": "cooperative",\n')
    assert data.endswith(b' "views": []\n}\n')
    document = json.loads(data)
    assert json.dumps(document, indent=1, sort_keys=True).encode() + b"\n" == data
    assert [file["path"] for file in document["files"]] == ["README.md"]


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    states = [(noise(5000, seed) * 200, noise(5000, seed + 1) * 200) for seed in range(3)]
    first, second = (write(tmp_path / name, states) for name in ("a", "b"))
    assert first.name == second.name
    for path in sorted(p.relative_to(first) for p in first.rglob("*") if p.is_file()):
        assert (first / path).read_bytes() == (second / path).read_bytes()
