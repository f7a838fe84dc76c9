"""Line tables of linked code objects (DWARF 2 to 5): a compiler's, and damaged ones."""

from __future__ import annotations

import struct
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncap.capture.images import offload_bundle
from kerncap.capture.source.native import build_producer, line_program, line_table
from kerncap.capture.source.native.line_program import Strings
from kerncap.format.code_object import MACHINE
from kerncap.format.elf import Elf, ElfProblem
from kerncap.replay.candidates import tools
from tests.unit.format.damage import GOLDEN_HIP
from tests.unit.source.native.conftest import elf, unsigned

UNIT = """\
#include <hip/hip_runtime.h>
#include "twice.h"
extern "C" __global__ void first(float *x) {
    x[threadIdx.x] = twice(x[threadIdx.x]);
}
extern "C" __global__ void second(int *x) {
    x[threadIdx.x] = 7;
}
"""


@pytest.fixture(
    scope="module",
    params=["-gdwarf-5", *(pytest.param(option, marks=pytest.mark.long) for option in ("-gdwarf-4", "-gz"))],
)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    hipcc = tools.hipcc()
    if isinstance(hipcc, str):
        pytest.skip(hipcc)
    folder = tmp_path_factory.mktemp("lines")
    (folder / "unit.hip").write_text(UNIT)
    (folder / "twice.h").write_text("__device__ inline float twice(float x) {\n    return 2 * x;\n}\n")
    words = [
        "--genco", "--offload-arch=gfx90a", "-O2", "-g", request.param, str(folder / "unit.hip"), "-o",
        "made",
    ]  # fmt: skip
    environment = {"HIP_PLATFORM": "amd", "PATH": "/usr/bin:/bin"}
    subprocess.run([str(hipcc.path), *words], cwd=folder, check=True, env=environment)
    found = offload_bundle.code_object((folder / "made").read_bytes(), "gfx90a")
    assert found is not None
    return folder, found[0]


def test_each_kernel_has_its_own_lines(compiled: tuple[Path, bytes]) -> None:
    folder, code = compiled
    version = int.from_bytes(line_table._content(Elf(code), ".debug_line")[4:6], "little")
    line_program.whole.cache_clear()
    first, second = (line_table.from_code(code, name) for name in ("first", "second"))
    assert line_program.whole.cache_info().misses == 1  # decoded once for both
    assert first is not None and second is not None
    unit, header = (
        str(folder / "unit.hip") if (str(folder / "unit.hip"), 4) in first.rows else "unit.hip",
        str(folder / "twice.h") if (str(folder / "twice.h"), 2) in first.rows else "twice.h",
    )
    # DWARF 4 leaves the folder that the compiler ran in to another section: such names are relative.
    assert (unit == "unit.hip") == (version == 4)
    assert {(unit, 4), (header, 2)} <= set(first.rows)
    assert not {(unit, 7), (unit, 6)} & set(first.rows)
    assert (unit, 7) in second.rows and header not in dict(second.rows)
    assert line_table.from_code(code, "third") is None
    info = build_producer.of_code_object(code)
    assert info is not None and info.tool == "clang" and info.version[0].isdigit()
    places = line_table.places(code, "second")
    assert (unit, 7) in {(place.file, place.line) for place in places} <= set(second.rows)
    assert places == tuple(sorted(places, key=lambda place: place.offset))
    assert line_table.places(code, "third") == ()


