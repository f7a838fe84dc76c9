"""What is read out of the driver's images: bytes of a stranger, in every packing that nvcc has."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture import images
from kerncap.capture.images import Cubin, ImageProblem, fatbin, host_file, lz4, ptx
from tests.unit.capture.built_images import PTX_TEXT, cubin, entry
from tests.unit.capture.built_images import fatbin as built_fatbin

KERNEL = "_Z3addPf"
VARIABLES = [
    ("coef", ".nv.constant3"),
    ("counter", ".nv.global"),
    ("_ZN1aL6hiddenE", ".nv.global.init"),
    ("$str", ".nv.global.init"),
    (".hidden", ".nv.global"),
    ("tile", ".nv.shared._Z3addPf"),
]


# --- LZ4 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "contents"),
    [
        (b"\x00", b""),
        (b"\x50hello", b"hello"),
        (b"\x14a\x01\x00\x10b", b"a" * 9 + b"b"),  # a match that repeats itself
        (b"\x32abc\x03\x00\x10d", b"abcabcabc" + b"d"),
        (b"\xf0\x03" + b"x" * 18, b"x" * 18),
        (b"\x1fa\x01\x00\xff\x05\x10z", b"a" * (1 + 4 + 15 + 255 + 5) + b"z"),
    ],
)
def test_lz4_blocks(block: bytes, contents: bytes) -> None:
    assert lz4.decompress(block, len(contents)) == contents
    with pytest.raises(ImageProblem):
        lz4.decompress(block, len(contents) + 1)
    if contents:
        with pytest.raises(ImageProblem):
            lz4.decompress(block, len(contents) - 1)
        with pytest.raises(ImageProblem):
            lz4.decompress(block[:-1], len(contents))


@given(st.binary(max_size=200), st.integers(0, 4096))
def test_any_bytes_as_lz4_are_a_block_or_a_problem(data: bytes, size: int) -> None:
    try:
        assert len(lz4.decompress(data, size)) == size
    except ImageProblem:
        pass


# --- cubins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("abi", [7, 8])
def test_a_cubin_tells_kernels_variables_and_layouts(abi: int) -> None:
    layout = [(0, 8), (8, 4), (12, 1), (16, 4096)]
    found = Cubin(cubin(86, {KERNEL: layout, "plain": []}, VARIABLES, abi))
    assert found.arch == 86
    assert found.kernels() == [KERNEL, "plain"]
    assert found.variables() == ["coef", "counter", "_ZN1aL6hiddenE"]
    assert found.layout(KERNEL) == tuple(layout)
    assert found.layout("plain") == () and found.layout("other") is None


@given(st.data())
def test_a_damaged_cubin_is_read_or_a_problem(data: st.DataObject) -> None:
    whole = bytearray(cubin(variables=VARIABLES))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        found = Cubin(damaged)
        found.kernels(), found.variables(), found.layout(KERNEL)
    except ImageProblem:
        pass


# --- fatbins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["none", "zstd"])
def test_the_cubin_of_this_architecture_is_chosen(packing: str) -> None:
    data = built_fatbin(
        entry(PTX_TEXT, 80, kind=1, packing=packing),
        entry(cubin(80), 80, packing=packing),
        entry(cubin(90), 90, packing=packing),
        entry(b"LTO", 90, kind=8),
    )
    for arch, chosen in (("sm_90", 90), ("sm_80", 80), ("sm_86", 80), ("sm_89", 80)):
        found = images.choose(data, arch)
        assert found.cubin == cubin(chosen) and found.cubin_arch == f"sm_{chosen}"
        assert found.ptx == PTX_TEXT
    assert images.choose(data, "sm_100") == images.Chosen(None, None, PTX_TEXT)
    assert images.choose(data, "sm_75") == images.Chosen(None, None, None)
    assert images.choose(data, None).cubin == cubin(90)


def test_code_for_one_architecture_alone_is_no_code_for_its_successor() -> None:
    data = built_fatbin(entry(cubin(80), 80), entry(cubin(86), 86, flags=0x100011))
    assert images.choose(data, "sm_86").cubin_arch == "sm_86a"
    assert images.choose(data, "sm_89").cubin_arch == "sm_80"


def test_lz4_as_nvcc_writes_it_for_speed() -> None:
    block = b"\x14a\x01\x00\x10b"
    [found] = images.entries(built_fatbin(entry(block, 90, kind=1, packing="lz4", unpacked=10)))
    assert (
        images.payload(built_fatbin(entry(block, 90, kind=1, packing="lz4", unpacked=10)), found)
        == b"a" * 9 + b"b"
    )


def test_the_program_with_the_kernel_comes_first() -> None:
    data = built_fatbin(entry(cubin(90, {"other": []}), 90), entry(cubin(90), 90))
    assert Cubin(images.choose(data, "sm_90", KERNEL).cubin or b"").kernels() == [KERNEL]
    assert Cubin(images.choose(data, "sm_90").cubin or b"").kernels() == ["other"]


def test_containers_one_after_the_other() -> None:
    data = built_fatbin(entry(cubin(80), 80)) + built_fatbin(entry(cubin(90), 90)) + b"\0" * 64
    assert [each.arch for each in images.entries(data)] == [80, 90]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "neither"),
        (b"\x50\xed\x55\xba" + b"\xff" * 12, "a fatbin of"),
        (built_fatbin(entry(cubin(), 90))[:-8], "a fatbin of"),
        (built_fatbin(struct.pack("<HHIQ", 2, 0x101, 64, 1 << 60) + bytes(48)), "an entry at byte 16"),
        (built_fatbin(struct.pack("<HHIQ", 2, 0x101, 0, 0) + bytes(48)), "an entry at byte 16"),
        (built_fatbin(*[struct.pack("<HHIQ", 9, 0x101, 64, 0) + bytes(48)] * 4097), "more than 4096"),
    ],
)
def test_what_is_no_image_is_a_problem(data: bytes, message: str) -> None:
    with pytest.raises(ImageProblem, match=message):
        images.choose(data, "sm_90")


def test_a_program_that_would_fill_the_memory_is_refused() -> None:
    bomb = entry(bytes(1 << 20), 90, packing="zstd")
    for size in (1 << 62, 1 << 21, 5):
        lying = bytearray(built_fatbin(bomb))
        struct.pack_into("<Q", lying, 16 + 56, size)
        with pytest.raises(ImageProblem):
            images.choose(bytes(lying), "sm_90")


@given(st.data())
def test_a_damaged_fatbin_is_read_or_a_problem(data: st.DataObject) -> None:
    whole = bytearray(built_fatbin(entry(PTX_TEXT, 80, kind=1, packing="zstd"), entry(cubin(), 90)))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, min(300, len(whole) - 1)))] = data.draw(st.integers(0, 255))
    try:
        images.variables(bytes(whole), "sm_90", KERNEL)
    except ImageProblem:
        pass


# --- PTX -------------------------------------------------------------------------------------------


def test_comments_that_never_end_are_read_once() -> None:
    assert ptx.kernels(b".entry k()\n" + b"/*" * 200_000 + b".entry no()") == ["k"]


def test_ptx_tells_its_variables_and_kernels() -> None:
    assert ptx.variables(PTX_TEXT) == ["coef", "counter", "both", "wide"]
    assert ptx.kernels(PTX_TEXT) == [KERNEL]
    assert ptx.arch(PTX_TEXT) == (80, "")
    assert images.variables(PTX_TEXT + b"\0", "sm_90") == ["coef", "counter", "both", "wide"]


# --- as nvcc makes them ----------------------------------------------------------------------------

CUDA = """
__constant__ float coef[4];
__device__ int counter;
__managed__ int both;
static __device__ float hidden[8];
namespace { __device__ double deep; }
struct Pair { float *p; int n; };
template <class T> __global__ void scale(T *x, const T *y, int n, Pair pair, double f) {
  x[n] = y[n] * T(coef[n & 3]) + T(hidden[n & 7]) + T(deep) + T(f) + *pair.p;
  atomicAdd(&counter, both);
}
template __global__ void scale<float>(float *, const float *, int, Pair, double);
"""
SCALE = "_Z5scaleIfEvPT_PKS0_i4Paird"


@pytest.fixture(scope="module")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``a.cu``; what the tests build of it goes there."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    folder = tmp_path_factory.mktemp("nvcc")
    (folder / "a.cu").write_text(CUDA)
    return folder


def compile_with(folder: Path, *options: str) -> bytes:
    run = subprocess.run(["nvcc", *options, "-o", "out", "a.cu"], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return (folder / "out").read_bytes()


# nvcc packs with LZ4 for speed, with zstd for size.
@pytest.mark.parametrize(
    "mode", ["speed", *(pytest.param(mode, marks=pytest.mark.long) for mode in ("size", "none", "balance"))]
)
def test_fatbins_of_nvcc(nvcc: Path, mode: str) -> None:
    options = ["-fatbin", "-gencode", "arch=compute_90,code=sm_90", "-gencode", "arch=compute_80,code=sm_80"]
    data = compile_with(
        nvcc, *options, "-gencode", "arch=compute_80,code=compute_80", f"-compress-mode={mode}"
    )
    assert {(each.kind, each.arch) for each in images.entries(data)} == {
        ("elf", 90),
        ("elf", 80),
        ("ptx", 80),
    }
    chosen = images.choose(data, "sm_90", SCALE)
    assert chosen.cubin is not None and chosen.ptx is not None and chosen.cubin_arch == "sm_90"
    found = Cubin(chosen.cubin)
    assert found.arch == 90 and found.kernels() == [SCALE]
    assert found.layout(SCALE) == ((0, 8), (8, 8), (16, 4), (24, 16), (40, 8))
    for names in (found.variables(), ptx.variables(chosen.ptx)):
        assert {"coef", "counter", "both", "hidden"} <= set(names)
        assert any(name.endswith("4deepE") for name in names) and len(names) == 5


def test_the_cubin_is_found_in_a_program(nvcc: Path) -> None:
    compile_with(nvcc, "-arch=sm_90", "-Xcompiler=-fPIC", "-shared")
    found = host_file.image_of(nvcc / "out", SCALE, "sm_90")
    assert found is not None and Cubin(found).kernels() == [SCALE]
    assert host_file.image_of(nvcc / "out", "_Z5otherv", "sm_90") is None
    assert host_file.image_of(nvcc / "out", SCALE, "sm_80") is None


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "empty", "text", "cut"])
def test_a_program_that_is_none_holds_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "program"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_bytes({"empty": b"", "text": b"#!/bin/sh\n", "cut": cubin()[:100]}[kind])
    assert host_file.image_of(path, KERNEL, "sm_90") is None


def test_fatbin_sizes_are_checked_before_anything_is_cut() -> None:
    data = built_fatbin(entry(cubin(), 90))
    assert fatbin.container_size(data) == len(data)
    assert fatbin.container_size(data[:-1]) is None and fatbin.container_size(b"", 0) is None
