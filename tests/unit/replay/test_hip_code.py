"""The description of a code object that a worker gets, and the hidden arguments that it makes from it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncap.format.elf import Elf
from kerncap.replay import hip_code_places, hip_image_facts
from kerncap.replay.hip_code_places import Captured
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.hip.hidden_arguments import Dispatched, fill
from kerncap.replay.worker.protocol import HipImage, Slot

GOLDEN = Path(__file__).parents[2] / "golden" / "v1.3" / "code" / "kernel.hsaco"  # a compiler's own
SCALE = "_ZN2ns5scaleIfEEvPT_PKS1_id4Pair"


def elf(document: Any, owner: bytes = b"AMDGPU\0", kind: int = 32) -> bytes:
    """A file that has metadata and nothing else."""
    data = document if isinstance(document, bytes) else msgspec.msgpack.encode(document)
    note = struct.pack("<III", len(owner), len(data), kind) + owner + bytes(-len(owner) % 4) + data
    note += bytes(-len(data) % 4)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, 224) + bytes(12)
    head += struct.pack("<QQIHHHHHH", 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4) + note


def kernel(name: str = "add", *arguments: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    listed = [{".value_kind": kind, ".offset": offset, ".size": size} for kind, offset, size in arguments]
    return {".name": name, ".symbol": f"{name}.kd", ".args": listed, ".kernarg_segment_size": 272, **more}


def facts_of(data: bytes, folder: Path, symbol: str = "add") -> HipImage:
    file = folder / "image.co"
    file.write_bytes(data)
    found = hip_image_facts.of_file(file, symbol, ())
    assert typed_json.read(HipImage, typed_json.line(found)) == found  # as the worker gets it
    return found


def test_arguments_explicit_and_hidden(tmp_path: Path) -> None:
    listed = (("global_buffer", 0, 8), ("by_value", 8, 4), ("hidden_block_count_x", 16, 4),
              ("hidden_none", 24, 8))  # fmt: skip
    found = facts_of(
        elf({"amdhsa.kernels": [kernel("add", *listed, **{".vgpr_count": 12})]}), tmp_path
    ).kernel
    assert found is not None
    assert found.explicit == [(0, 8), (8, 4)]
    assert found.hidden == [Slot("hidden_block_count_x", 16, 4)]
    assert (found.name, found.vgprs, found.kernarg_bytes) == ("add", 12, 272)


def test_what_a_compiler_wrote(tmp_path: Path) -> None:
    found = facts_of(GOLDEN.read_bytes(), tmp_path, SCALE)
    assert found.kernel is not None and found.kernel.explicit and found.kernel.wavefront == 64
    [(address, size)] = found.objects.values()
    assert list(found.objects) == [f"{SCALE}.kd"] and address and size == 64


def test_a_candidates_only_kernel_may_have_another_name(tmp_path: Path) -> None:
    one, two = kernel("scale"), kernel("other")
    only = facts_of(elf({"amdhsa.kernels": [one]}), tmp_path).kernel
    assert only is not None and only.name == "scale"
    assert facts_of(elf({"amdhsa.kernels": [one, two]}), tmp_path).kernel is None
    found = facts_of(elf({"amdhsa.kernels": [one, two]}), tmp_path, "other.kd").kernel
    assert found is not None and found.name == "other"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF\x01\x01" + bytes(80),
        elf({}, owner=b"GNU\0"),
        elf({}, kind=10),
        elf(b"\xc1"),
        elf(b"\x81\xaeamdhsa.kernels\x91\x80"),
        elf(b"\xdb\xff\xff\xff\xff"),
        elf(b"\x91" * 4000),
        elf(b"\xdd\xff\xff\xff\xff"),
    ],
)
def test_of_a_damaged_one_nothing_is_said(data: bytes, tmp_path: Path) -> None:
    assert facts_of(data, tmp_path) == HipImage()


@given(at=st.integers(0, len(GOLDEN.read_bytes()) - 1), byte=st.integers(0, 255))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damaged_byte_ends_in_facts(tmp_path: Path, at: int, byte: int) -> None:
    data = bytearray(GOLDEN.read_bytes())
    data[at] = byte
    damaged = bytes(data[: at + 1] if byte % 2 else data)
    facts_of(damaged, tmp_path, SCALE)
    whole = code_of(GOLDEN.read_bytes())
    for captured, is_own in ((whole, False), (hip_code_places.captured(damaged, SCALE, CAPTURED, {}), True)):
        file = tmp_path / "image.co"
        found = hip_image_facts.of_file(file, SCALE, (), captured, is_own)
        assert all(start >= 0 and size >= 0 and place >= 0 for start, size, place in found.moved)


CAPTURED = 0x7F40_0000_0000


def code_of(data: bytes, symbol: str = SCALE) -> Captured:
    with_descriptor = hip_code_places.captured(data, symbol, CAPTURED, {})
    assert with_descriptor is not None
    return with_descriptor


def test_the_captured_code_by_its_descriptor_or_a_variable() -> None:
    data = GOLDEN.read_bytes()
    code, descriptor = code_of(data), f"{SCALE}.kd"
    [(place, _)] = hip_image_facts._objects(Elf(data), [descriptor]).values()
    assert code.added == CAPTURED - place and CAPTURED in code.inside
    assert code.moved_whole() == [(code.inside.start, len(code.inside), code.inside.start - code.added)]
    assert (code.added + place, 64, place) in code.moved_to(Elf(data))
    # What is known of variables must agree.
    by_variable = hip_code_places.captured(data, SCALE, None, {descriptor: CAPTURED})
    assert by_variable is not None and by_variable.added == code.added
    other = {descriptor: CAPTURED, SCALE: CAPTURED}
    assert hip_code_places.captured(data, SCALE, None, other) is None
    assert hip_code_places.captured(data, "another", CAPTURED, {}) is None
    assert hip_code_places.captured(data, SCALE, None, {}) is None
    assert hip_code_places.captured(data, SCALE, place - 1, {}) is None  # below the address 0


def test_what_an_address_of_the_application_is() -> None:
    code = code_of(GOLDEN.read_bytes())
    at = code.symbol_at(CAPTURED + 8)
    assert at is not None and at.name == f"{SCALE}.kd"
    assert code.symbol_at(CAPTURED + 64) is None or code.symbol_at(CAPTURED + 64) != at
    kernel = next(each for each in code.elf.symbols() if each.name == SCALE)
    begins = code.symbol_at(code.added + kernel.value)
    assert begins is not None and begins.name == SCALE
    assert code.symbol_at(code.added + kernel.value + 4) is None  # no function begins there


@pytest.mark.parametrize(
    ("word", "takes"),
    [
        (0xBE841C00, True),  # s_getpc_b64 s[4:5]
        (0xBE9E1E04, True),  # s_swappc_b64 s[30:31], s[4:5]
        (0xBE801D1E, False),  # s_setpc_b64 s[30:31]: a return
        (0xBE840004, False),
    ],
)
def test_whether_a_kernel_takes_addresses(word: int, takes: bool) -> None:
    data = bytearray(GOLDEN.read_bytes())
    elf = Elf(bytes(data))
    kernel = next(each for each in elf.symbols() if each.name == SCALE)
    section = elf.sections[kernel.section]
    at = section.offset + kernel.value - section.address
    nothing = 0xBF800000  # s_nop
    data[at : at + kernel.size] = nothing.to_bytes(4, "little") * (kernel.size // 4)
    data[at + 8 : at + 12] = word.to_bytes(4, "little")
    assert hip_code_places.takes_addresses(Elf(bytes(data)), SCALE) == takes
    assert hip_code_places.takes_addresses(elf, "another")  # nothing is known of it


SHAPE = Dispatched((150, 6, 1), (64, 2, 1), 2, 1024, 0x7000, {"hidden_heap_v1": 0x9000})


@pytest.mark.parametrize(
    ("kind", "size", "value"),
    [
        ("hidden_block_count_x", 4, 2),
        ("hidden_block_count_y", 4, 3),
        ("hidden_group_size_x", 2, 64),
        ("hidden_remainder_x", 2, 22),
        ("hidden_remainder_y", 2, 0),
        ("hidden_grid_dims", 2, 2),
        ("hidden_global_offset_z", 8, 0),
        ("hidden_dynamic_lds_size", 4, 1024),
        ("hidden_queue_ptr", 8, 0x7000),
        ("hidden_shared_base", 4, 0),
        ("hidden_heap_v1", 8, 0x9000),
    ],
)
def test_hidden_arguments(kind: str, size: int, value: int) -> None:
    segment = bytearray(b"\xff" * 24)
    assert fill(segment, [Slot(kind, 8, size)], SHAPE) == []
    assert int.from_bytes(segment[8 : 8 + size], "little") == value
    assert segment[:8] == b"\xff" * 8 and segment[8 + size :] == b"\xff" * (16 - size)


def test_what_this_process_does_not_have_is_null_and_said() -> None:
    segment = bytearray(b"\xff" * 24)
    slots = [
        Slot("hidden_printf_buffer", 0, 8),
        Slot("hidden_default_queue", 8, 8),
        Slot("hidden_new_one", 16, 8),
    ]
    said = fill(segment, slots, SHAPE)
    assert segment == bytes(24)
    assert said == ["printf through a buffer", "launches by the kernel", "new one"]