def test_without_debug_information_there_is_none() -> None:
    assert (
        line_table.from_code(
            (GOLDEN_HIP / "code" / "kernel.hsaco").read_bytes(), "_ZN2ns5scaleIfEEvPT_PKS1_id4Pair"
        )
        is None
    )


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_damaged_tables_only_raise_elf_problem(compiled: tuple[Path, bytes], data: st.DataObject) -> None:
    _, code = compiled
    section = Elf(code).section(".debug_line")
    assert section is not None
    damaged = bytearray(code)
    for _ in range(data.draw(st.integers(1, 6))):
        place = section.offset + data.draw(st.integers(0, min(section.size, 1024) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        line_table.from_code(bytes(damaged), "first")
    except ElfProblem:
        pass


def head(folders: bytes, files: bytes, version: int = 5) -> memoryview:
    """A line program with no opcodes of its own but one that ends the sequence."""
    tables = folders + files
    after = struct.pack("<BBBbBB", 4, 1, 1, -5, 14, 4) + b"\0\1\1" + tables
    program = b"\0\x09\x02" + struct.pack("<Q", 16) + b"\x01\0\x01\x01"
    body = struct.pack("<HBBI", version, 8, 0, len(after)) + after + program
    return memoryview(struct.pack("<I", len(body)) + body)


def listed(forms: list[tuple[int, int]], *entries: bytes) -> bytes:
    return bytes([len(forms), *(each for form in forms for each in form), len(entries)]) + b"".join(entries)


def test_names_may_lie_in_other_sections_and_with_a_checksum() -> None:
    folders = listed([(1, 0x1F)], struct.pack("<I", 0), struct.pack("<I", 5))
    files = listed([(1, 0x08), (2, 0x0B), (5, 0x1E)], b"a.hip\0\0" + bytes(16), b"b.h\0\1" + bytes(16))
    program = head(folders, files)
    [unit] = line_program.units(program)
    found = line_program.header(program, unit, Strings(b"/src\0include\0"))
    assert found.files == ("/src/a.hip", "/src/include/b.h") and found.first_file == 0
    rows = list(line_program.rows(program, found, found.start, found.end))
    assert rows == [line_program.Row(16, "/src/include/b.h", 1), None]


@pytest.mark.parametrize(
    ("folders", "files", "message"),
    [
        (listed([(1, 0x77)], b""), b"", "form 119"),
        (bytes([0, 0xFF, 0xFF, 0x7F]), b"", "too many files"),
        (bytes([1, 1, 8, 0xFF, 0x01]), b"", "head that can't be read"),
        (listed([(1, 0x09)], b"\xff\xff\xff\x7f"), b"", "head that can't be read"),
    ],
)
def test_hostile_tables_are_named(folders: bytes, files: bytes, message: str) -> None:
    program = head(folders, files)
    [unit] = line_program.units(program)
    with pytest.raises(ElfProblem, match=message):
        line_program.header(program, unit)


def with_debug_line(content: bytes, flags: int = 0) -> bytes:
    """A code object with a function ``k`` and these line programs."""
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, 1 << 32)
    made = bytearray(elf([
        (".debug_line", 1, content, 0, 0), (".strtab", 3, b"\0k\0", 0, 0), (".symtab", 2, symbols, 2, 24),
    ]))  # fmt: skip
    struct.pack_into("<H", made, 18, MACHINE)
    (table,) = struct.unpack_from("<Q", made, 40)
    struct.pack_into("<Q", made, table + 64 + 8, flags)
    return bytes(made)


def program(opcodes: bytes, line_range: int = 14, most_operations: int = 1) -> bytes:
    """A line program of DWARF 4 with one file."""
    head = struct.pack("<BBBbBB", 1, most_operations, 1, -5, line_range, 10) + bytes(
        (0, 1, 1, 1, 1, 0, 0, 0, 1)
    )
    head += b"\0" + b"a.hip\0\0\0\0" + b"\0"
    content = struct.pack("<HI", 4, len(head)) + head + opcodes
    return struct.pack("<I", len(content)) + content


def packed(content: bytes, size: int, method: int = 1) -> bytes:
    return struct.pack("<IIQQ", method, 0, size, 1) + zlib.compress(content)


AT_16 = b"\0\x09\x02" + struct.pack("<Q", 16)
END = b"\0\1\1"
WHOLE = program(AT_16 + b"\x01" + END)


def test_the_program_that_is_damaged_below_is_read_whole() -> None:
    for image in (with_debug_line(WHOLE), with_debug_line(packed(WHOLE, len(WHOLE)), 0x800)):
        assert line_table.places(image, "k") == (line_table.Place(16, (1 << 32) - 16, "a.hip", 1),)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (with_debug_line(program(b"\xf0" * (1 << 20) + END)), "at most 1,048,576 are read"),
        (with_debug_line(program(b"\x02" + b"\xff" * 200_000 + b"\0" + END)), "thousands of bytes"),
        (with_debug_line(program(AT_16 + b"\xf0" + END, line_range=0)), "no range of lines"),
        (with_debug_line(program(AT_16 + b"\xf0" + END, most_operations=0)), "no range of lines"),
        (with_debug_line(program(AT_16[:5])), "can't be read"),
        (with_debug_line(program(b"\0" + b"\xff" * 20 + b"\x7f\x50" + END)), "can't be read"),
        (with_debug_line(WHOLE[:-1]), "longer than its section"),
        (with_debug_line(packed(WHOLE, len(WHOLE) + 1), 0x800), "expected"),
        (with_debug_line(packed(WHOLE, len(WHOLE))[:-20], 0x800), "expected|can't be unpacked"),
        (with_debug_line(packed(WHOLE, len(WHOLE), 2), 0x800), "packed by method 2"),
        (with_debug_line(b"\1", 0x800), "packed by method 0"),
    ],
)
def test_hostile_programs_end_in_one_line_and_little_memory(image: bytes, message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ElfProblem, match=message) as caught:
            line_table.places(image, "k")
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


# Packed when the test runs: each worker collects this file, and packing 200 MiB takes a while.
@pytest.mark.parametrize(
    ("unpacked", "said", "message"),
    [
        (200 << 20, 200 << 20, "packed by method 1"),
        (8 << 20, 0, "packed by method 1"),
        (8 << 20, 100, "longer than its section|ends early|can't be read"),
    ],
)
def test_so_do_programs_that_unpack_to_much(unpacked: int, said: int, message: str) -> None:
    image = with_debug_line(packed(bytes(unpacked), said), 0x800)
    test_hostile_programs_end_in_one_line_and_little_memory(image, message)


def test_paths_that_share_their_bytes_are_bounded() -> None:
    long = b"d" * 60_000
    folders = listed([(1, 0x1F)], struct.pack("<I", 0))
    names = bytes((2, 1, 0x08, 2, 0x0B)) + unsigned(3_000) + b"f\0\0" * 3_000
    old = bytes((1, 1, 1, 0xFB, 14, 4, 0, 1, 1)) + long + b"\0\0" + b"f\0\1\0\0" * 3_000 + b"\0"
    four = struct.pack("<HI", 4, len(old)) + old
    for data in (head(folders, names), memoryview(struct.pack("<I", len(four)) + four)):
        [unit] = line_program.units(data)
        tracemalloc.start()
        with pytest.raises(ElfProblem, match="names of more than 8,388,608 characters"):
            line_program.header(data, unit, Strings(line=long))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 128 << 20
