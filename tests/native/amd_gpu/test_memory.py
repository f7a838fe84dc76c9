"""Memory: sizes and signs, buffers and their ends, scratch, LDS, barriers, atomics."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.amd_gpu.isa import lanes, run_code

pytestmark = pytest.mark.long  # builds the emulator's instructions apart

RNG = np.random.default_rng(26)
A = RNG.integers(0, 1 << 32, 64, dtype=np.uint32)
LANE = np.arange(64)
START = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\n"


def test_small_loads_extend_and_halves_are_kept() -> None:
    data = A.tobytes()
    bytes_, shorts = np.frombuffer(data, np.uint8)[::4], np.frombuffer(data, np.uint16)[1::2]
    for name, offset, want in (
        ("ubyte", 0, bytes_),
        ("sbyte", 0, bytes_.view(np.int8).astype(np.int32).view(np.uint32)),
        ("ushort", 2, shorts),
        ("sshort", 2, shorts.view(np.int16).astype(np.int32).view(np.uint32)),
    ):
        np.testing.assert_array_equal(
            lanes(f"global_load_{name} v40, v1, s[4:5] offset:{offset}", [A])[0], want
        )
    text = "v_mov_b32_e32 v40, -1\nglobal_load_short_d16_hi v40, v1, s[4:5] offset:2"
    np.testing.assert_array_equal(lanes(text, [A])[0], 0xFFFF | (A & 0xFFFF0000))


def test_wide_loads_and_stores() -> None:
    data = RNG.bytes(1024)
    text = START + "v_lshlrev_b32_e32 v2, 4, v0\nglobal_load_dwordx4 v[4:7], v2, s[4:5]\n"
    text += (
        "global_store_dwordx3 v2, v[4:6], s[4:5] offset:4\nglobal_store_short_d16_hi v2, v7, s[4:5] offset:2"
    )
    got = np.frombuffer(run_code(text, data=data).data, np.uint32).reshape(64, 4)
    old = np.frombuffer(data, np.uint32).reshape(64, 4)
    want = np.concatenate([(old[:, :1] & 0xFFFF) | (old[:, 3:] & 0xFFFF0000), old[:, :3]], axis=1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("exec_mask", [0xFFFFFFFF_FFFFFFFF, 0xF0F0F0F0_12345678])
def test_lanes_load_from_anywhere(exec_mask: int) -> None:
    """Each from its own place, the second time by a known mapping, over the address itself; and of LDS."""
    active = np.array([exec_mask >> lane & 1 for lane in range(64)], bool)
    at = LANE * 37 % 64
    text = START + "global_load_dword v8, v1, s[4:5]\nds_write_b32 v1, v8\n"
    text += "v_mul_u32_u24_e32 v2, 37, v0\nv_and_b32_e32 v2, 63, v2\nv_lshlrev_b32_e32 v2, 2, v2\n"
    text += "v_mov_b32_e32 v4, v2\nv_mov_b32_e32 v6, v2\n"
    text += f"s_mov_b32 exec_lo, {exec_mask & 0xFFFFFFFF:#x}\ns_mov_b32 exec_hi, {exec_mask >> 32:#x}\n"
    text += "global_load_dword v3, v2, s[4:5]\nglobal_load_dwordx2 v[4:5], v4, s[4:5]\n"
    text += "ds_read_b32 v6, v6\ns_mov_b64 exec, -1\n"
    for number, register in enumerate(("v3", "v4", "v5", "v6")):
        text += f"global_store_dword v1, {register}, s[4:5] offset:{512 + 256 * number}\n"
    result = run_code(text, data=A.tobytes() + A.tobytes() + bytes(1024), lds=256)
    got = np.frombuffer(result.data, np.uint32).reshape(6, 64)[2:]
    both = np.concatenate([A, A])
    np.testing.assert_array_equal(got[0], np.where(active, A[at], 0))
    np.testing.assert_array_equal(got[1], np.where(active, A[at], 4 * at))
    np.testing.assert_array_equal(got[2], np.where(active, both[at + 1], 0))
    np.testing.assert_array_equal(got[3], np.where(active, A[at], 4 * at))


def test_inactive_lanes_have_no_address() -> None:
    text = START + "global_load_dword v3, v1, s[4:5]\nv_lshlrev_b32_e32 v2, 4, v0\nds_write_b32 v1, v3\n"
    text += "s_mov_b32 exec_lo, 0xaaaaaaaa\ns_mov_b32 exec_hi, exec_lo\nv_mov_b32_e32 v2, 0xfffffff0\n"
    text += (
        "s_not_b64 exec, exec\nglobal_load_dwordx4 v[8:11], v2, s[4:5]\nglobal_load_ushort v12, v2, s[4:5]\n"
    )
    text += "ds_write_b64 v2, v[8:9]\nds_read2_b32 v[14:15], v2 offset1:1\nds_read_b128 v[16:19], v2\n"
    text += "global_store_dwordx2 v2, v[10:11], s[4:5]\ns_mov_b64 exec, -1\n"
    text += "v_add_u32_e32 v1, 0x400, v1\n"
    for number, register in enumerate((8, 11, 12, 15, 17, 18)):
        text += f"global_store_dword v1, v{register}, s[4:5] offset:{256 * number}\n"
    four = RNG.integers(0, 1 << 32, (64, 4), dtype=np.uint32)
    result = run_code(text, data=four.tobytes() + bytes(6 * 256), lds=1024)
    assert result.fault == "none", result.text
    got, even = np.frombuffer(result.data, np.uint32), LANE % 2 == 0
    want = np.where((even[:, None]) & (LANE[:4] < 2), np.roll(four, 2, axis=1), four)
    np.testing.assert_array_equal(got[:256].reshape(64, 4), want)
    in_lds = np.concatenate([four.ravel()[:64], np.zeros(192, np.uint32)]).reshape(64, 4)
    loaded = [four[:, 0], four[:, 3], four[:, 0] & 0xFFFF, four[:, 1], four[:, 1], in_lds[:, 2]]
    np.testing.assert_array_equal(got[256:].reshape(6, 64), [np.where(even, each, 0) for each in loaded])


def test_one_lane_outside_of_lds_stops_all() -> None:
    text = "v_lshlrev_b32_e32 v1, 2, v0\nds_read_b32 v2, v1 offset:4"
    assert run_code(text, lds=260).fault == "none"
    result = run_code(text, lds=256)
    assert result.fault == "aperture" and result.address & 0xFFFFFFFF == 256


def test_buffers_read_zero_and_drop_stores_behind_their_end() -> None:
    text = START + "s_mov_b32 s8, s4\ns_mov_b32 s9, s5\ns_movk_i32 s10, 0x84\ns_mov_b32 s11, 0x27000\n"
    text += "v_mov_b32_e32 v4, -1\nbuffer_load_dword v4, v1, s[8:11], 0 offen offset:4\n"
    text += "v_mov_b32_e32 v5, 9\nv_mov_b32_e32 v6, 0x80000000\nbuffer_store_dword v5, v6, s[8:11], 0 offen\n"
    text += "v_lshlrev_b32_e32 v7, 2, v1\nbuffer_store_dword v5, v7, s[8:11], 0 offen\n"
    text += "global_store_dword v1, v4, s[4:5] offset:1024"
    got = np.frombuffer(run_code(text, data=A.tobytes() + bytes(1024)).data, np.uint32)
    np.testing.assert_array_equal(got[256:320], np.where(LANE + 1 < 33, np.roll(A, -1), 0))
    np.testing.assert_array_equal(got[:64], np.where((LANE % 4 == 0) & (LANE < 33), 9, A))


def test_a_wide_buffer_load_ends_inside() -> None:
    text = START + "s_mov_b32 s8, s4\ns_mov_b32 s9, s5\ns_movk_i32 s10, 8\ns_mov_b32 s11, 0x27000\n"
    text += (
        "v_mov_b32_e32 v2, 0\nbuffer_load_dwordx4 v[4:7], v2, s[8:11], 0 offen\n"
        "v_mov_b32_e32 v2, 0\nglobal_store_dwordx4 v2, v[4:7], s[4:5]"
    )
    got = np.frombuffer(run_code(text, data=A.tobytes()).data, np.uint32)
    assert got[:4].tolist() == [A[0], A[1], 0, 0]


def test_scratch_is_each_lanes_own() -> None:
    text = (
        "scratch_store_dword off, v10, off offset:4\n"
        "scratch_store_byte off, v0, off offset:5\n"
        "scratch_load_dword v40, off, off offset:4"
    )
    got = lanes(text, [A], arch="gfx942", private=16)[0]
    np.testing.assert_array_equal(got, (A & 0xFFFF00FF) | (LANE.astype(np.uint32) << 8))
    flat = (
        "s_mov_b64 s[8:9], src_private_base\nv_mov_b32_e32 v2, 8\nv_mov_b32_e32 v3, s9\n"
        "flat_store_dword v[2:3], v10\nflat_load_dword v40, v[2:3]"
    )
    np.testing.assert_array_equal(lanes(flat, [A], private=16)[0], A)


def test_lds_and_its_flat_view() -> None:
    text = "v_xor_b32_e32 v2, 0xfc, v1\nds_write_b32 v1, v10 offset:16\nds_read_b32 v40, v2 offset:16\n"
    text += (
        "s_mov_b64 s[8:9], src_shared_base\nv_add_u32_e32 v4, 16, v1\n"
        "v_mov_b32_e32 v5, s9\nflat_load_dword v41, v[4:5]\n"
    )
    text += "ds_read2_b32 v[42:43], v1 offset0:4 offset1:5"
    got = lanes(text, [A], words=4, lds=512)
    np.testing.assert_array_equal(got[0], A[::-1])
    np.testing.assert_array_equal(got[1], A)
    np.testing.assert_array_equal(got[2], A)
    np.testing.assert_array_equal(got[3][:63], A[1:])


def test_a_barrier_lets_every_wave_write_first() -> None:
    text = (
        START + "ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\ns_barrier\n"
        "v_xor_b32_e32 v2, 0x3fc, v1\nds_read_b32 v3, v2\n"
        "global_store_dword v1, v3, s[4:5]"
    )
    got = np.frombuffer(run_code(text, data=bytes(1024), workgroup=256, lds=1024).data, np.uint32)
    np.testing.assert_array_equal(got, np.arange(255, -1, -1))


def test_workgroups_wait_for_each_other() -> None:
    """A barrier across the grid: no group comes to its end before the last one has started."""
    text = (
        START
        + """v_mov_b32_e32 v2, 0
