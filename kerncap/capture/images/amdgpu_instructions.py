"""Whether a kernel's machine code has image instructions, on the chips whose encodings are read here (gfx9).

What such an instruction reads or writes is behind a descriptor in the chip's own layout: no pointer leads
there.
"""

from __future__ import annotations

import re

from kerncap.format.code_object import CodeObject, KernelMetadata

_READ = re.compile(r"gfx9")
_LITERAL, _SDWA, _DPP = 255, 249, 250  # sources that are in the word behind the instruction
_OF_TWO_WORDS = frozenset({0b110000, 0b110100, 0b110110, 0b110111, 0b111000, 0b111010})
_IMAGE, _OF_ONE_WORD = 0b111100, 0b110101
# v_madmk_f32, v_madak_f32 and those of f16; s_setreg_imm32_b32; s_call_b64; s_setpc_b64, s_swappc_b64
_WITH_A_NUMBER = frozenset({23, 24, 36, 37})
_SET_REGISTER, _CALL, _JUMPS = 20, 21, frozenset({29, 30})


class _Unknown(Exception):
    """No instruction of gfx9."""


def has_images(found: CodeObject, kernel: KernelMetadata) -> bool:
    """Whether ``kernel``, or anything in its code object if it calls functions, has an image instruction.

    False too if that can't be read: another chip's code, or a code object without the kernel's symbol.
    """
    own = found.code(kernel.name) if found.arch and _READ.match(found.arch) else None
    if own is None:
        return False
    try:
        images, calls = _walk(own)
        return images or (calls and _walk(found.all_code())[0])
    except _Unknown:
        return False


def _walk(code: memoryview) -> tuple[bool, bool]:
    """Whether there are image instructions, and calls.

    Source: AMD Instinct MI200 ISA, "Microcode Formats".
    """
    words = code[: len(code) // 4 * 4].cast("I")
    images, calls, at = False, False, 0
    while at < len(words):
        word = words[at]
        format_ = word >> 26
        images |= format_ == _IMAGE
        calls |= (
            word >> 23 == 0b101111101 and word >> 8 & 0xFF in _JUMPS
        ) or word >> 23 == 0b1011 << 5 | _CALL
        at += _words_of(word, format_)
    return images, calls


def _words_of(word: int, format_: int) -> int:
    if format_ < 0b100000:  # VOP2, with VOPC and VOP1
        has_number = word >> 25 < 0b0111110 and word >> 25 in _WITH_A_NUMBER
        return 2 if has_number or word & 0x1FF in (_LITERAL, _SDWA, _DPP) else 1
    if format_ < 0b110000:
        kind = word >> 23
        if kind == 0b101111111:  # SOPP
            return 1
        if kind == 0b101111101:  # SOP1
            return 2 if word & 0xFF == _LITERAL else 1
        if word >> 28 == 0b1011 and kind != 0b101111110:  # SOPK; the other is SOPC
            return 2 if kind & 31 == _SET_REGISTER else 1
        return 2 if _LITERAL in (word & 0xFF, word >> 8 & 0xFF) else 1
    if format_ in _OF_TWO_WORDS or format_ == _IMAGE:
        return 2
    if format_ == _OF_ONE_WORD:
        return 1
    raise _Unknown
