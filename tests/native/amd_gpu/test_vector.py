"""The vector unit: integers, floats, carries, comparisons and division, against NumPy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.native.amd_gpu.isa import floats, lanes, pairs

pytestmark = pytest.mark.long  # builds the emulator's instructions apart

RNG = np.random.default_rng(6)
A = RNG.integers(0, 1 << 32, 64, dtype=np.uint32)
B = RNG.integers(0, 1 << 32, 64, dtype=np.uint32)
C = RNG.integers(0, 1 << 32, 64, dtype=np.uint32)
A[:4] = [0, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF]
B[:4] = [0xFFFFFFFF, 1, 0xFFFFFFFF, 1]
SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.5,
        np.inf,
        -np.inf,
        np.nan,
        1e-40,
        3.4e38,
        -3.4e38,
        0.5,
        2.5,
        3.5,
        -2.5,
        1e10,
        2.0**-126,
    ]
    * 4,
    np.float32,
)
OTHER = np.repeat(SPECIAL[:16], 4)
U, S = A.astype(np.uint64), A.view(np.int32).astype(np.int64)
V, T = B.astype(np.uint64), B.view(np.int32).astype(np.int64)
W = C.astype(np.uint64)


def low(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)


INTEGERS = {
    "v_add_u32_e32 v40, v10, v12": U + V,
    "v_sub_u32_e32 v40, v10, v12": S - T,
    "v_subrev_u32_e32 v40, v10, v12": T - S,
    "v_add_u32_e64 v40, v10, v12 clamp": np.minimum(U + V, 0xFFFFFFFF),
    "v_sub_u32_e64 v40, v10, v12 clamp": np.where(U > V, U - V, 0),
    "v_add_i32 v40, v10, v12 clamp": np.clip(S + T, -(1 << 31), (1 << 31) - 1),
    "v_mul_lo_u32 v40, v10, v12": U * V,
    "v_mul_hi_u32 v40, v10, v12": (U * V) >> np.uint64(32),
    "v_mul_hi_i32 v40, v10, v12": (S * T) >> 32,
    "v_mul_i32_i24_e32 v40, v10, v12": ((S << 40) >> 40) * ((T << 40) >> 40),
    "v_mad_u32_u24 v40, v10, v12, v14": (U & np.uint64(0xFFFFFF)) * (V & np.uint64(0xFFFFFF)) + W,
    "v_min_i32_e32 v40, v10, v12": np.minimum(S, T),
    "v_max_u32_e32 v40, v10, v12": np.maximum(U, V),
    "v_lshlrev_b32_e32 v40, v10, v12": V << (U & np.uint64(31)),
    "v_ashrrev_i32_e32 v40, v10, v12": T >> (S & 31),
    "v_bfe_u32 v40, v10, 5, 9": (U >> np.uint64(5)) & np.uint64(511),
    "v_bfe_i32 v40, v10, 5, 9": ((S << 50) >> 55),
    "v_bfe_i32 v40, v10, 28, 9": S >> 28,
    "v_bfi_b32 v40, v10, v12, v14": (U & V) | (~U & W),
    "v_alignbit_b32 v40, v10, v12, 7": ((U << np.uint64(32) | V) >> np.uint64(7)) & np.uint64(0xFFFFFFFF),
    "v_alignbyte_b32 v40, v10, v12, 3": ((U << np.uint64(32) | V) >> np.uint64(24)) & np.uint64(0xFFFFFFFF),
    "v_lshl_add_u32 v40, v10, 3, v12": (U << np.uint64(3)) + V,
    "v_and_or_b32 v40, v10, v12, v14": (U & V) | W,
    "v_xad_u32 v40, v10, v12, v14": (U ^ V) + W,
    "v_sad_u32 v40, v10, v12, v14": np.abs(U.astype(np.int64) - V.astype(np.int64)) + W.astype(np.int64),
    "v_bcnt_u32_b32 v40, v10, v12": np.array([int(a).bit_count() for a in A]) + V.astype(np.int64),
    "v_ffbh_u32_e32 v40, v10": np.array([32 - int(a).bit_length() if a else -1 for a in A]),
    "v_ffbl_b32_e32 v40, v10": np.array([(int(a) & -int(a)).bit_length() - 1 for a in A]),
    "v_bfrev_b32_e32 v40, v10": np.array([int(f"{a:032b}"[::-1], 2) for a in A]),
    "s_mov_b32 s8, 0x0c0d0600\nv_perm_b32 v40, v10, v12, s8": (V & np.uint64(0xFF))
    | ((U >> np.uint64(16)) & np.uint64(255)) << np.uint64(8)
    | np.uint64(0xFF0000),
    "v_mad_u32_u16 v40, v10, v12, v14": (U & np.uint64(0xFFFF)) * (V & np.uint64(0xFFFF)) + W,
    "v_med3_i32 v40, v10, v12, v14": np.sort([S, T, C.view(np.int32).astype(np.int64)], axis=0)[1],
}


@pytest.mark.parametrize("text", INTEGERS)
def test_integers(text: str) -> None:
    np.testing.assert_array_equal(lanes(text, [A, B, C])[0], low(INTEGERS[text]))


def test_inactive_lanes_keep_what_they_had() -> None:
    result = lanes("v_mov_b32_e32 v40, v12\ns_mov_b64 exec, 0xf0\nv_mov_b32_e32 v40, v10", [A, B])[0]
    inside = (np.arange(64) // 4) == 1
    np.testing.assert_array_equal(result, np.where(inside, A, B))


def test_carry_chain_is_a_64_bit_sum() -> None:
    x, y = U << np.uint64(32) | V, W << np.uint64(32) | U
    text = (
        "v_add_co_u32_e32 v40, vcc, v10, v12\nv_addc_co_u32_e32 v41, vcc, v11, v13, vcc\n"
        "v_mov_b32_e32 v42, 0\nv_addc_co_u32_e32 v42, vcc, 0, v42, vcc"
    )
    result = lanes(text, [x, y], words=3)
    np.testing.assert_array_equal(pairs(result[:2], np.uint64), x + y)
    np.testing.assert_array_equal(result[2], (x + y < x).astype(np.uint32))
    text = "v_sub_co_u32_e32 v40, vcc, v10, v12\nv_subb_co_u32_e32 v41, vcc, v11, v13, vcc"
    np.testing.assert_array_equal(pairs(lanes(text, [x, y], words=2), np.uint64), x - y)


def test_wide_product_and_its_carry() -> None:
    x = W << np.uint64(32) | V
    text = "v_mad_u64_u32 v[40:41], vcc, v10, v12, v[14:15]\nv_cndmask_b32_e64 v42, 0, 1, vcc"
    result = lanes(text, [A, B, x], words=3)
    exact = [int(a) * int(b) + int(c) for a, b, c in zip(A, B, x, strict=True)]
    assert [int(v) for v in pairs(result[:2], np.uint64)] == [e & ((1 << 64) - 1) for e in exact]
    assert result[2].tolist() == [e >> 64 for e in exact]


def test_wide_shifts() -> None:
    x = U << np.uint64(32) | V
    shift = B & 63
    for text, want in (
        ("v_lshlrev_b64 v[40:41], v12, v[10:11]", x << shift.astype(np.uint64)),
        ("v_lshrrev_b64 v[40:41], v12, v[10:11]", x >> shift.astype(np.uint64)),
        (
            "v_ashrrev_i64 v[40:41], v12, v[10:11]",
            (x.view(np.int64) >> shift.astype(np.int64)).view(np.uint64),
        ),
    ):
        np.testing.assert_array_equal(pairs(lanes(text, [x, B], words=2), np.uint64), want)


@pytest.mark.parametrize("exec_mask", [None, 0xFF0FFFFF000000F1])
def test_wide_integers_of_each_kind_of_operand(exec_mask: int | None) -> None:
    """Registers, scalars and constants; results in their sources' place; some lanes."""
    x, y = U << np.uint64(32) | V, W << np.uint64(32) | U
    fixed = np.uint64(0x123456789ABCDEF1)
    start = "s_mov_b32 s20, 0x9abcdef1\ns_mov_b32 s21, 0x12345678\ns_mov_b32 s22, 37\n"
    start += "v_mov_b32_e32 v40, v10\nv_mov_b32_e32 v41, v11\n"
    if exec_mask is not None:
        start += f"s_mov_b32 exec_lo, {exec_mask & 0xFFFFFFFF:#x}\ns_mov_b32 exec_hi, {exec_mask >> 32:#x}\n"
    active = np.array([exec_mask is None or bool(exec_mask >> lane & 1) for lane in range(64)])
    shift, part = B.astype(np.uint64) & np.uint64(63), B.astype(np.uint64) & np.uint64(7)
    for text, want in (
        ("v_lshlrev_b64 v[40:41], s22, v[40:41]", x << np.uint64(37)),
        ("v_lshlrev_b64 v[40:41], 5, v[40:41]", x << np.uint64(5)),
        ("v_lshlrev_b64 v[40:41], v14, s[20:21]", fixed << shift),
        ("v_lshlrev_b64 v[40:41], v14, -1", np.uint64(0xFFFFFFFFFFFFFFFF) << shift),
        ("v_lshl_add_u64 v[40:41], v[12:13], v14, v[40:41]", (y << part) + x),
        ("v_lshl_add_u64 v[40:41], v[12:13], 2, s[20:21]", (y << np.uint64(2)) + fixed),
        ("v_lshl_add_u64 v[40:41], s[20:21], v14, v[12:13]", (fixed << part) + y),
        ("v_lshl_add_u64 v[40:41], v[12:13], 0, -1", y - np.uint64(1)),
    ):
        with np.errstate(over="ignore"):
            expected = np.where(active, want, x)
        got = lanes(start + text, [x, y, B], words=2, arch="gfx942")
        np.testing.assert_array_equal(pairs(got, np.uint64), expected, text)


