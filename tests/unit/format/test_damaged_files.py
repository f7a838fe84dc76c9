"""One damage per file: the message says what is wrong, and the offset is the byte where it is."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncap.errors import FormatError, UsageError
from kerncap.format import Reproducer, WriteSet
from kerncap.format.documents import canonical_json
from tests.unit.format.damage import GOLDEN, damaged, edit_index, edit_manifest, write_manifest, write_stored

Damage = Callable[[Path], None]


def manifest(edit: Callable[[bytes], bytes]) -> Damage:
    """The manifest's bytes, with a digest that fits them."""
    return lambda folder: write_manifest(folder, edit((folder / "manifest.json").read_bytes()))


def bytes_of(name: str, edit: Callable[[bytes], bytes]) -> Damage:
    """A file's bytes, with the digests of before. ``name`` may be a pattern."""

    def damage(folder: Path) -> None:
        (path,) = folder.glob(name)
        path.write_bytes(edit(path.read_bytes()))

    return damage


def as_long_as(name: str, size: int) -> Damage:
    return lambda folder: os.truncate(folder / name, size)


def fifo(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return damage


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at:][1:]


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new, 1)


def index(data: bytes) -> Damage:
    return lambda folder: write_stored(folder, ("memory", "index"), "memory/index", data)


def index_map(**values: int) -> Damage:
    return lambda folder: edit_index(folder, lambda index: index.update(values))


HUGE_COLUMN = b"\x85\xa7version\x01\xabchunk_bytes\xce\x00\x04\x00\x00\xa5table\xc6\xff\xff\xff\xff"
CUT_SHORT = (GOLDEN / "memory/index").read_bytes()[:100]
DAMAGES: list[tuple[str, str, Damage, int | bytes | None]] = [
    ("manifest.json", "not valid JSON", manifest(replaced(b'"grid"', b'?grid"')), b'?grid"'),
    ("manifest.json", "truncated", manifest(lambda data: data[:1000]), 1000),
    ("manifest.json", "truncated", manifest(lambda data: b""), 0),
    ("manifest.json", "not UTF-8", manifest(replaced(b"train.py", b"\xffrain.py")), b"\xffrain.py"),
    ("manifest.json", "nested too deep", manifest(lambda data: b'{"x":' * 200_000), None),
    (
        "manifest.json", "missing required field `kernel`",
        lambda folder: edit_manifest(folder, lambda document: document.pop("kernel")), None,
    ),
    (
        "manifest.json", "1099511627776 bytes; at most 16777216 are allowed",
        as_long_as("manifest.json", 1 << 40), None,
    ),
    (
        "manifest.json", "damaged: SHA-256 is .* manifest.sha256 says",
        bytes_of("manifest.json", replaced(b"train.py", b"trail.py")), None,
    ),
    (
        "manifest.sha256", "not '<SHA-256>  manifest.json'",
        bytes_of("manifest.sha256", lambda data: b"0" * 64), None,
    ),
    ("code/kernel.ttir", "damaged: SHA-256", bytes_of("code/kernel.ttir", replaced(b"{", b"[")), None),
    ("extra", "a symbolic link", lambda folder: (folder / "extra").symlink_to("/etc/passwd"), None),
    ("code/kernel.ttir", "neither a folder nor a regular file", fifo("code/kernel.ttir"), None),
    ("manifest.json", "not a regular file", fifo("manifest.json"), None),
    ("memory/index", "memory index version 2 is not known", index_map(version=2), None),
    ("memory/index", "chunk size 4096; the manifest says 262144", index_map(chunk_bytes=4096), None),
    ("memory/index", "not a memory index", index(b"\x85\xa7version\xc1"), 9),
    ("memory/index", "not a memory index: Input data was truncated", index(CUT_SHORT), 100),
    ("memory/index", "not a memory index", index(HUGE_COLUMN), None),
    ("memory/index", "damaged: SHA-256", bytes_of("memory/index", flipped(50)), None),
    (
        "memory/chunks", "truncated: 5000 bytes, the manifest says",
        as_long_as("memory/chunks", 5000), 5000,
    ),
    (
        "checks.json", "damaged: its content has SHA-256",
        bytes_of("checks.json", replaced(b"bit for bit", b"bit for bat")), None,
    ),
    (
        "checks.json", r"Invalid enum value 'best' \(self_check.result\)",
        bytes_of("checks.json", replaced(b'"pass"', b'"best"')), b'"best"',
    ),
    ("checks.json", "at most 1048576 are allowed", as_long_as("checks.json", 1 << 33), None),
    ("write_set-*.bin", "damaged: SHA-256", bytes_of("write_set-*.bin", flipped(-1)), None),
]  # fmt: skip


@pytest.mark.parametrize(("file", "message", "damage", "at"), DAMAGES)
def test_a_damage(folder: Path, file: str, message: str, damage: Damage, at: int | bytes | None) -> None:
    damage(folder)
    (path,) = folder.glob(file)
    error = damaged(folder, str(path.relative_to(folder)), message)
    if isinstance(at, bytes):
        assert path.read_bytes()[error.offset :].startswith(at)
    elif at is not None:
        assert error.offset == at


@pytest.mark.parametrize(
    "name", ["manifest.json", "manifest.sha256", "memory/index", "memory/chunks", "code/kernel.ttir"]
)
def test_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    damaged(folder, name, "the file is missing")


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


def test_no_reproducer_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such reproducer"):
        Reproducer.open(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a reproducer folder"):
        Reproducer.open(tmp_path / "file")


def test_a_flip_anywhere_is_noticed(folder: Path) -> None:
    """Bits of every file, one at a time; no file has any that may change unnoticed."""
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
