"""bfloat16 and the 8-bit floats, against torch where it has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kerncap.sanitizer.concrete import formats

SMALL = {
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    "f8E4M3FNUZ": torch.float8_e4m3fnuz,
    "f8E5M2FNUZ": torch.float8_e5m2fnuz,
}


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_decodes(name: str) -> None:
    patterns = np.arange(256, dtype=np.uint8)
    wanted = torch.from_numpy(patterns).view(SMALL[name]).to(torch.float32).numpy()
    np.testing.assert_array_equal(formats.decode(patterns, name), wanted)


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_survives_a_round_trip(name: str) -> None:
    values = formats.decode(np.arange(256, dtype=np.uint8), name)
    finite = np.isfinite(values)
    np.testing.assert_array_equal(formats.encode(values, name)[finite], np.arange(256)[finite])
    assert np.isnan(formats.rounded(np.array([np.nan], "f4"), name)).all()


@pytest.mark.parametrize("name", SMALL)
def test_rounds_to_the_nearest_even(name: str) -> None:
    values = formats.decode(np.arange(128, dtype=np.uint8), name)
    values = values[np.isfinite(values)].astype(np.float64)
    middles = (values[1:] + values[:-1]) / 2
    points = np.concatenate([middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf)])
    points = np.concatenate([points, -points]).astype(np.float32)
    wanted = torch.from_numpy(points).to(SMALL[name]).to(torch.float32).numpy()
    np.testing.assert_array_equal(formats.rounded(points, name), wanted)


@pytest.mark.parametrize(
    ("name", "largest"), [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0), ("f8E4M3FNUZ", 240.0)]
)
def test_out_of_range_saturates(name: str, largest: float) -> None:
    far = np.array([1e30, -1e30, np.inf, -np.inf], dtype=np.float32)
    np.testing.assert_array_equal(formats.rounded(far, name), [largest, -largest, largest, -largest])


def test_the_unsigned_zero_of_fnuz() -> None:
    assert formats.encode(np.array([-0.0, -1e-30], "f4"), "f8E4M3FNUZ").tolist() == [0, 0]
    assert formats.decode(np.array([1], "u1"), "f8E4M3B11FNUZ")[0] == 2.0**-13


def test_bfloat16_rounds_as_torch_does() -> None:
    bits = np.random.default_rng(3).integers(0, 2**32, 5000, dtype=np.uint64).astype(np.uint32)
    edges: Any = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x00008000]
    values = np.concatenate([bits, np.array(edges, dtype=np.uint32)]).view(np.float32)
    wanted = torch.from_numpy(values).to(torch.bfloat16).to(torch.float32).numpy()
    np.testing.assert_array_equal(formats.rounded(values, "bf16"), wanted)


@pytest.mark.parametrize("name", ["bf16", "f16", "f8E5M2"])
def test_towards_zero_never_grows(name: str) -> None:
    values = np.random.default_rng(4).standard_normal(2000).astype(np.float32)
    cut = formats.rounded(values, name, "rtz").astype(np.float64)
    assert (np.abs(cut) <= np.abs(values)).all()
    near = formats.rounded(values, name).astype(np.float64)
    assert (np.abs(cut - values) >= np.abs(near - values)).all()
    assert (cut != near).any()
