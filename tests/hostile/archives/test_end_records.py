"""The records at an archive's end: what leaves a reader a choice is refused before anything is made of it."""

from __future__ import annotations

import resource
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncap.errors import FormatError
from kerncap.format import Reproducer
from kerncap.format.archive import is_packed, unpack, write_archive
from tests.unit.format.damage import GOLDEN

END, END64, LOCATOR = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
Parts = tuple[bytes, bytes]  # the files, the directory


def end(directory: bytes, offset: int, count: int, comment: bytes = b"", disk: int = 0) -> bytes:
    wide = (min(count, 0xFFFF), min(len(directory), 0xFFFFFFFF), min(offset, 0xFFFFFFFF))
    return END.pack(b"PK\5\6", disk, disk, wide[0], *wide, len(comment)) + comment


def end64(place: int, length: int, offset: int, count: int, rest: int = 44) -> bytes:
    record = END64.pack(b"PK\6\6", rest, 45, 45, 0, 0, count, count, length, offset)
    return record + LOCATOR.pack(b"PK\6\7", 0, place, 1)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    target = tmp_path_factory.mktemp("packed") / "a.zip"
    with Reproducer.open(GOLDEN) as reproducer:
        write_archive(reproducer, target)
    data = target.read_bytes()
    _, _, _, _, _, length, offset, _ = END.unpack(data[-END.size :])
    return data[:offset], data[offset : offset + length]


def count_of(directory: bytes) -> int:
    return directory.count(b"PK\1\2")


def plain(parts: Parts) -> bytes:
    files, directory = parts
    return files + directory + end(directory, len(files), count_of(directory))


def with_64(parts: Parts, **lies: int) -> bytes:
    files, directory = parts
    facts = {
        "place": len(files) + len(directory), "length": len(directory), "offset": len(files),
        "count": count_of(directory), **lies,
    }  # fmt: skip
    return files + directory + end64(**facts) + end(directory, len(files), count_of(directory))


def decoy(parts: Parts) -> bytes:
    """The locator points at a small directory, and before it stands the record of 1,000,000 entries."""
    files, directory = parts
    crowd = (b"PK\1\2" + bytes(42)) * 1_000_000
    small = END64.pack(b"PK\6\6", 44, 45, 45, 0, 0, 7, 7, len(directory), len(files))
    at = len(files) + len(directory) + len(small)
    large = END64.pack(b"PK\6\6", 44, 45, 45, 0, 0, 1_000_000, 1_000_000, len(crowd), at)
    locator = LOCATOR.pack(b"PK\6\7", 0, len(files) + len(directory), 1)
    return files + directory + small + crowd + large + locator + end(directory, len(files), 7)


def crowd(parts: Parts, said: int, found: int) -> bytes:
    files, _ = parts
    directory = (b"PK\1\2" + bytes(42)) * found
    return files + directory + end(directory, len(files), said)


def two_ends(parts: Parts) -> bytes:
    files, directory = parts
    last = end(b"", len(files), 0)
    return files + directory + end(directory, len(files), count_of(directory), comment=last)


ATTACKS: dict[str, tuple[Callable[[Parts], bytes], str]] = {
    "a decoy with 1,000,000 behind it": (decoy, "its 64-bit end record is elsewhere|more than|entries"),
    "1,000,000 entries": (lambda p: crowd(p, 65_535, 1_000_000), "directory of|more than it says"),
    "more entries than it says": (lambda p: crowd(p, 3, 60_000), "more than it says"),
    "fewer entries than it says": (lambda p: crowd(p, 60_000, 3), "fewer entries than it says"),
    "70,000 entries of 64 bits": (lambda p: with_64(p, count=70_000), "70000 entries|two end records differ"),
    "2^64 entries": (lambda p: with_64(p, count=2**64 - 1), "entries|two end records differ"),
    "a directory of 2^64 bytes": (lambda p: with_64(p, length=2**64 - 1), "differ|directory of"),
    "a directory at 2^64": (lambda p: with_64(p, offset=2**64 - 1), "differ"),
    "a locator to the start": (lambda p: with_64(p, place=0), "end record is elsewhere"),
    "a locator beyond the end": (lambda p: with_64(p, place=2**63), "end record is elsewhere"),
    "a locator to itself": (lambda p: with_64(p, place=sum(map(len, p)) + 56), "end record is elsewhere"),
    "a longer 64-bit record": (lambda p: with_64(p, rest=45), "64-bit end record is damaged"),
    "another count": (lambda p: with_64(p, count=1), "two end records differ"),
    "another place": (lambda p: with_64(p, offset=1), "two end records differ"),
    "an end record in the comment": (two_ends, "ends at byte|two end records|not here"),
    "bytes after the end": (lambda p: plain(p) + b"x", "something follows"),
    "a shell script before it": (lambda p: b"#!/bin/sh\nexit 0\n" + plain(p), "ends at byte"),
    "several disks": (lambda p: p[0] + p[1] + end(p[1], len(p[0]), 7, disk=1), "several archives"),
    "a hole before the end": (
        lambda p: p[0] + p[1] + bytes(64) + end(p[1], len(p[0]), count_of(p[1])), "ends at byte",
    ),
    "half an end": (lambda p: plain(p)[:-10], "not a zip file|follows"),
    "an end alone": (lambda p: end(b"", 0, 0), "no reproducer"),
    "nothing": (lambda p: b"", "not a zip file"),
    "zeros": (lambda p: bytes(1 << 20), "not a zip file"),
    "ends without end": (lambda p: END.pack(b"PK\5\6", 0, 0, 0, 0, 0, 0, 0xFFFF) * 40_000, "follows"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_refused_in_little_time_and_memory(tmp_path: Path, parts: Parts, name: str) -> None:
    make, message = ATTACKS[name]
    archive = tmp_path / "a.zip"
    archive.write_bytes(make(parts))
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(FormatError, match=message):
        unpack(archive, tmp_path / "out", 1 << 30)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10
    assert time.process_time() - started < 2  # of the CPU: what other processes do is not counted
    assert not list((tmp_path / "out").glob("*"))
    assert not is_packed(archive)


def test_what_says_the_same_twice_is_read(tmp_path: Path, parts: Parts) -> None:
    for name, data in (("plain", plain(parts)), ("64", with_64(parts))):
        archive = tmp_path / f"{name}.zip"
        archive.write_bytes(data)
        with Reproducer.open(unpack(archive, tmp_path / name, 1 << 30)) as reproducer:
            reproducer.verify()
        assert is_packed(archive)
