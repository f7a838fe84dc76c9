"""v_cvt_scalef32_* of gfx950: every type, part and way of rounding, against the formats' definition.

Source of what is expected: AMD Instinct CDNA4 ISA, "Converts with Scale".
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.amd_gpu.isa import lanes, registers
from tests.native.amd_gpu.small_floats import (
    FORMATS,
    as_bits,
    as_numbers,
    following,
    halves,
    joined,
    unpacked,
)

pytestmark = pytest.mark.long  # builds the emulator's instructions apart

ARCH = "gfx950"
RNG = np.random.default_rng(4)
EIGHT, SIX = ("fp8", "bf8"), ("fp6", "bf6")


def words(count: int) -> np.ndarray:
    return RNG.integers(0, 1 << 32, (count, 64), dtype=np.uint32)


def close_to(name: str, count: int, kind: str, scale: int) -> np.ndarray:
    """Numbers around those of a format, times 2^scale: halfway, a little beside, too large, zero."""
    form = FORMATS[name]
    codes = RNG.integers(0, form.top, (count, 64))
    low, high = form.values(codes), form.values(codes + 1)
    share = RNG.choice([0, 0.25, 0.5, 0.75, 1, 0.49, 0.51, 4], (count, 64))
    signs = RNG.choice([-1, 1], (count, 64))
    return as_numbers(as_bits((low + share * (high - low)) * signs * 2.0**scale, kind), kind)


SCALE = 3  # 2^3, whose mantissa does not count: v_mov of 0x41200000, which is 10.0
SET_SCALE = "v_mov_b32_e32 v4, 0x41200000\n"
CLEARED, FILLED = (f"{SET_SCALE}v_mov_b32_e32 v128, {old}\n" for old in (0, -1))


def codes_of(
    name: str, numbers: np.ndarray, seeds: np.ndarray | None = None, mantissa: int = 23
) -> np.ndarray:
    form = FORMATS[name]
    at = np.ndindex(numbers.shape)
    made = [form.code(numbers[k] / 2**SCALE, None if seeds is None else int(seeds[k]), mantissa) for k in at]
    return np.array(made).reshape(numbers.shape)


MANTISSA = {"f32": 23, "f16": 10, "bf16": 7}
TYPES = tuple(MANTISSA)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", EIGHT)
def test_eight_bits_are_read(name: str, kind: str) -> None:
    source = words(1)
    codes = unpacked(source, 8)
    want = as_numbers(as_bits(FORMATS[name].values(codes) * 2**SCALE, kind), kind)
    for half in range(2):
        to = "v[128:129]" if kind == "f32" else "v128"
        text = f"{SET_SCALE}v_cvt_scalef32_pk_{kind}_{name} {to}, v64, v4 op_sel:[{half},0,0]"
        got = registers(text, source, 2, ARCH)
        got = got if kind == "f32" else halves(got[:1])
        np.testing.assert_array_equal(as_numbers(got, kind), want[:, 2 * half : 2 * half + 2].T)
    if kind == "bf16":
        return
    for byte in range(4):
        half = byte % 2 if kind == "f16" else 0
        text = f"{FILLED}v_cvt_scalef32_{kind}_{name} v128, v64, v4 op_sel:[{byte & 1},{byte >> 1},{half}]"
        got = registers(text, source, 1, ARCH)
        if kind == "f16":
            assert (halves(got)[1 - half] == 0xFFFF).all()
            got = halves(got)[half : half + 1]
        np.testing.assert_array_equal(as_numbers(got, kind)[0], want[:, byte])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", EIGHT)
def test_eight_bits_are_written(name: str, kind: str) -> None:
    numbers = close_to(name, 2, kind, SCALE)
    want = codes_of(name, numbers)
    bits = as_bits(numbers, kind).astype(np.uint32)
    for half in range(2):
        sources, select = ("v64, v65", f"[0,0,0,{half}]") if kind == "f32" else ("v64", f"[0,0,{half}]")
        text = f"{FILLED}v_cvt_scalef32_pk_{name}_{kind} v128, {sources}, v4 op_sel:{select}"
        got = halves(registers(text, bits if kind == "f32" else joined(bits), 1, ARCH))
        np.testing.assert_array_equal(got[half], want[0] | want[1] << 8)
        assert (got[1 - half] == 0xFFFF).all()
    seeds = words(1)
    want = codes_of(name, numbers[:1], seeds, MANTISSA[kind])
    for byte in range(4):
        select = f"[0,0,{byte & 1},{byte >> 1}]"
        text = f"{CLEARED}v_cvt_scalef32_sr_{name}_{kind} v128, v64, v65, v4 op_sel:{select}"
        got = registers(text, np.concatenate([bits[:1], seeds]), 1, ARCH)
        np.testing.assert_array_equal(got[0], want[0].astype(np.uint32) << np.uint32(8 * byte))


@pytest.mark.parametrize("kind", TYPES)
def test_four_bits(kind: str) -> None:
    source = words(1)
    want = FORMATS["fp4"].values(unpacked(source, 4)) * 2**SCALE
    numbers = close_to("fp4", 2, kind, SCALE)
    bits = as_bits(numbers, kind).astype(np.uint32)
    seeds = words(1)
    plain = codes_of("fp4", numbers)
    random = codes_of("fp4", numbers, np.concatenate([seeds, following(seeds)]), MANTISSA[kind])
    given = bits if kind == "f32" else joined(bits)
    for byte in range(4):
        select = f"{byte & 1},{byte >> 1}"
        to = "v[128:129]" if kind == "f32" else "v128"
        got = registers(
            f"{SET_SCALE}v_cvt_scalef32_pk_{kind}_fp4 {to}, v64, v4 op_sel:[{select},0]", source, 2, ARCH
        )
        got = got if kind == "f32" else halves(got[:1])
        np.testing.assert_array_equal(as_numbers(got, kind), want[:, 2 * byte : 2 * byte + 2].T)
        sources = "v64, v65" if kind == "f32" else "v64"
        text = f"{CLEARED}v_cvt_scalef32_pk_fp4_{kind} v128, {sources}, v4 op_sel:[0,0,{select}]"
        got = registers(text, given, 1, ARCH)
        np.testing.assert_array_equal(got[0] >> (8 * byte), plain[0] | plain[1] << 4)
        sources = "v[64:65], v66" if kind == "f32" else "v64, v65"
        text = f"{CLEARED}v_cvt_scalef32_sr_pk_fp4_{kind} v128, {sources}, v4 op_sel:[0,0,{select}]"
        got = registers(text, np.concatenate([given, seeds]), 1, ARCH)
        np.testing.assert_array_equal(got[0] >> (8 * byte), random[0] | random[1] << 4)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", SIX)
def test_six_bits(name: str, kind: str) -> None:
    source = words(6)
    want = FORMATS[name].values(unpacked(source, 6)) * 2**SCALE
    count = 32 if kind == "f32" else 16
    text = f"{SET_SCALE}v_cvt_scalef32_pk32_{kind}_{name} v[128:{127 + count}], v[64:69], v4"
    got = registers(text, source, count, ARCH)
    np.testing.assert_array_equal(as_numbers(got if kind == "f32" else halves(got), kind), want.T)
    numbers = close_to(name, 32, kind, SCALE)
    bits = as_bits(numbers, kind).astype(np.uint32)
    given = bits if kind == "f32" else joined(bits)
    codes = codes_of(name, numbers)
    if kind == "f32":  # even numbers from the first source, odd ones from the second
        text = f"v_cvt_scalef32_2xpk16_{name}_f32 v[128:133], v[64:79], v[80:95], v4"
        got = registers(SET_SCALE + text, np.concatenate([given[0::2], given[1::2]]), 6, ARCH)
    else:
        text = f"v_cvt_scalef32_pk32_{name}_{kind} v[128:133], v[64:79], v4"
        got = registers(SET_SCALE + text, given, 6, ARCH)
    np.testing.assert_array_equal(unpacked(got, 6), codes.T)
    seeds = [words(1)[0]]
    for _ in range(31):
        seeds.append(following(seeds[-1]))
    last = 63 + count
    text = f"v_cvt_scalef32_sr_pk32_{name}_{kind} v[128:133], v[64:{last}], v{last + 1}, v4"
    got = registers(SET_SCALE + text, np.concatenate([given, [seeds[0]]]), 6, ARCH)
    np.testing.assert_array_equal(
        unpacked(got, 6), codes_of(name, numbers, np.array(seeds), MANTISSA[kind]).T
    )


def test_eight_bit_numbers_are_those_of_ocp_without_a_scale_too() -> None:
    source = words(1)
    for name in EIGHT:
        got = lanes(f"v_cvt_f32_{name}_e32 v40, v10", [source[0]], arch=ARCH)
        np.testing.assert_array_equal(got.view(np.float32)[0], FORMATS[name].values(source[0] & 0xFF))
        large = np.full(64, 1e9, np.float32)
        text = f"v_mov_b32_e32 v40, 0\nv_cvt_pk_{name}_f32 v40, v10, v10"
        assert (lanes(text, [large], arch=ARCH)[0] == 0x101 * FORMATS[name].too_large).all()
        overflow = f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n{text}"
        assert (lanes(overflow, [large], arch=ARCH)[0] == 0x101 * FORMATS[name].top).all()


def test_a_scale_that_is_no_number() -> None:
    text = "v_mov_b32_e32 v4, 0x7f800000\nv_cvt_scalef32_pk_f32_fp8 v[128:129], v64, v4"
    assert np.isnan(registers(text, words(1), 2, ARCH).view(np.float32)).all()
