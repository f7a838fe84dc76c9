"""Core dumps with only the memory that from-core reads: `python cut_down.py GPUCORE HOST PROGRAM OUT`.

ROCr's file keeps all pages of the GPU that aren't zero. Of the process's those stay that were asked for.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from kerncap.api import from_core
from kerncap.capture.core_dump.amd.core_file import CoreFile, Memory
from kerncap.capture.core_dump.amd.dump import open_dump
from kerncap.format.elf import Note

PAGE = 4096
KEPT = (("CORE", 3), ("AMDGPU", 33))
HEADER, SEGMENT = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")


def written(note: Note) -> bytes:
    owner = note.owner.encode() + b"\0"
    head = struct.pack("<III", len(owner), len(note.content), note.type)
    return head + owner + bytes(-len(owner) % 4) + note.content + bytes(-len(note.content) % 4)


def pages_asked_for(gpu: Path, host: Path, program: Path) -> tuple[set[int], int]:
    """Numbers of pages of memory; by how much ROCr's file is moved."""
    asked: set[int] = set()
    plain = Memory.read

    def read(self: Memory, address: int, size: int) -> bytes | None:
        asked.update(range(address // PAGE, (address + size + PAGE - 1) // PAGE))
        return plain(self, address, size)

    Memory.read = read  # type: ignore[method-assign]
    from_core(gpu, program, host_core=host)
    with open_dump(gpu, [host], True) as (dump, _):
        return asked, dump.memory.files[0].moved


def rewrite(path: Path, out: Path, keep: set[int] | None, moved: int) -> None:
    data = path.read_bytes()
    with path.open("rb") as file:
        core = CoreFile(path, file)
        # The process's others name files, and threads.
        notes = [note for _, note in core._every_note() if (note.owner, note.type) in KEPT]
    merged: list[tuple[int, bytearray]] = []
    for segment in core.segments:
        for at in range(0, segment.stored, PAGE):
            start = segment.at - moved + at
            piece, address = data[start : start + min(PAGE, segment.stored - at)], segment.address + at
            if not (any(piece) if keep is None else address // PAGE in keep):
                continue
            if merged and merged[-1][0] + len(merged[-1][1]) == address:
                merged[-1][1].extend(piece)
            else:
                merged.append((address, bytearray(piece)))
    parts = [(4, 0, b"".join(map(written, notes)))]
    parts += [(1, address, bytes(piece)) for address, piece in merged]
    header = list(HEADER.unpack_from(data))
    header[5], header[6], header[10], header[12], header[13] = HEADER.size, 0, len(parts), 0, 0
    place = HEADER.size + len(parts) * SEGMENT.size
    table, rest = b"", b""
    for kind, address, piece in parts:
        at = place + len(rest) + (moved if kind == 1 else 0)
        table += SEGMENT.pack(kind, 6 if kind == 1 else 0, at, address, 0, len(piece), len(piece), 4)
        rest += piece
    out.write_bytes(HEADER.pack(*header) + table + rest + bytes(moved))


if __name__ == "__main__":
    gpu, host, program, folder = map(Path, sys.argv[1:])
    pages, moved = pages_asked_for(gpu, host, program)
    rewrite(gpu, folder / gpu.name, None, moved)
    rewrite(host, folder / gpu.name.replace("gpucore", "core").removesuffix(".gpu"), pages, 0)
