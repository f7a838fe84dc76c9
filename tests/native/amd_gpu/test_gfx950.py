"""What gfx950 has beyond gfx942 and is in no other file, against models in NumPy.

Source of what is expected: AMD Instinct CDNA4 ISA.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.amd_gpu.isa import lanes, registers, run_code
from tests.native.amd_gpu.small_floats import as_bits, as_numbers, following, halves, joined, unpacked

pytestmark = pytest.mark.long  # builds the emulator's instructions apart

ARCH = "gfx950"
RNG = np.random.default_rng(950)


def words(count: int) -> np.ndarray:
    return RNG.integers(0, 1 << 32, (count, 64), dtype=np.uint32)


def test_bitop3_takes_any_table() -> None:
    a, b, c = words(3)
    bits = np.arange(32)
    at = [(x[:, None] >> bits & 1).astype(int) for x in (a, b, c)]
    for table in (0x96, 0x6C, 0x27, 0xE8, 0x01, 0x80, 0xCA, 0x1B):
        want = ((table >> (4 * at[0] + 2 * at[1] + at[2]) & 1) << bits).sum(1).astype(np.uint32)
        got = lanes(f"v_bitop3_b32 v40, v10, v12, v14 bitop3:{table:#x}", [a, b, c], arch=ARCH)
        np.testing.assert_array_equal(got[0], want)
        text = f"v_mov_b32_e32 v40, 7\nv_bitop3_b16 v40, v10, v12, v14 bitop3:{table:#x} op_sel:[1,1,1,1]"
        got = lanes(text, [a, b, c], arch=ARCH)[0]
        np.testing.assert_array_equal(got, want >> 16 << 16 | 7)


def test_small_integers_and_minima() -> None:
    a, b, by = words(3)
    for kind, low, high in (("i8", -128, 127), ("u8", 0, 255)):
        shifted = [(x.view(np.int32) >> (by & 31).view(np.int32)).clip(low, high) & 0xFF for x in (a, b)]
        got = lanes(
            f"v_mov_b32_e32 v40, 0\nv_ashr_pk_{kind}_i32 v40, v10, v12, v14 op_sel:[0,0,0,1]",
            [a, b, by],
            arch=ARCH,
        )
        np.testing.assert_array_equal(
            got[0], (shifted[0] | shifted[1] << 8).astype(np.uint32) << np.uint32(16)
        )
    np.testing.assert_array_equal(lanes("v_prng_b32_e32 v40, v10", [a], arch=ARCH)[0], following(a))
    x, y, z = RNG.standard_normal((3, 64)).astype(np.float32)
    x[:8] = np.nan
    for name, expected in (("minimum", np.minimum), ("maximum", np.maximum)):
        got = lanes(f"v_{name}3_f32 v40, v10, -v12, |v14|", [x, y, z], arch=ARCH).view(np.float32)[0]
        np.testing.assert_array_equal(got, expected(expected(x, -y), abs(z)))
        small = [v.astype(np.float16) for v in (x, y, z)]
        packs = [v.view(np.uint16).astype(np.uint32) * 0x10001 for v in small]
        got = halves(lanes(f"v_pk_{name}3_f16 v40, v10, v12, v14", packs, arch=ARCH))
        want = expected(expected(*small[:2]), small[2])
        np.testing.assert_array_equal(as_numbers(got, "f16"), [want, want])


def test_sixteen_bit_floats() -> None:
    x, y = RNG.standard_normal((2, 64)).astype(np.float32)
    x[:3] = 1.00390625, 1.01171875, np.nan  # two ties
    seed = words(1)[0]

    def bf16(v: np.ndarray) -> np.ndarray:
        low = v.view(np.uint32).astype(np.int64)
        rounded = (low + 0x7FFF + (low >> 16 & 1)) >> 16
        return np.where(np.isnan(v), 0x7FC0, rounded)

    got = halves(lanes("v_cvt_pk_bf16_f32 v40, v10, v12", [x, y], arch=ARCH))
    np.testing.assert_array_equal(got, [bf16(x), bf16(y)])
    got = halves(lanes("v_cvt_pk_f16_f32 v40, v10, v12", [x, y], arch=ARCH))
    np.testing.assert_array_equal(as_numbers(got, "f16"), [x.astype(np.float16), y.astype(np.float16)])
    assert (lanes("v_cvt_f32_bf16_e32 v40, v10", [seed], arch=ARCH)[0] == seed << 16).all()
    text = "v_cvt_f32_bf16_sdwa v40, v10 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1"
    assert (lanes(text, [seed], arch=ARCH)[0] == seed & 0xFFFF0000).all()
    text = "v_mov_b32_e32 v40, 5\nv_cvt_sr_bf16_f32 v40, v10, v12 op_sel:[0,0,1]"
    got = lanes(text, [y, seed], arch=ARCH)[0]
    want = (y.view(np.uint32).astype(np.int64) + (seed >> 16)) >> 16
    np.testing.assert_array_equal(got, want.astype(np.uint32) << np.uint32(16) | 5)
    got = lanes("v_mov_b32_e32 v40, 0\nv_cvt_sr_f16_f32 v40, v10, v12", [y, seed], arch=ARCH)[0]
    cut = ((y.view(np.uint32).astype(np.int64) + (seed >> 19)) >> 13 << 13).astype(np.uint32).view(np.float32)
    normal = abs(y) > 1e-4
    np.testing.assert_array_equal(as_numbers(got, "f16")[normal], cut.astype(np.float16)[normal])


def test_bf16_dot_products() -> None:
    a, b = RNG.integers(-64, 64, (2, 2, 64)).astype(np.float64)
    c = RNG.integers(-64, 64, 64).astype(np.float32)
    packs = [joined(as_bits(v, "bf16"))[0] for v in (a, b)]
    got = lanes("v_dot2_f32_bf16 v40, v10, v12, v14", [*packs, c], arch=ARCH).view(np.float32)[0]
    np.testing.assert_array_equal(got, (a * b).sum(0) + c)
    text = "v_mov_b32_e32 v40, v14\nv_dot2c_f32_bf16_e32 v40, v10, v12"
    np.testing.assert_array_equal(lanes(text, [*packs, c], arch=ARCH).view(np.float32)[0], (a * b).sum(0) + c)


@pytest.mark.parametrize("row", [16, 32])
def test_rows_are_swapped(row: int) -> None:
    first, second = words(2)
    text = f"v_mov_b32_e32 v40, v10\nv_mov_b32_e32 v41, v12\nv_permlane{row}_swap_b32_e32 v40, v41"
    got = lanes(text, [first, second], words=2, arch=ARCH)
    x, y = first.reshape(-1, row).copy(), second.reshape(-1, row).copy()
    x[1::2], y[0::2] = y[0::2].copy(), x[1::2].copy()
    np.testing.assert_array_equal(got, [x.reshape(64), y.reshape(64)])
    # Half of the lanes: what would come from others stays as it was.
    got = lanes(text.replace("v_perm", "s_mov_b64 exec, 0xff\nv_perm"), [first, second], words=2, arch=ARCH)
    np.testing.assert_array_equal(got, [first, second])


@pytest.mark.parametrize("bits", [4, 6, 8, 16])
def test_transposing_reads(bits: int) -> None:
    count = 3 if bits == 6 else 2
    source = words(count)
    each = 32 * count // bits
    writes = "\n".join(f"ds_write_b32 v3, v{64 + k} offset:{4 * k}" for k in range(count))
    name = "ds_read_b96_tr_b6" if bits == 6 else f"ds_read_b64_tr_b{bits}"
    text = f"v_lshlrev_b32_e32 v3, 4, v0\n{writes}\n{name} v[128:{127 + count}], v3"
    got = unpacked(registers(text, source, count, ARCH, lds=1024), bits)
    # Each 16 lanes have a matrix with 16 columns, row by row; a lane gets a column.
    matrix = unpacked(source, bits).reshape(4, each, 16)
    np.testing.assert_array_equal(got.reshape(4, 16, each), matrix.transpose(0, 2, 1))


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("way", ["global", "buffer"])
def test_wide_loads_into_lds(way: str, count: int) -> None:
    source = words(count)
    lane_data = np.ascontiguousarray(source.T)  # lane by lane, as they are read
    start = f"s_mov_b32 m0, 64\nv_mul_u32_u24_e32 v3, {4 * count}, v0\n"
    if way == "global":
        load = f"global_load_lds_dwordx{count} v3, s[4:5]\n"
    else:
        load = (
            "s_mov_b32 s8, s4\ns_mov_b32 s9, s5\ns_mov_b32 s10, -1\ns_mov_b32 s11, 0\n"
            f"buffer_load_dwordx{count} v3, s[8:11], 0 offen lds\n"
        )
    reads = "\n".join(f"ds_read_b32 v{128 + k}, v3 offset:{64 + 4 * k}" for k in range(count))
    got = registers(start + load + reads, lane_data.reshape(count, 64), count, ARCH, lds=2048)
    np.testing.assert_array_equal(got, source)


def test_lds_has_160_kib() -> None:
    text = "v_mov_b32_e32 v3, 0x27ffc\nds_write_b32 v3, v0\nds_read_b32 v4, v3"
    assert run_code(text, ARCH, lds=160 << 10).fault == "none"
    assert run_code(text, ARCH, lds=(160 << 10) - 4).fault == "aperture"