REAL = {
    "v_add_f32_e32 v40, v10, v12": lambda a, b: a + b,
    "v_sub_f32_e32 v40, v10, v12": lambda a, b: a - b,
    "v_mul_f32_e64 v40, -v10, |v12|": lambda a, b: -a * np.abs(b),
    "v_add_f32_e64 v40, v10, v12 mul:2": lambda a, b: (a + b) * np.float32(2),
    "v_floor_f32_e32 v40, v10": lambda a, b: np.floor(a),
    "v_rndne_f32_e32 v40, v10": lambda a, b: np.rint(a),
    "v_trunc_f32_e32 v40, v10": lambda a, b: np.trunc(a),
    "v_fmac_f32_e32 v40, v10, v12": lambda a, b: (a.astype(np.float64) * b).astype(np.float32),
    "v_max_f32_e32 v40, v10, v12": np.fmax,
    "v_min_f32_e32 v40, v10, v12": np.fmin,
}


@pytest.mark.parametrize("text", REAL)
def test_floats(text: str) -> None:
    with np.errstate(all="ignore"):
        want = REAL[text](SPECIAL, OTHER).astype(np.float32)
    got = floats(lanes(f"v_mov_b32_e32 v40, 0\n{text}", [SPECIAL, OTHER])[0])
    np.testing.assert_array_equal(got, want)


