"""Which floating type explains the differences between two runs of one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.native.dtypes import BITS, Number
from kerncap.replay.worker.native.infer_type import infer, set_bits

_ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def runs(dtype: str, count: int, every: int = 1) -> tuple[Any, Any, Any]:
    """The bytes of two runs that differ by up to two units of the last place, and where."""
    random = np.random.default_rng(count)
    kind = Number(dtype, _ITEMSIZE[dtype])
    bits = kind.encode(random.standard_normal(count) * 3).astype(BITS[kind.itemsize])
    other = bits.copy()
    other[::every] += random.integers(1, 3, len(other[::every])).astype(bits.dtype)
    a, b = bits.view(np.uint8), other.view(np.uint8)
    return a, b, np.flatnonzero(a != b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("count", [5, 100, 5000])
def test_rounding_is_of_its_type(dtype: str, count: int) -> None:
    a, b, at = runs(dtype, count)
    hint = (
        {"float16": "sum<__half>", "bfloat16": "sum<__nv_bfloat16>"}.get(dtype, "sum") if count == 5 else ""
    )
    found = infer(a, b, at, 0x7000, hint)
    assert (found.dtype, found.offset, found.elements) == (dtype, 0, count)


def test_a_single_double_is_told_by_the_name_of_the_kernel() -> None:
    a, b, at = runs("float64", 1)
    assert infer(a, b, at, 0x7000, "total(double const*, double*)").dtype == "float64"


def test_elements_are_aligned_to_addresses_not_to_the_region() -> None:
    a, b, at = runs("float32", 100)
    shifted_a, shifted_b = (np.concatenate([np.zeros(2, np.uint8), x]) for x in (a, b))
    found = infer(shifted_a, shifted_b, at + 2, 0x7002, "")
    assert (found.dtype, found.offset, found.elements) == ("float32", 2, 100)


def test_what_is_no_rounding_is_of_no_type() -> None:
    random = np.random.default_rng(5)
    a = random.permutation(1000).astype(np.int32).view(np.uint8)  # indices in the order as they come
    b = random.permutation(1000).astype(np.int32).view(np.uint8)
    assert infer(a, b, np.flatnonzero(a != b), 0x7000, "") is None
    c = random.integers(0, 256, 4000).astype(np.uint8)
    d = random.integers(0, 256, 4000).astype(np.uint8)
    assert infer(c, d, np.flatnonzero(c != d), 0x7000, "") is None


def test_set_bits_are_counted_from_the_start_of_the_stretch() -> None:
    chosen = np.zeros(64, np.uint8)
    chosen[[3, 17, 18, 40, 63]] = 1
    mask = bitmap.of_flags(chosen)
    assert list(set_bits(mask, 0, 64)) == [3, 17, 18, 40, 63]
    assert list(set_bits(mask, 17, 41)) == [0, 1, 23]
