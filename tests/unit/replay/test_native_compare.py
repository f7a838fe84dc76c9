"""Comparison by numpy says what comparison by torch says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kerncap.replay.worker.native import compare_arrays, dtypes
from kerncap.replay.worker.torch_backend import compare_views as by_torch
from kerncap.replay.worker.torch_backend import perturb as torch_perturb

FLOATS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int8", "uint8", "int16", "int32", "int64"]


def view(dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> dict[str, Any]:
    itemsize = getattr(torch, dtype).itemsize
    return {
        "region": 0, "offset": offset, "dtype": dtype, "itemsize": itemsize, "shape": list(shape),
        "strides": list(strides), "name": "x",
    }  # fmt: skip


def contents(seed: int, dtype: str, size: int) -> Any:
    random = np.random.default_rng(seed)
    if dtype not in FLOATS:
        return random.integers(0, 256, size).astype(np.uint8)
    number = dtypes.Number(dtype, getattr(torch, dtype).itemsize)
    values = random.standard_normal(size // number.itemsize) * 4
    values[random.integers(0, len(values), 5)] = np.nan
    if dtype not in ("float8_e4m3fn",):
        values[random.integers(0, len(values), 5)] = np.inf
    return np.ascontiguousarray(number.encode(values)).view(np.uint8)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize(
    ("shape", "strides"), [((240,), (1,)), ((10, 7), (12, 1)), ((5, 6), (1, 20)), ((), ())]
)
@pytest.mark.parametrize("tolerance", [(0.0, 0.0), (0.2, 0.5)])
def test_statistics_are_the_same(
    dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], tolerance: tuple[float, float]
) -> None:
    now, expected = contents(1, dtype, 2048), contents(2, dtype, 2048)
    expected[: 2048 // 2] = now[: 2048 // 2]
    described = view(dtype, shape, strides, getattr(torch, dtype).itemsize * 3)
    kind = dtypes.number(described)
    ours = compare_arrays.compare(
        kind,
        compare_arrays.strided(now, 0, described),
        compare_arrays.strided(expected, 0, described),
        *tolerance,
    )
    theirs = by_torch.compare(
        by_torch.strided(torch.from_numpy(now), described, getattr(torch, dtype)),
        by_torch.strided(torch.from_numpy(expected), described, getattr(torch, dtype)),
        *tolerance,
    )
    assert ours == theirs


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_not_finite_is_the_same(dtype: str) -> None:
    data = contents(3, dtype, 960)
    described = view(dtype, (10, 10), (11, 1))
    written = np.random.default_rng(4).integers(0, 2, (10, 10)).astype(np.uint8)
    ours = compare_arrays.nonfinite(
        dtypes.number(described), compare_arrays.strided(data, 0, described), written
    )
    theirs = by_torch.nonfinite(
        by_torch.strided(torch.from_numpy(data), described, getattr(torch, dtype)), torch.from_numpy(written)
    )
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8"])
def test_perturbed_contents_are_the_same(dtype: str) -> None:
    ours, theirs = contents(5, dtype, 960), torch.from_numpy(contents(5, dtype, 960).copy())
    described = view(dtype, (10, 10), (11, 1))
    chosen = np.random.default_rng(6).integers(0, 2, (10, 10)).astype(np.uint8)
    changed = compare_arrays.perturb(
        dtypes.number(described), compare_arrays.strided(ours, 0, described), chosen, 3
    )
    tensor = by_torch.strided(theirs, described, getattr(torch, dtype))
    assert changed == torch_perturb.perturb(tensor, torch.from_numpy(chosen), 3)
    difference = compare_arrays.compare(
        dtypes.number(described), compare_arrays.strided(ours, 0, described),
        compare_arrays.strided(theirs.numpy(), 0, described), 1e-2, 0.0,
    )  # fmt: skip
    assert difference.outside == 0, "but for how a tie is rounded"


def test_unknown_types_are_words_and_complex_numbers_are_parts() -> None:
    unknown = dtypes.as_parts({"dtype": "float4x3", "itemsize": 12, "shape": [5], "strides": [2]})
    assert (unknown["dtype"], unknown["shape"], unknown["strides"]) == ("uint32", [5, 3], [6, 1])
    parts = dtypes.as_parts({"dtype": "complex64", "itemsize": 8, "shape": [5], "strides": [2]})
    assert (parts["dtype"], parts["shape"], parts["strides"]) == ("float32", [5, 2], [4, 1])


def test_what_only_looks_like_a_guessed_type_gets_no_tolerance() -> None:
    """Counters and indices beside floats that differ from run to run: as floats they are next to nothing."""
    kind = dtypes.Number("float32", 4)
    expected = np.array([1.0, 2.0], dtype=np.float32).view(np.uint32)
    now = np.array([1.0, 2.000001], dtype=np.float32).view(np.uint32)
    integers = np.array([7, 4000, 0xFFFFFFFF, 5], dtype=np.uint32)
    wrong = np.array([8, 0, 0xFFFFFFFE, 5], dtype=np.uint32)
    both = np.concatenate([now, wrong]), np.concatenate([expected, integers])
    assert compare_arrays.compare(kind, *both, 1e-5, 1e-5).outside == 0
    guessed = compare_arrays.compare(kind, *both, 1e-5, 1e-5, guessed=True)
    assert (guessed.different, guessed.outside, guessed.first.index) == (4, 3, [2])


@pytest.mark.parametrize(
    ("dtype", "found", "expected", "apart"),
    [
        ("int64", 2**60 + 3, 2**60, 3),
        ("int64", -(2**63), 2**63 - 1, 2**64),
        ("int64", -1, 2**32, 2**32 + 1),
        ("uint64", 2**63 + 2**60 + 3, 2**63 + 2**60, 3),
        ("uint64", 0, 2**64 - 1, 2**64),
    ],
)
def test_integers_of_64_bits_are_as_far_apart_as_they_are(
    dtype: str, found: int, expected: int, apart: int
) -> None:
    """Also where both are one number as float64: a tolerance of less lets nothing through."""
    arrays = [np.array([7, number], dtype=dtype) for number in (found, expected)]
    for atol, outside in ((0.0, 1), (2.0, 1), (float(apart), 0)):
        ours = compare_arrays.compare(
            dtypes.Number(dtype, 8), *(each.view(np.uint64) for each in arrays), 0.0, atol
        )
        theirs = by_torch.compare(*map(torch.from_numpy, arrays), 0.0, atol)
        for one in (ours, theirs):
            assert (one.different, one.outside, one.max_abs) == (1, outside, float(apart))


def test_a_signalling_nan_is_read_without_a_warning() -> None:
    """Memory that nobody wrote has such bits."""
    bits = np.array([0x7F800001, 0x3F800000], dtype=np.uint32)
    values = dtypes.Number("float32", 4).decode(bits)
    assert np.isnan(values[0]) and values[1] == 1