def test_zeros_have_signs_in_min_and_max() -> None:
    plus, minus = np.zeros(64, np.float32), np.full(64, -0.0, np.float32)
    for text, sign in (("v_min_f32_e32 v40, v10, v12", True), ("v_max_f32_e32 v40, v10, v12", False)):
        for pair in ([plus, minus], [minus, plus]):
            assert (np.signbit(floats(lanes(text, pair)[0])) == sign).all()


def test_clamp_is_zero_to_one_and_no_nan() -> None:
    got = floats(lanes("v_add_f32_e64 v40, v10, 0 clamp", [SPECIAL])[0])
    np.testing.assert_array_equal(got, np.nan_to_num(np.clip(SPECIAL, 0, 1), nan=0))


@pytest.mark.parametrize(
    "relation", ["lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt"]
)
def test_float_comparisons_and_nan(relation: str) -> None:
    a, b = SPECIAL, OTHER
    base = {"lt": a < b, "eq": a == b, "le": a <= b, "gt": a > b, "ge": a >= b, "lg": (a < b) | (a > b)}
    base |= {"o": ~(np.isnan(a) | np.isnan(b)), "u": np.isnan(a) | np.isnan(b)}
    want = base[relation] if relation in base else ~base[relation[1:]]
    got = lanes(f"v_cmp_{relation}_f32_e32 vcc, v10, v12\nv_cndmask_b32_e64 v40, 0, 1, vcc", [a, b])[0]
    np.testing.assert_array_equal(got, want.astype(np.uint32))


