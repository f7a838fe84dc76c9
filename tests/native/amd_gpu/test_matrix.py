"""MFMA against a plain product of matrices, and dot products.

Layouts: AMD's matrix instruction calculator.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.amd_gpu.isa import lanes

pytestmark = pytest.mark.long  # builds the emulator's instructions apart

RNG = np.random.default_rng(32)
L = np.arange(64)

# arch, instruction, side, k, blocks, bits of an element
FORMS = [
    ("gfx90a", "v_mfma_f32_32x32x8f16", 32, 8, 1, "f16"),
    ("gfx90a", "v_mfma_f32_16x16x16f16", 16, 16, 1, "f16"),
    ("gfx90a", "v_mfma_f32_4x4x4f16", 4, 4, 16, "f16"),
    ("gfx90a", "v_mfma_f32_16x16x4f16", 16, 4, 4, "f16"),
    ("gfx90a", "v_mfma_f32_32x32x4f16", 32, 4, 2, "f16"),
    ("gfx90a", "v_mfma_f32_32x32x8bf16_1k", 32, 8, 1, "bf16"),
    ("gfx90a", "v_mfma_f32_16x16x8bf16", 16, 8, 1, "bf16"),
    ("gfx90a", "v_mfma_f32_32x32x2f32", 32, 2, 1, "f32"),
    ("gfx90a", "v_mfma_f32_16x16x1f32", 16, 1, 4, "f32"),
    ("gfx90a", "v_mfma_i32_32x32x8i8", 32, 8, 1, "i8"),
    ("gfx942", "v_mfma_i32_16x16x32_i8", 16, 32, 1, "i8"),
    ("gfx942", "v_mfma_f32_16x16x16_bf16", 16, 16, 1, "bf16"),
    ("gfx950", "v_mfma_f32_16x16x32_f16", 16, 32, 1, "f16"),
    ("gfx950", "v_mfma_f32_32x32x16_bf16", 32, 16, 1, "bf16"),
    ("gfx950", "v_mfma_i32_16x16x64_i8", 16, 64, 1, "i8"),
    ("gfx950", "v_mfma_i32_32x32x32_i8", 32, 32, 1, "i8"),
]


def encoded(values: np.ndarray, kind: str) -> np.ndarray:
    """Small integers as the words of a lane: [64, words]."""
    if kind == "f16":
        return np.ascontiguousarray(values.astype(np.float16)).view(np.uint32)
    if kind == "bf16":
        return np.ascontiguousarray((values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)).view(
            np.uint32
        )
    if kind == "f32":
        return values.astype(np.float32).view(np.uint32)
    return np.ascontiguousarray(values.astype(np.int8)).view(np.uint32)


@pytest.mark.parametrize("arch,name,side,k,blocks,kind", FORMS, ids=[form[1] for form in FORMS])
def test_products(arch: str, name: str, side: int, k: int, blocks: int, kind: str) -> None:
    each, results = side * k * blocks // 64, side * side * blocks // 64
    a, b = RNG.integers(-8, 8, (2, blocks, side, k))
    row, block, run = L % side, L // side % blocks, L // (side * blocks)
    columns = run[:, None] * each + np.arange(each)
    sources = [encoded(m[block[:, None], row[:, None], columns], kind) for m in (a, b)]
    text, words = [], sources[0].shape[1]
    inputs = []
    for index, source in enumerate(sources):
        for word in range(words):
            inputs.append(source[:, word])
            text.append(f"v_mov_b32_e32 v{30 + 4 * index + word}, v{10 + 2 * (len(inputs) - 1)}")
    span = [f"v[{at}:{at + words - 1}]" if words > 1 else f"v{at}" for at in (30, 34)]
    text.append(f"{name} v[40:{39 + results}], {span[0]}, {span[1]}, 0")
    got = lanes("\n".join(text), inputs, words=results, arch=arch).view(
        np.int32 if kind == "i8" else np.float32
    )
    want = np.einsum("brk,bck->brc", a, b)
    for r in range(results):
        four = r // 4 * (64 // side) + L // side
        at = (four // (side // 4), 4 * (four % (side // 4)) + r % 4, L % side)
        np.testing.assert_array_equal(got[r], want[at])


def test_doubles_lie_row_by_row() -> None:
    a, b = RNG.standard_normal((2, 16, 4))
    text = "v_mfma_f64_16x16x4f64 v[40:47], v[10:11], v[12:13], 0"
    got = lanes(text, [a[L % 16, L // 16], b[L % 16, L // 16]], words=8)
    want = a @ b.T
    for r in range(4):
        values = np.ascontiguousarray(got[2 * r : 2 * r + 2].T).view(np.float64).reshape(64)
        np.testing.assert_allclose(values, want[4 * r + L // 16, L % 16], rtol=1e-14)


def test_integer_dot_products() -> None:
    a, b = RNG.integers(-128, 128, (2, 64, 4)).astype(np.int8)
    c = RNG.integers(-1000, 1000, 64).astype(np.int32)
    words = [np.ascontiguousarray(v).view(np.uint32).reshape(64) for v in (a, b)]
    got = lanes("v_dot4_i32_i8 v40, v10, v12, v14", [*words, c])[0].view(np.int32)
    np.testing.assert_array_equal(got, (a.astype(int) * b).sum(1) + c)
    top = np.full(64, (1 << 31) - 1, np.int32)
    got = lanes("v_dot4_i32_i8 v40, v10, v10, v14 clamp", [words[0], words[1], top])[0].view(np.int32)
    assert (got == (1 << 31) - 1).all()
