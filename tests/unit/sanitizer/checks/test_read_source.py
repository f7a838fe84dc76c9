from __future__ import annotations

import numpy as np
import pytest

from kerncap.sanitizer.checks.memory_before_launch import ContentsSource
from kerncap.sanitizer.symbolic.expr import Buffer
from tests.unit.sanitizer.checks.memory_launches import launch_of


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_values_of_every_width_at_their_offsets(bits: int) -> None:
    numbers = np.array([0, -1, 5, -(1 << (bits - 1)), (1 << (bits - 1)) - 1], f"<i{bits // 8}")
    reads = ContentsSource(launch_of([5], itemsize=bits // 8, contents=[numbers]))
    buffer = Buffer(0, bits)
    offsets = np.arange(5) * (bits // 8)
    values = reads.values(buffer, offsets.reshape(5, 1))
    assert values is not None
    assert values.shape == (5, 1)
    assert values.reshape(-1).tolist() == numbers.tolist()
    assert reads.bounds(buffer) == (int(numbers.min()), int(numbers.max()))


def test_unaligned_offsets_and_offsets_outside() -> None:
    reads = ContentsSource(launch_of([2], contents=[np.array([0x04030201, 0x08070605], "<i4")]))
    values = reads.values(Buffer(0, 32), np.array([1, -100, 100, 5]))
    assert values is not None
    # Outside: moved to the first and to the last whole item.
    assert [hex(v) for v in values.tolist()] == ["0x5040302", "0x4030201", "0x8070605", "0x8070605"]


def test_booleans_are_true_for_any_byte_but_zero() -> None:
    reads = ContentsSource(launch_of([3], itemsize=1, contents=[np.array([0, 1, 255], np.uint8)]))
    values = reads.values(Buffer(0, 1), np.arange(3))
    assert values is not None
    assert values.dtype == np.bool_
    assert values.tolist() == [False, True, True]


def test_unsigned_values_beyond_63_bits_stay_exact() -> None:
    reads = ContentsSource(launch_of([1], itemsize=8, contents=[np.array([2**64 - 3], "<u8")]))
    values = reads.values(Buffer(0, 64, signed=False), np.array([0]))
    assert values is not None
    assert values.tolist() == [2**64 - 3]
    assert reads.bounds(Buffer(0, 64, signed=False)) == (2**64 - 3, 2**64 - 3)


def test_without_contents_there_are_neither_values_nor_bounds() -> None:
    reads = ContentsSource(launch_of([4]))
    assert reads.values(Buffer(0, 32), np.array([0])) is None
    assert reads.bounds(Buffer(0, 32)) is None


def test_an_empty_storage_reads_as_zero() -> None:
    reads = ContentsSource(launch_of([0], contents=[np.zeros(0, np.int32)]))
    values = reads.values(Buffer(0, 32), np.array([0, 8]))
    assert values is not None
    assert values.tolist() == [0, 0]
    assert reads.bounds(Buffer(0, 32)) == (0, 0)


def test_bounds_hold_for_a_tensor_that_begins_between_items() -> None:
    data = np.zeros(12, np.uint8)
    data[2:10] = np.array([70000, -7], "<i4").view(np.uint8)
    reads = ContentsSource(launch_of([2], shift=2, contents=[data[:10]]))
    low, high = reads.bounds(Buffer(0, 32)) or (0, 0)
    assert low <= -7 and high >= 70000
