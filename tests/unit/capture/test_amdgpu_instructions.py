"""Which kernels have image instructions: by words that LLVM's assembler wrote for gfx90a."""

from __future__ import annotations

import struct

import pytest

from kerncap.capture.images.amdgpu_instructions import has_images
from kerncap.format.code_object import CodeObject, KernelMetadata

IMAGES = {
    "image_load v[0:3], v[0:1], s[0:7] dmask:0xf unorm": (0xF0001F00, 0),
    "image_store v[0:3], v[0:1], s[0:7] dmask:0xf unorm": (0xF0201F00, 0),
    "image_sample v[0:3], v[0:1], s[0:7], s[8:11] dmask:0xf": (0xF0800F00, 0x00400000),
    "image_atomic_add v0, v[0:1], s[0:7] dmask:0x1 unorm": (0xF0481100, 0),
}
# Of two words, of which the second looks like one.
OTHERS = {
    "v_and_b32_e32 v0, 0xf0f0f0f0, v0": (0x260000FF, 0xF0F0F0F0),
    "s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0xf0000000": (0xBA00F801, 0xF0000000),
    "v_madak_f32 v0, v1, v2, 0xf0000000": (0x30000501, 0xF0000000),
    "s_mov_b32 s0, 0xf0000000": (0xBE8000FF, 0xF0000000),
    "s_cmp_eq_u32 s0, 0xf0000000": (0xBF06FF00, 0xF0000000),
    "s_add_u32 s0, s1, 0xf0000000": (0x8000FF01, 0xF0000000),
    "v_mov_b32_dpp v0, v1 quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0x0": (0x7E0002FA, 0xF0000001),
}
CALLS = {"s_swappc_b64 s[30:31], s[4:5]": (0xBE9E1E04,), "s_call_b64 s[4:5], 16": (0xBA840010,)}
END = (0xBF810000,)


class Code(CodeObject):
    """A code object of a kernel and a function behind it."""

    def __init__(self, kernel: tuple[int, ...], function: tuple[int, ...] = (), arch: str = "gfx90a") -> None:
        self.arch = arch
        self._kernel, self._all = (struct.pack(f"<{len(w)}I", *w) for w in (kernel, kernel + function))

    def code(self, kernel: str) -> memoryview | None:
        return memoryview(self._kernel) if kernel == "k" else None

    def all_code(self) -> memoryview:
        return memoryview(self._all)


def found(
    kernel: tuple[int, ...], function: tuple[int, ...] = (), arch: str = "gfx90a", name: str = "k"
) -> bool:
    metadata = KernelMetadata(name=name, symbol=f"{name}.kd", kernarg_segment_size=0)
    return has_images(Code(kernel, function, arch), metadata)


@pytest.mark.parametrize("text", IMAGES)
@pytest.mark.parametrize("before", OTHERS)
def test_an_image_instruction_is_found_behind_any_other(text: str, before: str) -> None:
    assert not found(OTHERS[before] + END)
    assert found(OTHERS[before] + IMAGES[text] + END)


@pytest.mark.parametrize("call", CALLS)
def test_what_a_kernel_calls_counts_too(call: str) -> None:
    [image, *_] = IMAGES.values()
    assert found(CALLS[call] + END, image + END)
    assert not found(END, image + END)  # another kernel's


def test_what_cannot_be_read_is_not_said_to_have_images() -> None:
    [image, *_] = IMAGES.values()
    assert not found(image, arch="gfx1100")
    assert not found(image, name="other")
    assert not found((0xFC000000, *image))  # no instruction
