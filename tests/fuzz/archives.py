"""Archives that a stranger might send: made from a golden reproducer, with one thing or more wrong."""

from __future__ import annotations

import random
import resource
import shutil
import stat
import struct
import tempfile
import time
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from kerncap.errors import FormatError, KerncapError
from kerncap.format import Reproducer
from kerncap.format.archive import unpack, write_archive
from kerncap.format.folder import is_range
from kerncap.format.launch_range import LaunchRange
from tests.fuzz.mutate import GOLDENS, mutate
from tests.unit.format.damage import GOLDEN

NAMES = (
    "../out", "a/../../out", "/tmp/out", "C:\\out", "x\0y", "a\\b", "./manifest.json", "manifest.json",
    "MANIFEST.JSON", "other/manifest.json", "memory", "memory/chunks", "memory/chunks/x", "x" * 300,
    "/".join("d" * 40), "", "/", "\ud83d",
)  # fmt: skip
NUMBERS = (0, 1, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**32, 2**63 - 1, 2**64 - 1)
BOMBS = (bytes(1 << 20), bytes(40 << 20))
MAX_SIZE = 1 << 30
MOST_BYTES = 500 << 20


def one_case(seed: int, parent: Path, longest_s: float) -> str | None:
    """Unpack the archive of a seed; its one-line refusal, or None when a whole reproducer came out.

    Asserts that nothing lies outside of the folder, nothing half done in it, and that the time of the CPU
    (``longest_s``, seconds) and the memory are within bounds.
    """
    choose = random.Random(seed)
    parent.mkdir(exist_ok=True)
    archive, out = parent / "a.zip", parent / "out"
    archive.write_bytes(build(choose))
    beside = sorted(path.name for path in parent.iterdir())
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = None
    try:
        folder = unpack(archive, out, MAX_SIZE)
        kind = LaunchRange if is_range(folder) else Reproducer
        with kind.open(folder) as reproducer:
            assert folder.parent == out and reproducer.manifest_sha256.startswith(folder.name[-8:])
    except KerncapError as error:
        refused = str(error)
        assert len(refused.splitlines()) == 1, refused
        assert isinstance(error, FormatError) or "--max-size" in refused, refused
        assert not out.exists() or not list(out.iterdir())
    spent = time.process_time() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert spent < longest_s and grown < MOST_BYTES, f"{spent:.1f} s, {grown >> 20} MiB"
    left = sorted(path.name for path in parent.iterdir() if path != out)
    assert left == [name for name in beside if name != "out"], left
    return refused


def build(choose: random.Random) -> bytes:
    """The bytes of an archive: damaged in its files, its directory, or byte by byte."""
    files = _files(choose)
    entries = [Entry(f"repro/{name}", data) for name, data in files.items()]
    if choose.random() < 0.1:
        return _bytes_changed(_write(entries, choose), choose)
    for _ in range(choose.randint(0, 3)):
        choose.choice(_CHANGES)(entries, choose)
    data = _write(entries, choose)
    if choose.random() < 0.2:
        data = _end_changed(data, choose)
    return _bytes_changed(data, choose) if choose.random() < 0.2 else data


