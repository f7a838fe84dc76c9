"""Matrices of 4, 6 and 8 bits, with scales and without, and sparse ones, against a plain product.

Source of what is expected: AMD Instinct CDNA4 ISA, "Matrix Arithmetic Instructions".
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.amd_gpu.isa import registers
from tests.native.amd_gpu.small_floats import FORMATS, as_bits, packed

pytestmark = pytest.mark.long  # builds the emulator's instructions apart

ARCH = "gfx950"
RNG = np.random.default_rng(128)
L = np.arange(64)


def k_of(name: str, side: int) -> np.ndarray:
    """Which k the 32 elements of each lane have: [64, 32]."""
    group, e = L[:, None] // side, np.arange(32)
    if FORMATS[name].bits == 8:
        return e // 16 * (64 // side * 16) + group * 16 + e % 16
    return group * 32 + e


@pytest.mark.parametrize("side", [16, 32])
@pytest.mark.parametrize("a_name", FORMATS)
@pytest.mark.parametrize("b_name", FORMATS)
def test_matrices_of_small_numbers(a_name: str, b_name: str, side: int) -> None:
    k_total, results = 64 // side * 32, side * side // 64
    values, registers_of = [], []
    for name in (a_name, b_name):
        form = FORMATS[name]
        # Few bits of mantissa, so that every sum is exact.
        codes = RNG.integers(0, 1 << form.bits, (side, k_total))
        codes = np.where(abs(form.values(codes)) <= 8, codes, 0)
        k = k_of(name, side)
        values.append(np.round(form.values(codes) * 16) / 16)
        codes = np.where(form.values(codes) == values[-1], codes, 0)
        values[-1] = form.values(codes)
        registers_of.append(packed(codes[L[:, None] % side, k], form.bits))
    count = [len(r) for r in registers_of]
    at = [64, 64 + count[0]]
    scales = RNG.integers(124, 131, (2, 4, 64))
    scale_words = (scales.astype(np.uint32) << np.uint32(8) * np.arange(4, dtype=np.uint32)[:, None]).sum(1)
    c = RNG.integers(-8, 8, (results, 64)).astype(np.float32)
    sources = np.concatenate([*registers_of, scale_words.astype(np.uint32), c.view(np.uint32)])
    first_c = at[1] + count[1] + 2
    formats = f"cbsz:{FORMATS[a_name].number} blgp:{FORMATS[b_name].number}"
    operands = (
        f"v[128:{127 + results}], v[{at[0]}:{at[0] + count[0] - 1}], v[{at[1]}:{at[1] + count[1] - 1}], "
        f"v[{first_c}:{first_c + results - 1}]"
    )
    shape = f"{side}x{side}x{k_total}"
    four = np.arange(results)[:, None] // 4 * (64 // side) + L // side
    place = (4 * four + np.arange(results)[:, None] % 4, np.broadcast_to(L % side, (results, 64)))

    got = registers(f"v_mfma_f32_{shape}_f8f6f4 {operands} {formats}", sources, results, ARCH)
    want = (values[0] @ values[1].T)[place] + c
    np.testing.assert_array_equal(got.view(np.float32), want)

    scale_at = at[1] + count[1]
    byte_a, byte_b = 2, 1
    text = (
        f"v_mfma_scale_f32_{shape}_f8f6f4 {operands}, v{scale_at}, v{scale_at + 1} "
        f"op_sel:[{byte_a & 1},{byte_b & 1},0] op_sel_hi:[{byte_a >> 1},{byte_b >> 1},0] {formats}"
    )
    got = registers(text, sources, results, ARCH)
    scaled = []
    for value, scale in zip(values, (scales[0, byte_a], scales[1, byte_b]), strict=True):
        power = 2.0 ** (scale.reshape(-1, side) - 127)  # [runs of 32 along k, row]
        scaled.append(value * np.repeat(power.T, 32, axis=1))
    np.testing.assert_allclose(
        got.view(np.float32), (scaled[0] @ scaled[1].T)[place] + c, rtol=1e-5, atol=1e-4
    )


SPARSE = [
    ("f16", "f32", 16, 32), ("f16", "f32", 32, 16), ("bf16", "f32", 16, 64), ("f16", "f32", 32, 32),
    ("i8", "i32", 16, 64), ("i8", "i32", 32, 64),
]  # fmt: skip


@pytest.mark.parametrize("kind,result,side,k_total", SPARSE)
def test_sparse_matrices(kind: str, result: str, side: int, k_total: int) -> None:
    groups, results = 64 // side, side * side // 64
    each = k_total // groups  # of B in a lane; half as many of A
    b = RNG.integers(-8, 8, (64, each))
    stored = RNG.integers(-8, 8, (64, each // 2))
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    chosen = pairs[RNG.integers(0, 6, (64, each // 4))].reshape(64, each // 2)
    dense = np.zeros((64, each), int)
    np.put_along_axis(dense, np.arange(each // 2) // 2 * 4 + chosen, stored, 1)
    sets = 32 // each
    which = sets - 1
    indices = (chosen.astype(np.uint32) << np.uint32(2) * np.arange(each // 2, dtype=np.uint32)).sum(1)
    index_word = (indices.astype(np.uint64) << np.uint64(which * each)).astype(np.uint32)
    if kind == "i8":
        a_words, b_words = packed(stored & 0xFF, 8), packed(b & 0xFF, 8)
    else:
        a_words, b_words = (packed(as_bits(m.astype(float), kind).astype(int), 16) for m in (stored, b))
    c = RNG.integers(-8, 8, (results, 64))
    c_words = c.astype(np.int32).view(np.uint32) if kind == "i8" else c.astype(np.float32).view(np.uint32)
    n_a, n_b = len(a_words), len(b_words)
    inputs = np.concatenate([a_words, b_words, [index_word], c_words])
    moves = "\n".join(f"v_mov_b32_e32 v{128 + r}, v{64 + n_a + n_b + 1 + r}" for r in range(results))
    text = (
        f"{moves}\nv_smfmac_{result}_{side}x{side}x{k_total}_{kind} v[128:{127 + results}], "
        f"v[64:{63 + n_a}], v[{64 + n_a}:{63 + n_a + n_b}], v{64 + n_a + n_b} abid:{which}"
    )
    got = registers(text, inputs, results, ARCH)
    rows = dense.reshape(groups, side, each).transpose(1, 0, 2).reshape(side, k_total)
    columns = b.reshape(groups, side, each).transpose(1, 0, 2).reshape(side, k_total)
    four = np.arange(results)[:, None] // 4 * groups + L // side
    place = (4 * four + np.arange(results)[:, None] % 4, np.broadcast_to(L % side, (results, 64)))
    want = (rows @ columns.T)[place] + c
    np.testing.assert_array_equal(got.view(np.int32 if kind == "i8" else np.float32), want)
