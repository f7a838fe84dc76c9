"""The directory at an archive's end, read strictly: one end record, one place, and all that it says is so.

Programs look for these records in different ways. Only an archive that leaves them no choice is read: what is
measured here is then what `zipfile` reads.
Source: APPNOTE.TXT 6.3.10, sections 4.3.12 to 4.3.16.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

from kerncap.format.allowed_names import MAX_FOLDER_ENTRIES
from kerncap.format.stored_files import format_error

MAX_DIRECTORY_BYTES = 8 << 20
_MAX_COMMENT = 0xFFFF
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s4B4HL2L5H2L")
_ALL = {2: 0xFFFF, 4: 0xFFFFFFFF}  # "see the 64-bit record"


def check_directory(archive: Path, file: BinaryIO) -> None:
    """Raise FormatError for a directory that is too large, not where it says, or not what it says."""
    size = os.fstat(file.fileno()).st_size
    at, count, length, offset = _ends(archive, file, size)
    if count > MAX_FOLDER_ENTRIES:
        raise format_error(archive, at, f"{count} entries; a reproducer has at most {MAX_FOLDER_ENTRIES}")
    if length > min(size, MAX_DIRECTORY_BYTES):
        raise format_error(archive, at, f"a directory of {length} bytes in a file of {size}")
    if offset + length != at:
        raise format_error(
            archive, at, f"its directory ends at byte {offset + length}, not at the end record"
        )
    file.seek(offset)
    _walk(archive, file.read(length), count, offset)
    file.seek(0)


def _ends(archive: Path, file: BinaryIO, size: int) -> tuple[int, int, int, int]:
    """Where the end records begin; entries, bytes and place of the directory."""
    tail = min(size, _END.size + _MAX_COMMENT)
    file.seek(size - tail)
    data = file.read(tail)
    found = data.rfind(b"PK\5\6")
    if found < 0 or len(data) - found < _END.size:
        raise format_error(archive, 0, "not a zip file: it has no directory; give a file from `kerncap pack`")
    at = size - tail + found
    _, disk, first, here, count, length, offset, comment = _END.unpack_from(data, found)
    if found + _END.size + comment != len(data):
        raise format_error(archive, at, "something follows its end record")
    if disk or first or here != count:
        raise format_error(archive, at, "one part of several archives")
    if at >= _LOCATOR64.size:
        file.seek(at - _LOCATOR64.size)
        locator = file.read(_LOCATOR64.size)
        if locator.startswith(b"PK\6\7"):
            return _ends64(archive, file, at - _LOCATOR64.size, locator, (count, length, offset))
    return at, count, length, offset


def _ends64(
    archive: Path, file: BinaryIO, at: int, locator: bytes, short: tuple[int, int, int]
) -> tuple[int, int, int, int]:
    """The 64-bit record, which must lie right before its locator: some programs look nowhere else."""
    _, disk, place, disks = _LOCATOR64.unpack(locator)
    if place != at - _END64.size or disk or disks > 1:
        raise format_error(archive, at, "its 64-bit end record is elsewhere")
    file.seek(place)
    sign, rest, _, _, disk, first, here, count, length, offset = _END64.unpack(file.read(_END64.size))
    if sign != b"PK\6\6" or rest != _END64.size - 12 or disk or first or here != count:
        raise format_error(archive, place, "its 64-bit end record is damaged")
    for wide, narrow, width in zip((count, length, offset), short, (2, 4, 4), strict=True):
        if narrow not in (wide, _ALL[width]):
            raise format_error(archive, place, "its two end records differ")
    return place, count, length, offset


def _walk(archive: Path, data: bytes, count: int, offset: int) -> None:
    """The records of the directory are as many as it says, and fill it."""
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(data) or data[at : at + 4] != b"PK\1\2":
            raise format_error(archive, offset + at, "its directory has fewer entries than it says")
        name, extra, comment = struct.unpack_from("<3H", data, at + 28)
        at += _ENTRY.size + name + extra + comment
    if at != len(data):
        raise format_error(archive, offset + min(at, len(data)), "its directory has more than it says")
