"""Line tables: which file and lines a kernel comes from."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture.source.native import build_producer, line_table
from kerncap.format.elf import Elf, ElfProblem
from tests.unit.source.native.conftest import elf, image

TWO = image(
    ["_Z1av", "_Z1bv"],
    ["/src", "/src/x", "/src/y"],
    [("main.cu", 1), ("impl.h", 2), ("impl.h", 3), ("/abs/other.cuh", 0)],
    [[(2, 7), (2, 9), (1, 300)], [(3, 7), (4, 2), (3, 7)]],
)


def test_two_headers_of_one_name_keep_their_folders() -> None:
    first, second = line_table.from_code(TWO, "_Z1av"), line_table.from_code(TWO, "_Z1bv")
    assert first is not None and second is not None
    assert first.rows == (("/src/x/impl.h", 7), ("/src/x/impl.h", 9), ("/src/main.cu", 300))
    assert second.rows == (("/src/y/impl.h", 7), ("/abs/other.cuh", 2))
    assert first.files == ("/src/main.cu", "/src/x/impl.h", "/src/y/impl.h", "/abs/other.cuh")


def test_a_kernel_without_lines_has_no_table() -> None:
    assert line_table.from_code(TWO, "_Z1cv") is None
    assert line_table.from_code(image([], [], [], []), "_Z1av") is None


@pytest.mark.parametrize("version", [2, 3, 4])
def test_versions_of_the_table(version: int) -> None:
    table = line_table.from_code(image(["k"], ["/s"], [("k.cu", 1)], [[(1, 5)]], version), "k")
    assert table is not None and table.rows == (("/s/k.cu", 5),)


def test_a_version_that_is_not_known_is_said() -> None:
    with pytest.raises(ElfProblem, match="version 6"):
        line_table.from_code(image(["k"], ["/s"], [("k.cu", 1)], [[(1, 5)]], 6), "k")


@given(st.data())
def test_damaged_images_only_raise_elf_problem(data: st.DataObject) -> None:
    damaged = bytearray(TWO)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for content in (bytes(damaged), bytes(damaged[:cut])):
        try:
            line_table.from_code(content, "_Z1av")
        except ElfProblem:
            pass
        build_producer.of_cubin(content)


def test_a_path_that_is_no_utf_8_spoils_no_other() -> None:
    data = image(["k"], ["/s/XXXX"], [("a.cu", 1), ("b.cu", 1)], [[(2, 7)]])
    table = line_table.from_code(data.replace(b"XXXX", b"\xfc\xfc\xfc\xfc"), "k")
    assert table is not None
    assert table.rows == (("/s/\ufffd\ufffd\ufffd\ufffd/b.cu", 7),)


def test_names_that_share_their_bytes_are_bounded() -> None:
    strings = b"\0" + b"n" * 60_000 + b"\0"
    symbols = b"".join(struct.pack("<IBBHQQ", 1, 0x12, 0x10, 1, 0, 128) for _ in range(1000))
    damaged = Elf(elf([(".strtab", 3, strings, 0, 0), (".symtab", 2, symbols, 1, 24)]))
    with pytest.raises(ElfProblem, match="many times the file's size"):
        list(damaged.symbols())


def test_what_is_no_elf_file_is_refused() -> None:
    for content in (b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(100), b"//.version 8.0\n" + bytes(100)):
        with pytest.raises(ElfProblem):
            Elf(content)


PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry first(.param .u64 p)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    .loc 1 11 3
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    .loc 2 4 5
    ld.global.u32 %r1, [%rd2];
    add.s32 %r1, %r1, 1;
    .loc 1 12 3
    st.global.u32 [%rd2], %r1;
    .loc 1 13 1
    ret;
}
.visible .entry second(.param .u64 p)
{
    .loc 2 40 1
    ret;
}
.file 1 "/p/main.cu"
.file 2 "/p/inc/step.h", 1700000000, 321
"""


def test_the_lines_of_ptx() -> None:
    table = line_table.from_ptx(PTX, "first")
    assert table is not None
    assert table.rows == (
        ("/p/main.cu", 11), ("/p/inc/step.h", 4), ("/p/main.cu", 12), ("/p/main.cu", 13),
    )  # fmt: skip
    assert table.stamps == {"/p/inc/step.h": (1700000000, 321)}
    assert line_table.from_ptx(PTX, "firs") is None


def test_an_assembled_cubin_says_what_its_ptx_says(assemble: Callable[[str], bytes]) -> None:
    data = assemble(PTX)
    first, second = line_table.from_code(data, "first"), line_table.from_code(data, "second")
    assert first is not None and second is not None
    assert set(first.rows) >= {("/p/main.cu", 11), ("/p/inc/step.h", 4), ("/p/main.cu", 13)}
    assert second.rows == (("/p/inc/step.h", 40),)
    assert first.stamps == {"/p/inc/step.h": (1700000000, 321)}
    info = build_producer.of_cubin(data)
    if info is not None:  # older assemblers write no note
        assert info.arch == "sm_80" and "-lineinfo" in info.compiler_words()


KERNEL = "template <class T> __global__ void twice(T *x) {\n  x[0] *= T(2);\n}\n"


@pytest.mark.parametrize("option", ["-lineinfo", "-G"])
def test_what_nvcc_writes(option: str, tmp_path: Path, cubin_of: Callable[..., bytes]) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "impl.h").write_text(f"namespace {name} {{\n{KERNEL}}}\n")
    main = tmp_path / "main.cu"
    main.write_text(
        '#include "x/impl.h"\n#include "y/impl.h"\n'
        "void run(float *p) { x::twice<<<1, 1>>>(p); y::twice<<<1, 1>>>(p); }\n"
    )
    data = cubin_of(main, option, "-maxrregcount=64")
    for name in ("x", "y"):
        table = line_table.from_code(data, f"_ZN1{name}5twiceIfEEvPT_")
        assert table is not None
        assert {path for path, _ in table.rows} == {str(tmp_path / name / "impl.h")}
        assert {line for _, line in table.rows} >= {2, 4}
        header = tmp_path / name / "impl.h"
        assert table.stamps[str(header)][1] == header.stat().st_size
        places = line_table.places(data, f"_ZN1{name}5twiceIfEEvPT_")
        assert places[0].offset == 0 and all(place.size > 0 for place in places)
        ends = [place.offset + place.size for place in places]
        assert ends[:-1] == [place.offset for place in places[1:]] and ends[-1] % 128 == 0  # code is padded
        assert {(place.file, place.line) for place in places} == set(table.rows)
    info = build_producer.of_cubin(data)
    assert info is not None and info.tool == "ptxas" and info.arch == "sm_90"
    assert info.compiler_words() == [option, "-maxrregcount=64"]