def test_v_cmpx_sets_exec() -> None:
    got = lanes("v_mov_b32_e32 v40, 0\nv_cmpx_lt_i32_e32 vcc, v10, v12\nv_mov_b32_e32 v40, 1", [A, B])[0]
    np.testing.assert_array_equal(got, (S < T).astype(np.uint32))


def test_classes() -> None:
    got = lanes(
        "s_movk_i32 s8, 0x90\nv_cmp_class_f32_e64 vcc, v10, s8\nv_cndmask_b32_e64 v40, 0, 1, vcc", [SPECIAL]
    )[0]
    denormal = (np.abs(SPECIAL) < 2.0**-126) & (SPECIAL > 0)
    # Bit 4 is a negative denormal (there is none), bit 7 a positive one.
    np.testing.assert_array_equal(got, denormal.astype(np.uint32))


DIVISION = """v_div_scale_f32 v20, s[8:9], v12, v12, v10
v_div_scale_f32 v21, vcc, v10, v12, v10
v_rcp_f32_e32 v22, v20
v_fma_f32 v23, -v20, v22, 1.0
v_fmac_f32_e32 v22, v23, v22
v_mul_f32_e32 v23, v21, v22
v_fma_f32 v24, -v20, v23, v21
v_fmac_f32_e32 v23, v24, v22
v_fma_f32 v20, -v20, v23, v21
v_div_fmas_f32 v20, v20, v22, v23
v_div_fixup_f32 v40, v20, v12, v10"""


def test_the_division_sequence_of_the_compiler_rounds_once() -> None:
    for round_number in range(8):
        random = np.random.default_rng(round_number)
        a = random.integers(0, 1 << 32, 64, dtype=np.uint32).view(np.float32)
        b = random.integers(0, 1 << 32, 64, dtype=np.uint32).view(np.float32)
        if round_number == 0:
            a, b = SPECIAL, OTHER
        with np.errstate(all="ignore"):
            want = a / b
        np.testing.assert_array_equal(floats(lanes(DIVISION, [a, b])[0]), want)


def test_doubles() -> None:
    a = RNG.standard_normal(64) * 1e100
    b = RNG.standard_normal(64)
    for text, want in (
        ("v_add_f64 v[40:41], v[10:11], -v[12:13]", a - b),
        ("v_mul_f64 v[40:41], v[10:11], v[12:13]", a * b),
        ("v_fma_f64 v[40:41], v[10:11], v[12:13], 1.0", a * b + 1),
        ("v_max_f64 v[40:41], v[10:11], |v[12:13]|", np.fmax(a, np.abs(b))),
        ("v_ldexp_f64 v[40:41], v[12:13], 5", b * 32),
    ):
        np.testing.assert_array_equal(pairs(lanes(text, [a, b], words=2), np.float64), want)


def test_trigonometric_digits_of_two_over_pi() -> None:
    """v_trig_preop_f64 gives 53 bits of 2/pi from a place on: added up, they are 2/pi."""
    text = "v_mov_b32_e32 v20, 0\nv_mov_b32_e32 v21, 0x3ff00000\n"
    text += "\n".join(f"v_trig_preop_f64 v[{40 + 2 * k}:{41 + 2 * k}], v[20:21], {k}" for k in range(3))
    result = lanes(text, [], words=6)
    parts = [float(pairs(result[2 * k : 2 * k + 2], np.float64)[0]) for k in range(3)]
    assert (
        parts[0] == pytest.approx(2 / np.pi, abs=1e-15) and 0 < parts[1] < 2.0**-53 and parts[2] < 2.0**-106
    )
    # Long enough a value of pi to check 159 bits.
    pi = Fraction(31415926535897932384626433832795028841971693993751058209749445923078164, 10**70)
    assert abs(sum(map(Fraction, parts)) - 2 / pi) < Fraction(1, 1 << 158)
