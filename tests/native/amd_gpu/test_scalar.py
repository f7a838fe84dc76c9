"""The scalar unit: carries, shifts, fields, comparisons, EXEC, calls, traps, and faults that are named."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.amd_gpu.isa import lanes, run_code

pytestmark = pytest.mark.long  # builds the emulator's instructions apart

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def scalar(snippet: str, words: int = 1) -> list[int]:
    """What a snippet leaves in s20 and the registers behind it."""
    moves = "\n".join(f"v_mov_b32_e32 v{40 + k}, s{20 + k}" for k in range(words))
    return [int(row[0]) for row in lanes(f"{snippet}\n{moves}", [], words=words)]


def with_condition(snippet: str) -> tuple[int, int]:
    value, condition = scalar(f"{snippet}\ns_cselect_b32 s21, 1, 0", words=2)
    return value, condition


def load(register: int, value: int) -> str:
    return f"s_mov_b32 s{register}, {value & M32:#x}"


@pytest.mark.parametrize("a,b", [(1, 2), (M32, 1), (0x7FFFFFFF, 1), (0x80000000, 0xFFFFFFFF), (5, 7)])
def test_sums_and_their_carries(a: int, b: int) -> None:
    sources = f"{load(6, a)}\n{load(7, b)}\n"
    signed = [x - (1 << 32) if x >> 31 else x for x in (a, b)]
    assert with_condition(f"{sources}s_add_u32 s20, s6, s7") == ((a + b) & M32, a + b > M32)
    assert with_condition(f"{sources}s_sub_u32 s20, s6, s7") == ((a - b) & M32, b > a)
    total = sum(signed)
    assert with_condition(f"{sources}s_add_i32 s20, s6, s7") == (
        total & M32,
        not -(1 << 31) <= total < 1 << 31,
    )
    assert with_condition(f"{sources}s_cmp_eq_u32 0, 0\ns_addc_u32 s20, s6, s7") == (
        (a + b + 1) & M32,
        a + b + 1 > M32,
    )
    assert with_condition(f"{sources}s_cmp_eq_u32 0, 0\ns_subb_u32 s20, s6, s7") == (
        (a - b - 1) & M32,
        b + 1 > a,
    )


@pytest.mark.parametrize("first,width", [(0, 8), (4, 12), (24, 8), (31, 1), (20, 20), (3, 0)])
def test_fields(first: int, width: int) -> None:
    value = 0x9ABCDEF1
    sources = f"{load(6, value)}\n{load(7, first | width << 16)}\n"
    unsigned = value >> first & ((1 << width) - 1)
    signed = (
        unsigned - (1 << width) if width and first + width <= 32 and unsigned >> (width - 1) else unsigned
    )
    if first + width > 32:
        signed = (value - (1 << 32)) >> first
    assert scalar(f"{sources}s_bfe_u32 s20, s6, s7") == [unsigned]
    assert scalar(f"{sources}s_bfe_i32 s20, s6, s7") == [signed & M32]


def test_wide_shifts_keep_signs() -> None:
    value = 0x8000000012345678
    sources = f"{load(6, value)}\n{load(7, value >> 32)}\n"
    low, high = scalar(f"{sources}s_ashr_i64 s[20:21], s[6:7], 36", words=2)
    assert low | high << 32 == ((value - (1 << 64)) >> 36) & M64
    low, high = scalar(f"{sources}s_lshr_b64 s[20:21], s[6:7], 36", words=2)
    assert low | high << 32 == value >> 36


def test_counts() -> None:
    assert scalar(f"{load(6, 0x00F0)}\ns_ff1_i32_b32 s20, s6\ns_flbit_i32_b32 s21, s6", 2) == [4, 24]
    assert scalar("s_ff1_i32_b32 s20, 0\ns_flbit_i32 s21, -1", 2) == [M32, M32]
    assert scalar(f"{load(6, 0xFFFF0001)}\ns_bcnt1_i32_b32 s20, s6\ns_brev_b32 s21, s6", 2) == [
        17,
        0x8000FFFF,
    ]


def test_signed_and_unsigned_comparisons() -> None:
    sources = f"{load(6, 0xFFFFFFFF)}\ns_mov_b32 s20, 0\n"
    assert with_condition(f"{sources}s_cmp_lt_i32 s6, 0")[1] == 1
    assert with_condition(f"{sources}s_cmp_lt_u32 s6, 0")[1] == 0
    assert with_condition(f"{sources}s_cmpk_eq_i32 s6, -1")[1] == 1
    assert with_condition(f"{sources}s_cmpk_lg_u32 s6, 0xffff")[1] == 1


def test_saveexec_narrows_what_is_written() -> None:
    result = lanes(
        "v_mov_b32_e32 v40, 7\nv_cmp_gt_u32_e32 vcc, 10, v0\n"
        "s_and_saveexec_b64 s[8:9], vcc\nv_mov_b32_e32 v40, v0",
        [],
    )[0]
    assert result.tolist() == [k if k < 10 else 7 for k in range(64)]


def test_a_loop_a_call_and_a_return() -> None:
    text = """s_mov_b32 s20, 0
