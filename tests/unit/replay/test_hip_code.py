"""What the worker reads in a code object: metadata, symbols, hidden arguments."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.replay.worker.hip import metadata, symbols
from kerncap.replay.worker.hip.hidden import Dispatched, fill
from kerncap.replay.worker.hip.metadata import Malformed, Slot

GOLDEN = Path(__file__).parents[2] / "golden" / "scale_gfx90a.hsaco"  # a compiler's own


def elf(document: Any, owner: bytes = b"AMDGPU\0", kind: int = 32) -> bytes:
    """A file that has metadata and nothing else."""
    data = document if isinstance(document, bytes) else msgspec.msgpack.encode(document)
    note = struct.pack("<III", len(owner), len(data), kind) + owner + bytes(-len(owner) % 4) + data
    note += bytes(-len(data) % 4)
    head = b"\x7fELF\x02\x01\x01" + bytes(25) + struct.pack("<QQIHHHHHH", 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4) + note


def kernel(*arguments: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    listed = [{".value_kind": kind, ".offset": offset, ".size": size} for kind, offset, size in arguments]
    return {".name": "add", ".symbol": "add.kd", ".args": listed, **more}


def test_arguments_explicit_and_hidden() -> None:
    listed = (("global_buffer", 0, 8), ("by_value", 8, 4), ("hidden_block_count_x", 16, 4),
              ("hidden_none", 24, 8))  # fmt: skip
    document = {"amdhsa.kernels": [kernel(*listed, **{".vgpr_count": 12, ".kernarg_segment_size": 272})]}
    [found] = metadata.read(elf(document))
    assert found.explicit == [(0, 8), (8, 4)]
    assert found.hidden == [Slot("hidden_block_count_x", 16, 4)]
    assert (found.symbol, found.vgprs, found.kernarg_bytes) == ("add.kd", 12, 272)


def test_what_a_compiler_wrote() -> None:
    [found] = metadata.read(GOLDEN.read_bytes())
    assert found.explicit and found.wavefront == 64
    address, size = symbols.read(GOLDEN.read_bytes())[found.symbol]
    assert address and size == 64  # a kernel descriptor


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no ELF file"),
        (b"\x7fELF\x01\x01" + bytes(80), "no ELF file of 64 bits"),
        (elf({}, owner=b"GNU\0"), "has no metadata"),
        (elf({}, kind=10), "has no metadata"),
        (elf(b"\xc1"), "byte 0xc1"),
        (elf(b"\x81\xaeamdhsa.kernels\x91\x80"), "can't be read"),
        (elf(b"\xdb\xff\xff\xff\xff"), "ends too early"),
        (elf(b"\x91" * 40), "nested too deep"),
        (elf(b"\xdd\xff\xff\xff\xff"), "can't be read"),
    ],
)
def test_damaged_metadata_is_named(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        metadata.read(data)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text(max_size=300) | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20),
    max_leaves=30,
)  # fmt: skip


@given(_VALUES)
def test_messagepack_is_read_as_it_was_written(value: Any) -> None:
    assert metadata._Unpacker(msgspec.msgpack.encode(value)).value() == value


@given(st.integers(0, len(GOLDEN.read_bytes()) - 1), st.integers(0, 255))
def test_any_damaged_byte_ends_in_malformed_or_in_a_reading(at: int, byte: int) -> None:
    data = bytearray(GOLDEN.read_bytes())
    data[at] = byte
    for read in (metadata.read, symbols.read):
        try:
            read(bytes(data[: at + 1] if byte % 2 else data))
        except Malformed as error:
            assert str(error)


SHAPE = Dispatched((150, 6, 1), (64, 2, 1), 2, 1024, 0x7000)


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
        Slot("hidden_hostcall_buffer", 0, 8),
        Slot("hidden_heap_v1", 8, 8),
        Slot("hidden_new_one", 16, 8),
    ]
    said = fill(segment, slots, SHAPE)
    assert segment == bytes(24)
    assert said == ["calls to the host (printf, assert)", "malloc in the kernel", "new one"]
