"""Numbers in CUDA sources: found, and changed without touching the kernel's name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kerncap.replay.tuning.cuda_text import edited, find

TEXT = """
#define TILE 32 // a tile
#define WIDE (4)
#define GUARD
#define TWICE 1
#undef TWICE
#define TWICE 2
template <typename T, int BLOCK, bool FAST>
__global__ void scale(T* x, int n);
template <typename T, int BLOCK, bool FAST>
__global__ void __launch_bounds__(BLOCK) scale(T* x, int n) {
    __shared__ T tile[BLOCK * TILE];
}
"""


def reproducer(text: str = TEXT) -> Any:
    kernel = SimpleNamespace(
        name="scale", mangled="_Z5scaleIfLi128ELb1EEvPT_i",
        qualified_name="void scale<float, (int)128, (bool)1>(float*, int)",
    )  # fmt: skip
    manifest = SimpleNamespace(kernel=kernel, source=SimpleNamespace(language="cuda"))
    return SimpleNamespace(manifest=manifest, source_text=lambda: text)


def test_defines_and_integer_template_parameters_are_found() -> None:
    found = {each.name: (each.value, each.position) for each in find(reproducer())}
    assert found == {"TILE": (32, None), "WIDE": (4, None), "BLOCK": (128, 1)}


def test_a_variant_keeps_the_kernel_s_name() -> None:
    text = edited(reproducer(), {"TILE": 16, "WIDE": 8, "BLOCK": 64, "other": 1})
    assert "#define TILE 16 // a tile" in text and "#define WIDE (8)" in text
    assert "template <typename T, int BLOCK_captured, bool FAST>" in text
    assert "__launch_bounds__(BLOCK_captured) scale(T* x, int n) { constexpr int BLOCK = 64;" in text
    assert "scale(T* x, int n);" in text  # the declaration is left alone