class Entry:
    """One file as it is written; what is None is what would be right."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data
        self.method = zipfile.ZIP_DEFLATED
        self.mode = stat.S_IFREG | 0o644
        self.flags = 0
        self.lies: dict[str, int] = {}  # crc, packed, size, offset: in directory and local header
        self.local_name: str | None = None


def _files(choose: random.Random) -> dict[str, bytes]:
    """The files of a golden reproducer or range, now and then with a manifest that says something else."""
    golden = choose.choice((*GOLDENS, GOLDEN.with_name("v1.10")))
    if choose.random() >= 0.3:
        return dict(_read(golden))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(golden, Path(scratch) / "repro"))
        mutate(folder, choose)
        return _read.__wrapped__(folder)


@lru_cache
def _read(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# Of the same few files again and again: most of a case's time without this.
@lru_cache(maxsize=1024)
def _deflated(data: bytes) -> bytes:
    return zlib.compress(data, 1)[2:-4]


def _rename(entries: list[Entry], choose: random.Random) -> None:
    one = choose.choice(entries)
    one.name = choose.choice(("", "repro/")) + choose.choice(NAMES)


def _add(entries: list[Entry], choose: random.Random) -> None:
    entries.append(Entry(choose.choice(("", "repro/", "b/")) + choose.choice(NAMES), b"more"))


def _double(entries: list[Entry], choose: random.Random) -> None:
    one = choose.choice(entries)
    entries.insert(choose.randrange(len(entries) + 1), Entry(one.name, choose.choice((one.data, b"other"))))


def _drop(entries: list[Entry], choose: random.Random) -> None:
    if len(entries) > 1:
        entries.remove(choose.choice(entries))


def _link(entries: list[Entry], choose: random.Random) -> None:
    one = choose.choice(entries)
    one.mode = choose.choice((stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK)) | 0o777
    one.data = choose.choice((b"/etc/passwd", b"../../x"))


def _lie(entries: list[Entry], choose: random.Random) -> None:
    choose.choice(entries).lies[choose.choice(("crc", "packed", "size", "offset"))] = choose.choice(
        NUMBERS[:6]
    )


def _method(entries: list[Entry], choose: random.Random) -> None:
    choose.choice(entries).method = choose.choice((0, 8, 9, 12, 14, 93, 99))


def _flags(entries: list[Entry], choose: random.Random) -> None:
    choose.choice(entries).flags = choose.choice((1, 8, 0x20, 0x40, 0x800, 0x2000))


def _other_local_name(entries: list[Entry], choose: random.Random) -> None:
    choose.choice(entries).local_name = choose.choice(NAMES[:5])


def _bomb(entries: list[Entry], choose: random.Random) -> None:
    choose.choice(entries).data = choose.choice(BOMBS)


def _content(entries: list[Entry], choose: random.Random) -> None:
    one = choose.choice(entries)
    one.data = _bytes_changed(one.data, choose)


def _crowd(entries: list[Entry], choose: random.Random) -> None:
    entries += [Entry(f"repro/n{i}", b"") for i in range(choose.choice((100, 3000)))]


def _crowded_end(entries: list[Entry], choose: random.Random) -> None:
    choose.choice(entries).lies["count"] = choose.choice((0, 70_000, 0xFFFF))


_CHANGES: tuple[Any, ...] = (
    _rename, _add, _double, _drop, _link, _lie, _lie, _method, _flags, _other_local_name, _bomb, _content,
    _content, _crowd, _crowded_end,
)  # fmt: skip


def _write(entries: list[Entry], choose: random.Random) -> bytes:
    """The archive's bytes, written by hand: no library writes what is wrong."""
    out, directory = bytearray(), bytearray()
    count = len(entries)
    for one in entries:
        name = one.name.encode("utf-8", "surrogatepass")[:65535]
        local = name if one.local_name is None else one.local_name.encode()
        packed = _deflated(one.data) if one.method == zipfile.ZIP_DEFLATED else one.data
        offset = one.lies.get("offset", len(out))
        facts = (
            one.lies.get("crc", zlib.crc32(one.data)), one.lies.get("packed", len(packed)),
            one.lies.get("size", len(one.data)),
        )  # fmt: skip
        head = (20, one.flags, one.method, 0, 33)
        out += struct.pack("<4s5H3L2H", b"PK\3\4", *head, *facts, len(local), 0) + local + packed
        directory += struct.pack(
            "<4sBB5H3L5H2L", b"PK\1\2", 20, 3, *head, *facts, len(name), 0, 0, 0, 0,
            (one.mode << 16) & 0xFFFFFFFF, offset & 0xFFFFFFFF,
        )  # fmt: skip
        directory += name
        count = one.lies.get("count", count)
    end = struct.pack(
        "<4s4H2LH", b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, len(directory), len(out), 0
    )
    return bytes(out + directory + end)


def _end_changed(data: bytes, choose: random.Random) -> bytes:
    """Other numbers in the record at the end, or a 64-bit one before it."""
    end = bytearray(data[-22:])
    if choose.random() < 0.5:
        struct.pack_into("<L", end, choose.choice((12, 16)), choose.choice(NUMBERS[:6]))
        return data[:-22] + bytes(end)
    numbers = [choose.choice(NUMBERS) for _ in range(4)]
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, *numbers)
    where = choose.choice((len(data) - 22, *NUMBERS))
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, where, 1)
    return data[:-22] + record + locator + bytes(end)


def _bytes_changed(data: bytes, choose: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(choose.randint(1, 4)):
        if not changed:
            break
        at = choose.randrange(len(changed))
        how = choose.choice(("flip", "cut", "double", "end"))
        if how == "flip":
            changed[at] = choose.randrange(256)
        elif how == "cut":
            del changed[at : at + choose.choice((1, 16, len(changed)))]
        elif how == "double":
            changed[at:at] = changed[at : at + 256]
        else:
            changed += bytes(choose.randrange(64))
    return bytes(changed)


def packed(folder: Path, target: Path) -> Path:
    """An honest archive of a reproducer."""
    with Reproducer.open(folder) as reproducer:
        write_archive(reproducer, target)
    return target
