"""Parts of registers and other lanes: halves, packed results, SDWA, DPP, permutations, conversions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.amd_gpu.isa import floats, lanes

pytestmark = pytest.mark.long  # builds the emulator's instructions apart

RNG = np.random.default_rng(16)
A = RNG.integers(0, 1 << 32, 64, dtype=np.uint32)
B = RNG.integers(0, 1 << 32, 64, dtype=np.uint32)
LANE = np.arange(64)
HALVES_A = RNG.standard_normal((64, 2)).astype(np.float16)
HALVES_B = RNG.standard_normal((64, 2)).astype(np.float16)
WORDS_A = HALVES_A.view(np.uint32).reshape(64)
WORDS_B = HALVES_B.view(np.uint32).reshape(64)


def halves(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words).view(np.float16).reshape(64, 2)


def test_packed_halves_and_their_selection() -> None:
    got = halves(lanes("v_pk_add_f16 v40, v10, v12", [WORDS_A, WORDS_B])[0])
    np.testing.assert_array_equal(got, HALVES_A + HALVES_B)
    got = halves(
        lanes("v_pk_mul_f16 v40, v10, v12 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0]", [WORDS_A, WORDS_B])[0]
    )
    np.testing.assert_array_equal(got[:, 0], -HALVES_A[:, 1] * HALVES_B[:, 0])
    np.testing.assert_array_equal(got[:, 1], HALVES_A[:, 0] * HALVES_B[:, 1])


def test_half_fma_rounds_once() -> None:
    # 1 + 2^-10 squared is 1 + 2^-9 + 2^-20: added to 2^-11 it must round up, which a rounded product loses.
    a = np.full(64, np.array([1 + 2.0**-10], np.float16).view(np.uint16)[0], np.uint32)
    c = np.full(64, np.array([2.0**-11], np.float16).view(np.uint16)[0], np.uint32)
    got = lanes("v_fma_f16 v40, v10, v10, v12", [a, c])[0].astype(np.uint16).view(np.float16)
    assert (got == np.float16(1 + 2.0**-9 + 2.0**-10)).all()


def test_16_bit_results_clear_or_keep_the_upper_half() -> None:
    cleared = lanes("v_mov_b32_e32 v40, -1\nv_add_u16_e32 v40, v10, v12", [A, B])[0]
    np.testing.assert_array_equal(cleared, (A + B) & 0xFFFF)
    kept = lanes("v_mov_b32_e32 v40, -1\nv_mad_u16 v40, v10, v12, 0", [A, B])[0]
    np.testing.assert_array_equal(kept, 0xFFFF0000 | (A * B & 0xFFFF))
    upper = lanes("v_mov_b32_e32 v40, v12\nv_mad_u16 v40, v10, 1, 0 op_sel:[1,0,0,1]", [A, B])[0]
    np.testing.assert_array_equal(upper, (A & 0xFFFF0000) | (B & 0xFFFF))


def test_packed_integers_saturate_only_with_clamp() -> None:
    a, b = A.view(np.int16).reshape(64, 2).astype(int), B.view(np.int16).reshape(64, 2).astype(int)
    wraps = lanes("v_pk_add_i16 v40, v10, v12", [A, B])[0].view(np.int16).reshape(64, 2)
    np.testing.assert_array_equal(wraps, (a + b).astype(np.int16))
    clamps = lanes("v_pk_add_i16 v40, v10, v12 clamp", [A, B])[0].view(np.int16).reshape(64, 2)
    np.testing.assert_array_equal(clamps, np.clip(a + b, -32768, 32767))


def test_packed_floats_take_register_pairs() -> None:
    x, y = RNG.standard_normal((2, 64, 2)).astype(np.float32)
    packs = [np.ascontiguousarray(v).view(np.uint64).reshape(64) for v in (x, y)]
    got = floats(
        lanes("v_pk_fma_f32 v[40:41], v[10:11], v[12:13], v[12:13] op_sel_hi:[0,1,1]", packs, words=2)
    )
    want = (x[:, :1].astype(np.float64) * y + y).astype(np.float32)
    np.testing.assert_array_equal(got.T, want)


def test_sdwa_selects_bytes_and_places_them() -> None:
    text = "v_add_u32_sdwa v40, v10, v12 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1"
    np.testing.assert_array_equal(lanes(text, [A, B])[0], (A >> 8 & 0xFF) + (B >> 16))
    text = (
        "v_mov_b32_e32 v40, v12\n"
        "v_mov_b32_sdwa v40, v10 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0"
    )
    np.testing.assert_array_equal(lanes(text, [A, B])[0], (B & 0xFF00FFFF) | (A & 0xFF) << 16)
    text = "v_mov_b32_sdwa v40, sext(v10) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3"
    np.testing.assert_array_equal(lanes(text, [A])[0].view(np.int32), A.view(np.int32) >> 24)


ROW = LANE & ~15
DPP = {
    "quad_perm:[1,0,3,2]": LANE ^ 1,
    "row_shr:3": np.where(LANE % 16 >= 3, LANE - 3, -1),
    "row_shl:2": np.where(LANE % 16 < 14, LANE + 2, -1),
    "row_ror:5": ROW + (LANE - 5) % 16,
    "row_mirror": ROW + 15 - LANE % 16,
    "row_half_mirror": (LANE & ~7) + 7 - LANE % 8,
    "row_bcast:15": np.where(LANE >= 16, ROW - 1, -1),
    "row_bcast:31": np.where(LANE >= 32, 31, -1),
    "wave_shr:1": LANE - 1,
    "row_newbcast:4": ROW + 4,
}


@pytest.mark.parametrize("control", DPP)
def test_dpp(control: str) -> None:
    source = DPP[control]
    text = f"v_mov_b32_e32 v40, v12\ns_nop 1\nv_mov_b32_dpp v40, v10 {control} row_mask:0xf bank_mask:0xf"
    np.testing.assert_array_equal(lanes(text, [A, B])[0], np.where(source >= 0, A[source], B))
    zero = lanes(f"{text} bound_ctrl:0", [A, B])[0]
    np.testing.assert_array_equal(zero, np.where(source >= 0, A[source], 0))


def test_dpp_masks_rows_and_banks_and_knows_inactive_lanes() -> None:
    text = "v_mov_b32_e32 v40, v12\ns_nop 1\nv_add_u32_dpp v40, v10, v12 row_shr:1 row_mask:0xa bank_mask:0x3"
    written = ((LANE // 16) % 2 == 1) & (LANE // 4 % 4 < 2) & (LANE % 16 >= 1)
    np.testing.assert_array_equal(lanes(text, [A, B])[0], np.where(written, A[LANE - 1] + B, B))
    text = (
        "v_mov_b32_e32 v40, v12\ns_mov_b32 exec_lo, 0xfffffffe\n"
        "v_mov_b32_dpp v40, v10 quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0xf"
    )
    want = np.where(LANE < 4, B, A[LANE & ~3])
    np.testing.assert_array_equal(lanes(text, [A, B])[0], want)


def test_permutations() -> None:
    where = (RNG.permutation(64) * 4).astype(np.uint32)
    np.testing.assert_array_equal(lanes("ds_bpermute_b32 v40, v10, v12", [where, B])[0], B[where // 4])
    forward = np.zeros(64, np.uint32)
    forward[where // 4] = B
    np.testing.assert_array_equal(lanes("ds_permute_b32 v40, v10, v12", [where, B])[0], forward)
    np.testing.assert_array_equal(
        lanes('ds_swizzle_b32 v40, v12 offset:swizzle(BITMASK_PERM, "0p1i0")', [A, B])[0],
        B[(LANE & 0x20) | ((LANE & 0b01010) | 0b00100) ^ 0b00010],
    )
    np.testing.assert_array_equal(
        lanes("ds_swizzle_b32 v40, v12 offset:swizzle(QUAD_PERM, 3, 2, 1, 0)", [A, B])[0], B[LANE ^ 3]
    )


def test_lanes_and_scalars() -> None:
    text = (
        "v_readlane_b32 s8, v10, 17\nv_readfirstlane_b32 s9, v10\nv_mov_b32_e32 v40, s8\n"
        "v_writelane_b32 v40, s9, 5"
    )
    want = np.full(64, A[17])
    want[5] = A[0]
    np.testing.assert_array_equal(lanes(text, [A])[0], want)
    text = "v_mbcnt_lo_u32_b32 v40, -1, 0\nv_mbcnt_hi_u32_b32 v40, -1, v40"
    np.testing.assert_array_equal(lanes(text, [])[0], LANE)


def test_registers_that_m0_chooses() -> None:
    text = "s_mov_b32 s8, 2\ns_set_gpr_idx_on s8, gpr_idx(SRC0)\nv_mov_b32_e32 v40, v10\ns_set_gpr_idx_off"
    np.testing.assert_array_equal(lanes(text, [A, B])[0], B)


def test_conversions_saturate() -> None:
    x = np.array(
        [0.0, -0.0, 1.5, -1.5, 2.5, 3e9, -3e9, 5e9, np.inf, -np.inf, np.nan, 0.999, -0.999, 1e-30, 7, -7] * 4,
        np.float32,
    )
    with np.errstate(all="ignore"):
        signed = np.nan_to_num(
            np.clip(np.trunc(x.astype(np.float64)), -(1 << 31), (1 << 31) - 1), nan=0
        ).astype(np.int32)
        unsigned = np.nan_to_num(np.clip(np.trunc(x.astype(np.float64)), 0, (1 << 32) - 1), nan=0).astype(
            np.uint32
        )
    np.testing.assert_array_equal(lanes("v_cvt_i32_f32_e32 v40, v10", [x])[0].view(np.int32), signed)
    np.testing.assert_array_equal(lanes("v_cvt_u32_f32_e32 v40, v10", [x])[0], unsigned)


def test_float_to_half_rounds_to_nearest_or_to_zero() -> None:
    x = (RNG.standard_normal(64) * 1000).astype(np.float32)
    nearest = lanes("v_cvt_f16_f32_e32 v40, v10", [x])[0].astype(np.uint16).view(np.float16)
    np.testing.assert_array_equal(nearest, x.astype(np.float16))
    cut = halves(lanes("v_cvt_pkrtz_f16_f32 v40, v10, -v10", [x])[0])
    assert (np.abs(cut[:, 0].astype(np.float32)) <= np.abs(x)).all()
    np.testing.assert_array_equal(cut[:, 1], -cut[:, 0])
    assert (np.abs(cut[:, 0].astype(np.float64) - x) < np.spacing(np.abs(cut[:, 0]))).all()


@pytest.mark.parametrize("name,exponents", [("fp8", 4), ("bf8", 5)])
def test_8_bit_floats_are_fnuz(name: str, exponents: int) -> None:
    codes = np.arange(256, dtype=np.uint32).reshape(4, 64)
    mantissas = 7 - exponents
    bias = 1 << (exponents - 1)
    values = []
    for code in range(256):
        exponent, mantissa = code >> mantissas & ((1 << exponents) - 1), code & ((1 << mantissas) - 1)
        size = (mantissa + (1 << mantissas if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - mantissas)
        values.append(np.nan if code == 0x80 else -size if code & 0x80 else size)
    for row, code in enumerate(codes):
        got = floats(lanes(f"v_cvt_f32_{name}_e32 v40, v10", [code], arch="gfx942")[0])
        np.testing.assert_array_equal(got, np.array(values[64 * row : 64 * row + 64], np.float32))
    # Each finite value comes back; between two neighbours the nearer one, and the even one at equal distance.
    for row, code in enumerate(codes):
        x = np.array(values[64 * row : 64 * row + 64], np.float32)
        back = lanes(f"v_mov_b32_e32 v40, 0\nv_cvt_pk_{name}_f32 v40, v10, v12", [x, -x], arch="gfx942")[0]
        np.testing.assert_array_equal(back & 0xFF, code)
    table = np.array(values[:128])
    middle = ((table[:-1] + table[1:]) / 2).astype(np.float32)[:64]
    got = (
        lanes(f"v_mov_b32_e32 v40, 0\nv_cvt_pk_{name}_f32 v40, v10, v12", [middle, middle], arch="gfx942")[0]
        & 0xFF
    )
    np.testing.assert_array_equal(got, np.where(LANE % 2 == 0, LANE, LANE + 1))
    too_large = np.full(64, 1e9, np.float32)
    got = lanes(f"v_cvt_pk_{name}_f32 v40, v10, v10", [too_large], arch="gfx942")[0]
    assert (got & 0xFF == 0x80).all()