s_getpc_b64 s[8:9]
here:
s_add_u32 s8, s8, function-here
s_addc_u32 s9, s9, 0
again:
s_swappc_b64 s[10:11], s[8:9]
s_cmp_lt_u32 s20, 30
s_cbranch_scc1 again
s_branch behind
function:
s_add_u32 s20, s20, 7
s_setpc_b64 s[10:11]
behind:"""
    assert scalar(text) == [35]


def test_hardware_registers() -> None:
    mode, shared, private = scalar(
        "s_getreg_b32 s20, hwreg(HW_REG_MODE, 0, 10)\n"
        "s_getreg_b32 s21, hwreg(HW_REG_SH_MEM_BASES, 16, 16)\n"
        "s_getreg_b32 s22, hwreg(HW_REG_SH_MEM_BASES, 0, 16)",
        words=3,
    )
    assert mode == 0x3F0
    assert (shared, private) == (0x0001, 0x0002)


def test_rounding_follows_mode() -> None:
    one, small = np.full(64, 1, np.float32), np.full(64, 2.0**-30, np.float32)
    up = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\nv_add_f32_e32 v40, v10, v12"
    assert (lanes(up, [one, small]).view(np.float32) == np.nextafter(np.float32(1), np.float32(2))).all()
    nearest = "v_add_f32_e32 v40, v10, v12"
    assert (lanes(nearest, [one, small]).view(np.float32) == 1).all()


def test_denormals_follow_mode() -> None:
    tiny = np.full(64, 1e-39, np.float32)
    assert (lanes("v_mul_f32_e32 v40, 1.0, v10", [tiny]).view(np.float32) == tiny).all()
    flushing = 1 << 21 | 1 << 23
    assert (lanes("v_mul_f32_e32 v40, 1.0, v10", [tiny], rsrc1=flushing) == 0).all()


def test_faults_name_what_happened() -> None:
    trap = run_code("s_nop 0\ns_trap 2")
    assert (trap.fault, trap.pc) == ("trap", 0x100000104) and "s_trap 2" in trap.text
    unknown = run_code("s_rfe_b64 s[2:3]")
    assert unknown.fault == "unsupported" and "s_rfe_b64" in unknown.text
    wild = run_code("v_mov_b32_e32 v2, 0x40\nv_mov_b32_e32 v3, 0\nglobal_load_dword v4, v[2:3], off")
    assert (wild.fault, wild.address) == ("memory", 0x40) and "global_load_dword" in wild.text
    read_only = run_code("s_getpc_b64 s[8:9]\nv_mov_b32_e32 v1, 0\nglobal_store_dword v1, v1, s[8:9]")
    assert read_only.fault == "memory" and "read-only" in read_only.text
    beyond = run_code("v_mov_b32_e32 v1, 0x80\nds_write_b32 v1, v1", lds=64)
    assert beyond.fault == "aperture" and "LDS" in beyond.text
    no_instruction = run_code(".long 0xfffffffe")
    assert no_instruction.fault == "illegal" and "0xfffffffe" in no_instruction.text