v_mov_b32_e32 v3, 1
s_mov_b64 exec, 1
global_atomic_add v2, v3, s[4:5]
again:
global_load_dword v4, v2, s[4:5] glc
v_cmp_gt_u32_e32 vcc, 6, v4
s_cbranch_vccnz again
global_atomic_add v2, v3, s[4:5] offset:4"""
    )
    result = run_code(text, data=bytes(8), workgroups=6)
    assert (result.fault, result.data) == ("none", np.array([6, 6], np.uint32).tobytes())


@pytest.mark.parametrize("fails", [False, True])
def test_workgroups_of_a_long_dispatch_run_on_threads(fails: bool) -> None:
    groups = 160
    text = START + "s_movk_i32 s8, 2000\nagain:\ns_sub_u32 s8, s8, 1\ns_cmp_lg_u32 s8, 0\n"
    text += "s_cbranch_scc1 again\nv_mov_b32_e32 v2, 0\nv_mov_b32_e32 v3, 1\n"
    text += "global_atomic_add v2, v3, s[4:5]\ns_lshl_b32 s9, s2, 2\nv_mov_b32_e32 v2, s9\n"
    text += f"s_cmp_eq_u32 s2, {groups - 1 if fails else groups}\ns_cbranch_scc0 after\n"
    text += "s_mov_b32 s5, 0x7fff\nafter:\nglobal_atomic_add v2, v3, s[4:5] offset:4"
    result = run_code(text, data=bytes(4 + 4 * groups), workgroups=groups)
    if fails:
        assert result.fault == "memory" and result.address >> 32 == 0x7FFF, result
        assert "global_atomic_add v2, v3, s[4:5] offset:4" in result.text
    else:
        words = np.frombuffer(result.data, np.uint32)
        assert result.fault == "none" and words[0] == 64 * groups and (words[1:] == 64).all()


def test_atomics_of_memory() -> None:
    text = "v_and_b32_e32 v2, 28, v1\nv_mov_b32_e32 v3, 1.0\nv_mov_b32_e32 v4, 0\nv_mov_b32_e32 v5, 3\n"
    text += "global_atomic_add v40, v4, v5, s[4:5] glc\n"
    got = lanes(text, [np.zeros(64, np.uint32)])[0]
    np.testing.assert_array_equal(got, 3 * LANE)
    text = START + "v_mov_b32_e32 v4, 0\nv_cvt_f32_u32_e32 v5, v0\nglobal_atomic_add_f32 v4, v5, s[4:5]\n"
    text += (
        "global_atomic_umax v4, v0, s[4:5] offset:4\nv_sub_u32_e32 v6, 0, v0\n"
        "global_atomic_smin v4, v6, s[4:5] offset:8\n"
    )
    text += (
        "v_mov_b32_e32 v7, 9\nglobal_atomic_inc v4, v7, s[4:5] offset:12\n"
        "v_mov_b32_e32 v8, 5\nv_mov_b32_e32 v9, 0\n"
    )
    text += (
        "global_atomic_cmpswap v4, v[8:9], s[4:5] offset:16\n"
        "v_mov_b32_e32 v8, 0x3c003c00\n"
        "global_atomic_pk_add_f16 v4, v8, s[4:5] offset:20\n"
    )
    text += "v_cvt_f64_u32_e32 v[10:11], v0\nglobal_atomic_add_f64 v4, v[10:11], s[4:5] offset:24"
    raw = run_code(text, data=bytes(32)).data
    words = np.frombuffer(raw, np.uint32)
    assert np.frombuffer(raw, np.float32)[0] == 2016 and np.frombuffer(raw, np.float64)[3] == 2016
    assert words[1:5].tolist() == [63, (1 << 32) - 63, 4, 5]
    assert np.frombuffer(raw, np.float16)[10:12].tolist() == [64, 64]


def test_atomics_of_lds() -> None:
    text = "v_mov_b32_e32 v2, 0\nds_write_b64 v2, v[2:3] offset:8\nds_write_b32 v2, v2\nv_mov_b32_e32 v3, 2\n"
    text += (
        "ds_add_rtn_u32 v40, v2, v3\nds_read_b32 v41, v2\nv_mov_b32_e32 v4, 1.0\n"
        "ds_add_f32 v2, v4 offset:8\nds_read_b32 v42, v2 offset:8"
    )
    got = lanes(text, [], words=3, lds=64)
    np.testing.assert_array_equal(got[0], 2 * LANE)
    assert (got[1] == 128).all() and (got[2].view(np.float32) == 64).all()
