"""Images with line tables: made by hand, assembled by ptxas, compiled by nvcc."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from kerncap.capture.source.native import compile_commands, locate


@pytest.fixture(autouse=True)
def fresh_indexes() -> None:
    """Folders are read once per session; a test changes its own."""
    for cached in (
        locate._folder_index,
        locate._database_index,
        locate._beside_index,
        compile_commands._load,
    ):
        cached.cache_clear()


@pytest.fixture
def nvcc() -> str:
    found = shutil.which("nvcc")
    if found is None:
        pytest.skip("there is no nvcc on PATH")
    return found


@pytest.fixture
def cubin_of(nvcc: str) -> Callable[..., bytes]:
    """Compile a file as an application would."""

    def compiled(source: Path, *options: str) -> bytes:
        made = source.with_suffix(".made.cubin")
        command = [nvcc, "-cubin", "-arch=sm_90", *options, str(source), "-o", str(made)]
        subprocess.run(command, check=True, cwd=source.parent)
        return made.read_bytes()

    return compiled


@pytest.fixture
def assemble(tmp_path: Path) -> Callable[[str], bytes]:
    """PTX to a cubin with line tables, with Triton's ptxas or the toolkit's."""
    program = shutil.which("ptxas")
    spec = find_spec("triton")
    if program is None and spec is not None and spec.origin is not None:
        wheel = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "ptxas"
        program = str(wheel) if wheel.is_file() else None
    if program is None:
        pytest.skip("there is no ptxas, neither of a toolkit nor of Triton's wheel")

    def assembled(text: str) -> bytes:
        source, made = tmp_path / "made.ptx", tmp_path / "assembled.cubin"
        source.write_text(text)
        subprocess.run([program, "-lineinfo", "-arch=sm_80", str(source), "-o", str(made)], check=True)
        return made.read_bytes()

    return assembled


def unsigned(value: int) -> bytes:
    found = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        found.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(found)


def signed(value: int) -> bytes:
    found = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        done = (value == 0 and not byte & 0x40) or (value == -1 and byte & 0x40)
        found.append(byte | (0 if done else 0x80))
        if done:
            return bytes(found)


def line_program(
    folders: Sequence[str],
    files: Sequence[tuple[str, int]],
    sequences: Sequence[Sequence[tuple[int, int]]],
    version: int = 2,
) -> tuple[bytes, list[int]]:
    """A line program, and where in it the address of each sequence stands. Rows are (file, line)."""
    header = bytes([1] + ([1] if version >= 4 else []) + [1, 0xFB, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1])
    header += b"".join(folder.encode() + b"\0" for folder in folders) + b"\0"
    for name, folder in files:
        header += name.encode() + b"\0" + unsigned(folder) + unsigned(0) + unsigned(0)
    header += b"\0"
    body, places = bytearray(), []
    start = 4 + 2 + 4 + len(header)
    for rows in sequences:
        places.append(start + len(body) + 3)
        body += b"\x00\x09\x02" + bytes(8)
        line = 1
        for file, wanted in rows:
            body += b"\x04" + unsigned(file) + b"\x03" + signed(wanted - line) + b"\x01"
            body += b"\x00\x03\x90\x04\x00"  # an inlined call, as ptxas marks it
            body += b"\x09\x10\x00"
            line = wanted
        body += b"\x00\x01\x01"
    content = struct.pack("<H", version) + struct.pack("<I", len(header)) + header + bytes(body)
    return struct.pack("<I", len(content)) + content, places


def elf(sections: Sequence[tuple[str, int, bytes, int, int]]) -> bytes:
    """An ELF64 file of (name, type, content, link, entry size); the first section is number 1."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in sections) + b".shstrtab\0"
    everything = [*sections, (".shstrtab", 3, names, 0, 0)]
    data, headers, at = bytearray(64), [bytes(64)], 1
    for name, kind, content, link, each in everything:
        headers.append(struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, len(data), len(content), link, 0, 1, each))
        data += content
        at += len(name.encode()) + 1
    count = len(headers)
    words = (2, 190, 1, 0, 0, len(data), 0, 64, 0, 0, 64, count, count - 1)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", *words)
    data[:64] = head
    return bytes(data) + b"".join(headers)


def image(
    kernels: Sequence[str],
    folders: Sequence[str],
    files: Sequence[tuple[str, int]],
    sequences: Sequence[Sequence[tuple[int, int]]],
    version: int = 2,
) -> bytes:
    """A cubin-like file with a line program, one sequence for each kernel."""
    program, places = line_program(folders, files, sequences, version)
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in kernels)
    symbols, at = bytes(24), 1
    for name in kernels:
        symbols += struct.pack("<IBBHQQ", at, 0x12, 0x10, 1, 0, 128)
        at += len(name) + 1
    relocations = b"".join(struct.pack("<QQq", place, (n + 1) << 32 | 2, 0) for n, place in enumerate(places))
    return elf([
        (".debug_line", 1, program, 0, 0), (".strtab", 3, strings, 0, 0), (".symtab", 2, symbols, 2, 24),
        (".rela.debug_line", 4, relocations, 3, 24),
    ])  # fmt: skip
