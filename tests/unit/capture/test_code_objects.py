"""AMDGPU code objects and offload bundles: a compiler's, and what no compiler would write."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture import images
from kerncap.capture.images import amdgpu, offload_bundle
from kerncap.capture.images.problem import ImageProblem
from kerncap.format import schema
from kerncap.format.code_object import MACHINE, CodeObject, CodeObjectProblem, is_code_object
from tests.unit.format.damage import GOLDEN_HIP

SCALE = "_ZN2ns5scaleIfEEvPT_PKS1_id4Pair"
COMPILED = (GOLDEN_HIP / "code" / "kernel.hsaco").read_bytes()


def elf(notes: bytes, machine: int = MACHINE) -> bytes:
    """An ELF file of nothing but one PT_NOTE segment."""
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        3,
        machine,
        1,
        0,
        64,
        0,
        0,
        64,
        56,
        1,
        64,
        0,
        0,
    )
    start = len(head) + 56
    segment = struct.pack("<IIQQQQQQ", 4, 4, start, 0, 0, len(notes), len(notes), 4)
    return head + segment + notes


def note(content: bytes, owner: bytes = b"AMDGPU\0", kind: int = 32, size: int | None = None) -> bytes:
    padded = owner + bytes(-len(owner) % 4)
    size = len(content) if size is None else size
    return struct.pack("<III", len(owner), size, kind) + padded + content + bytes(-len(content) % 4)


def kernel(**changes: Any) -> dict[str, Any]:
    made = {
        ".name": "k",
        ".symbol": "k.kd",
        ".kernarg_segment_size": 24,
        ".args": [
            {".offset": 0, ".size": 8, ".value_kind": "global_buffer", ".name": "x.coerce"},
            {".offset": 8, ".size": 4, ".value_kind": "by_value", ".name": "n", ".type_name": "int"},
            {".offset": 16, ".size": 8, ".value_kind": "hidden_hostcall_buffer"},
        ],
        **changes,
    }
    return made


def code_object(*kernels: Any, target: Any = "amdgcn-amd-amdhsa--gfx90a", **changes: Any) -> bytes:
    metadata = {"amdhsa.version": [1, 2], "amdhsa.target": target, "amdhsa.kernels": list(kernels), **changes}
    return elf(note(msgspec.msgpack.encode(metadata)))


# --- metadata --------------------------------------------------------------------------------------


def test_what_hipcc_wrote_is_read() -> None:
    found = CodeObject(COMPILED)
    assert is_code_object(COMPILED) and (found.arch, found.features) == ("gfx90a", "")
    [scale] = found.kernels
    assert found.kernel(SCALE) is scale and found.kernel(SCALE + ".kd") is scale and found.kernel("k") is None
    assert amdgpu.layout(scale) == ((0, 8), (8, 8), (16, 4), (24, 8), (32, 16))
    assert [(each.value_kind, each.offset, each.size) for each in scale.hidden][:4] == [
        ("hidden_block_count_x", 48, 4),
        ("hidden_block_count_y", 52, 4),
        ("hidden_block_count_z", 56, 4),
        ("hidden_group_size_x", 60, 2),
    ]
    assert (scale.kernarg_segment_size, scale.wavefront_size, scale.vgpr_count) == (304, 64, 7)
    assert [(each.name, each.size) for each in found.variables()] == [("coef", 16)]


@pytest.mark.parametrize(
    ("target", "arch", "features"),
    [
        ("amdgcn-amd-amdhsa--gfx90a", "gfx90a", ""),
        ("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a", ":sramecc+:xnack-"),
        ("amdgpu9.42-amd-amdhsa-unknown-gfx942", "gfx942", ""),  # as Triton 3.9 writes it
        ("amdgcn-amd-amdhsa--gfx9-4-generic:xnack+", "gfx9-4-generic", ":xnack+"),
        ("x86_64-unknown-linux", None, ""),
        ("gfx90a; rm -rf /", None, ""),
    ],
)
def test_the_architecture_is_the_end_of_the_target(target: str, arch: str | None, features: str) -> None:
    found = CodeObject(code_object(kernel(), target=target))
    assert (found.arch, found.features) == (arch, features)


def test_names_and_types_come_from_the_metadata_where_it_has_them() -> None:
    found = CodeObject(code_object(kernel())).kernels[0]
    assert amdgpu.parameters(found) == [("x", None), ("n", "int")]
    twice = kernel()
    twice[".args"][1][".name"] = "x"
    assert [name for name, _ in amdgpu.parameters(CodeObject(code_object(twice)).kernels[0])] == ["x", None]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF", "not a little-endian ELF64"),
        (elf(b"", machine=62), "machine 62"),
        (elf(b""), "metadata is missing"),
        (elf(note(b"", kind=10)), "version 2"),
        (elf(note(b"\x80", owner=b"GNU\0")), "metadata is missing"),
        (elf(note(b"\x80", size=1 << 31)), "a note of 2147483648 bytes"),
        (elf(note(b"\xdd\xff\xff\xff\xff")), "metadata that can't be read"),
        (elf(note(b"\xdf\xff\xff\xff\xff")), "metadata that can't be read"),
        (elf(note(b"\x81\xaeamdhsa.kernels\xdd\xff\xff\xff\xff\x80")), "metadata that can't be read"),
        (elf(note(b"\x81\xadamdhsa.target\xdb\xff\xff\xff\xffx")), "metadata that can't be read"),
        (elf(note(b"\x91" * 100_000)), "metadata that can't be read"),
        (code_object(target=7), "metadata that can't be read"),
        (code_object(7), "metadata that can't be read"),
        (code_object(kernel(**{".name": None})), "metadata that can't be read"),
        (code_object(kernel(**{".kernarg_segment_size": -1})), "metadata that can't be read"),
        (code_object(kernel(**{".kernarg_segment_size": 1 << 40})), "metadata that can't be read"),
        (code_object(kernel(**{".args": {"a": 1}})), "metadata that can't be read"),
        (code_object(kernel(**{".args": [{}] * 3})), "metadata that can't be read"),
        (code_object(kernel(**{".kernarg_segment_size": 23})), "8 bytes at 16"),
    ],
)
def test_what_is_hostile_is_named(data: bytes, message: str) -> None:
    with pytest.raises(CodeObjectProblem, match=message):
        CodeObject(data)
    with pytest.raises(ImageProblem, match=message):
        amdgpu.read(data)


def test_arguments_that_overlap_are_refused() -> None:
    overlapping = kernel()
    overlapping[".args"][1][".offset"] = 4
    with pytest.raises(CodeObjectProblem, match="4 bytes at 4 of k"):
        CodeObject(code_object(overlapping))


@given(st.data())
def test_a_damaged_code_object_only_raises_its_own_error(data: st.DataObject) -> None:
    damaged = bytearray(COMPILED)
    for _ in range(data.draw(st.integers(1, 8))):
        # The metadata and the headers are its first two KiB; symbols and sections lie at the end.
        place = data.draw(st.integers(0, 2047) | st.integers(len(damaged) - 2048, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        found = CodeObject(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
        found.variables()
        found.static_variables()
    except CodeObjectProblem:
        pass


def test_facts_for_the_manifest() -> None:
    found = CodeObject(COMPILED)
    facts = amdgpu.facts(found, found.kernel(SCALE))
    assert facts["vgprs"] == schema.IntValue(value="7")
    assert facts["kernarg_bytes"] == schema.IntValue(value="304")
    assert facts["target"] == schema.StrValue(value="amdgcn-amd-amdhsa--gfx90a")
    hidden = facts["hidden_arguments"]
    assert isinstance(hidden, schema.StrValue)
    assert hidden.value.startswith("hidden_block_count_x at 48 (4 bytes), ")
    assert set(amdgpu.facts(found, None)) == {"target"}


# --- bundles ---------------------------------------------------------------------------------------


def bundle(*programs: tuple[str, bytes]) -> bytes:
    head = offload_bundle.MAGIC + struct.pack("<Q", len(programs))
    at = len(head) + sum(24 + len(target) for target, _ in programs)
    body = b""
    for target, data in programs:
        head += struct.pack("<QQQ", at + len(body), len(data), len(target)) + target.encode()
        body += data
    return head + body


BUNDLE = bundle(
    ("host-x86_64-unknown-linux-gnu-", b""),
    ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", COMPILED),
    ("hipv4-amdgcn-amd-amdhsa--gfx942", COMPILED[:100]),
)


def packed(version: int, method: int, size: int | None = None) -> bytes:
    content = zstandard.ZstdCompressor().compress(BUNDLE) if method else zlib.compress(BUNDLE)
    size = len(BUNDLE) if size is None else size
    if version == 1:
        return struct.pack("<4sHHIQ", b"CCOB", 1, method, size, 0) + content
    form = "<4sHHIIQ" if version == 2 else "<4sHHQQQ"
    whole = struct.calcsize(form) + len(content)
    return struct.pack(form, b"CCOB", version, method, whole, size, 0) + content + b"more"


@pytest.mark.parametrize(
    "data",
    [BUNDLE, packed(1, 0), packed(1, 1), packed(2, 0), packed(2, 1), packed(3, 0), packed(3, 1)],
    ids=["plain", "1 zlib", "1 zstd", "2 zlib", "2 zstd", "3 zlib", "3 zstd"],
)
def test_the_program_of_this_architecture_is_taken(data: bytes) -> None:
    chosen = images.choose(data, "gfx90a", SCALE)
    assert chosen.hsaco == COMPILED and chosen.cubin is None
    assert images.variables(data, "gfx90a") == ["coef"]
    with pytest.raises(ImageProblem, match="nothing for gfx1100"):
        images.choose(data, "gfx1100")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (offload_bundle.MAGIC, "not an offload bundle"),
        (offload_bundle.MAGIC + b"\xff" * 8, "entries"),
        (BUNDLE[:100], "leads out|ends within"),
        (b"CCOB\x09\0\0\0" + bytes(40), "unknown version"),
        (b"CCOB\x02\0\x07\0" + bytes(40), "0 bytes"),
        (packed(3, 1, 1 << 50), "1125899906842624 bytes"),
        (packed(2, 0, 10), "other than 10 bytes"),
        (packed(3, 1, 10), "zstd frame"),
        (packed(2, 1)[:60], "zstd frame"),
    ],
)
def test_a_damaged_bundle_is_named(data: bytes, message: str) -> None:
    with pytest.raises(ImageProblem, match=message):
        images.choose(data, "gfx90a")


def test_a_program_has_one_bundle_for_each_of_its_units(tmp_path: Path) -> None:
    from kerncap.capture.images import host_file

    program = tmp_path / "program"
    other = bundle(("hip-amdgcn-amd-amdhsa--gfx90a", code_object(kernel())))
    program.write_bytes(with_section(".hip_fatbin", other + bytes(64) + BUNDLE))
    assert host_file.image_of(program, SCALE, "gfx90a") == COMPILED
    assert host_file.image_of(program, SCALE, None) == COMPILED  # a shim does not say
    assert host_file.image_of(program, SCALE, "gfx1100") is None
    assert host_file.image_of(program, "_Z5otherv", "gfx90a") is None


def with_section(name: str, content: bytes) -> bytes:
    """An ELF file of this machine with one section."""
    names = b"\0" + name.encode() + b"\0.shstrtab\0"
    at = 64 + len(content)
    table = at + len(names)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 2, 62, 1, 0, 0, table, 0, 64, 56, 0, 64, 3, 2
    )
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 2, 0, 64, len(content), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 2 + len(name), 3, 0, 0, at, len(names), 0, 0, 1, 0)
    return head + content + names + sections
