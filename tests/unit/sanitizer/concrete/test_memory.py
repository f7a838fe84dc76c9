"""The evaluation's memory: private copies, elements at any place, nothing outside of a storage."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.concrete.memory import ABSOLUTE, Memory
from kerncap.sanitizer.launch import Launch, PointerArgument, Storage, TensorArgument
from tests.unit.sanitizer.concrete.launches import Array, Held, bytes_after

A, B = 4096, 8192


def memory_of(a: Array | None, b: Array | None = None) -> tuple[Memory, Held]:
    """Argument 0: 8 bytes into storage 0; argument 1: storage 1; argument 2: an address in storage 1."""
    storages = (Storage(B, 64, B, 64, "b"), Storage(A, 64, A, 64, "a"))
    arguments = (
        TensorArgument("a", 1, A + 8, "int32", 4, (14,), (1,)),
        TensorArgument("b", 0, B, "int32", 4, (16,), (1,)),
        PointerArgument("p", B + 4),
    )
    held = Held([np.arange(16, dtype="i4") if b is None else b, a])
    return Memory(Launch("k", "", (1, 1, 1), arguments, storages, held)), held


def read(memory: Memory, argument: int, offsets: list[int], width: int = 4) -> list[int]:
    return memory.gather(argument, np.array(offsets, dtype=np.int64), None, width).bits.tolist()


def test_reads_at_offsets_from_the_argument() -> None:
    memory, _ = memory_of(np.arange(16, dtype="i4"))
    assert read(memory, 0, [0, 4, -8, 52]) == [2, 3, 0, 15]
    assert read(memory, 1, [0, 60]) == [0, 15]
    assert read(memory, 2, [0]) == [1]


def test_elements_that_are_not_wholly_inside_read_zero_and_take_no_store() -> None:
    memory, _ = memory_of(np.full(16, -1, dtype="i4"))
    ones = 2**32 - 1
    assert read(memory, 0, [-9, -8, 52, 53, 10**12, -(10**12)]) == [0, ones, ones, 0, 0, 0]
    offsets = np.array([-12, 53, 52], dtype=np.int64)
    memory.scatter(0, offsets, None, np.array([7, 8, 9], dtype=np.uint32))
    after = bytes_after(memory)[1].view("i4")
    assert after.tolist() == [-1] * 15 + [9]
    assert list(memory.changed()) == [1]


def test_unaligned_elements() -> None:
    memory, _ = memory_of(np.arange(64, dtype="u1"))
    assert read(memory, 0, [1], 2) == [0x0A09]
    memory.scatter(0, np.array([1], dtype=np.int64), None, np.array([0x0102030405060708], dtype=np.uint64))
    assert bytes_after(memory)[1][9:17].tolist() == [8, 7, 6, 5, 4, 3, 2, 1]


def test_the_launch_keeps_its_own_bytes() -> None:
    memory, held = memory_of(np.zeros(16, dtype="i4"))
    memory.scatter(0, np.array([0], dtype=np.int64), None, np.array([5], dtype=np.uint32))
    assert held.arrays[1] is not None and not held.arrays[1].any()
    assert read(memory, 0, [0]) == [5]


def test_addresses_find_their_storage() -> None:
    memory, _ = memory_of(np.full(16, 3, dtype="i4"))
    assert read(memory, ABSOLUTE, [A, B + 8, A - 4, B + 64, 0]) == [3, 2, 0, 0, 0]
    mixed = memory.gather(np.array([0, 1, ABSOLUTE]), np.array([0, 8, B + 12]), None, 4)
    assert mixed.bits.tolist() == [3, 2, 3]
    assert memory.absolute(np.array([0, ABSOLUTE]), np.array([1, 9])).tolist() == [A + 9, 9]


def test_of_two_stores_to_one_place_the_later_stays() -> None:
    memory, _ = memory_of(np.zeros(16, dtype="i4"))
    memory.scatter(0, np.zeros(3, dtype=np.int64), None, np.array([1, 2, 3], dtype=np.uint32))
    assert read(memory, 0, [0]) == [3]


def test_contents_that_are_not_to_be_had() -> None:
    memory, _ = memory_of(None)
    one = np.array([0], dtype=np.int64)
    assert memory.gather(0, one, None, 4).unknown == "contents of a are not available"
    assert memory.gather(0, one, np.array([False]), 4).unknown is None
    assert memory.gather(0, np.array([1000]), None, 4).unknown is None
    memory.scatter(0, one, None, np.array([6], dtype=np.uint32))
    assert memory.gather(0, one, None, 4).unknown is None
    assert memory.gather(0, one + 2, None, 4).unknown is not None
    assert memory.unknown() == {1: "contents of a are not available"}


def test_a_store_of_an_unknown_value() -> None:
    memory, _ = memory_of(np.zeros(16, dtype="i4"))
    at = np.array([4, 8], dtype=np.int64)
    memory.forget(0, at, np.array([True, False]), 4, "because")
    assert memory.gather(0, at[:1], None, 4).unknown == "because"
    assert memory.gather(0, at[1:], None, 4).unknown is None
    memory.scatter(0, at, None, np.array([1, 1], dtype=np.uint32))
    assert memory.unknown() == {}
