"""Stretches of instructions, compiled for the host, leave what the same instructions leave one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.native.amd_gpu.isa import LANES, RSRC1, registers, run_code

pytestmark = pytest.mark.long  # builds the emulator's instructions apart

# Operands, and the instructions that take them: {d} is written, {a}, {b} and {c} are registers, {p}, {q} and
# {r} pairs, {u} is the same for all lanes, {m} and {n} are masks.
INTEGERS = {
    "{d}, {a}": "v_not_b32_e32 v_mov_b32_e32 v_cvt_f32_i32_e32 v_cvt_f32_u32_e32",
    "{d}, {u}": "v_mov_b32_e32",
    "{d}, {u}, {a}": "v_add_u32_e32 v_sub_u32_e32 v_subrev_u32_e32 v_and_b32_e32 v_max_u32_e32 "
    "v_lshlrev_b32_e32",
    "{d}, {a}, {b}": "v_or_b32_e32 v_xor_b32_e32 v_max_i32_e32 v_min_i32_e32 v_min_u32_e32 v_lshrrev_b32_e32",
    "{d}, {a}, {u}": "v_mul_lo_u32",
    "{d}, 40, {a}": "v_ashrrev_i32_e32",
    "{d}, {a}, {b}, {u}": "v_bfi_b32 v_add3_u32 v_xad_u32 v_lshl_add_u32 v_and_or_b32",
    "{d}, {a}, {u}, {b}": "v_add_lshl_u32 v_or3_b32",
    "{d}, {a}, 33, {b}": "v_lshl_or_b32",
    "{d}, {a}, {u}, 9": "v_bfe_u32",
    "{p}, 0, {q}": "v_lshlrev_b64",
    "{p}, 3, {q}": "v_lshlrev_b64",
    "{p}, 44, {q}": "v_lshlrev_b64",
    "{p}, {q}, {r} op_sel:[1,0]": "v_pk_mov_b32",
    "{d}, {m}, {u}, {a}": "v_add_co_u32_e64 v_sub_co_u32_e64 v_subrev_co_u32_e64",
    "{d}, {m}, {a}, {b}, {n}": "v_addc_co_u32_e64 v_subb_co_u32_e64 v_subbrev_co_u32_e64",
    "{d}, {a}, {b}, {n}": "v_cndmask_b32_e64",
    "{d}, 17, {b}, {n}": "v_cndmask_b32_e64",
    "{m}, {a}, {u}": "v_cmp_eq_u32_e64 v_cmp_lt_i32_e64 v_cmp_ne_i32_e64 v_cmp_gt_u32_e64",
    "{m}, {a}, {b}": "v_cmp_le_u32_e64 v_cmp_ge_i32_e64",
    "{d}, -1, {a}": "v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32",
    # Of the scalar unit, among the others and behind them.
    "{m}, {m}, {n}": "s_and_b64 s_or_b64 s_andn2_b64 s_xor_b64 s_nand_b64",
    "s8, 77": "s_mov_b32",
    "s9, s9, {u}": "s_add_u32 s_addc_u32 s_and_b32",
    "s9, vcc_lo, s8": "s_xor_b32 s_cselect_b32",
}
REALS = {
    "{d}, {a}": "v_rndne_f32_e32 v_ceil_f32_e32 v_trunc_f32_e32 "
    "v_cvt_i32_f32_e32 v_rcp_f32_e32 v_sqrt_f32_e32",
    "{d}, -|{a}|": "v_floor_f32_e64 v_rsq_f32_e64",
    "{d}, {a}, -{b}": "v_add_f32_e64 v_max_f32_e64",
    "{d}, {a}, {b}": "v_mul_f32_e32 v_min_f32_e32 v_fmac_f32_e32",
    "{d}, {u}, {a}": "v_sub_f32_e32 v_subrev_f32_e32",
    "{d}, {a}, -16": "v_ldexp_f32",
    "{d}, {a}, -{b}, {u}": "v_fma_f32",
    "{d}, -{a}, {b}, {n}": "v_cndmask_b32_e64",
    "{p}, {q}, {r} op_sel:[1,0] op_sel_hi:[0,1]": "v_pk_add_f32 v_pk_mul_f32",
    "{p}, {q}, {r}, {q} op_sel_hi:[0,1,1]": "v_pk_fma_f32",
    "{d}, {m}, {a}, {b}, {a}": "v_div_scale_f32",
    "{d}, {a}, -{b}, {a}": "v_div_fmas_f32",
    "{d}, {a}, {b}, -{a}": "v_div_fixup_f32",
    "{m}, {a}, {b}": "v_cmp_eq_f32_e64 v_cmp_lt_f32_e64 v_cmp_le_f32_e64 v_cmp_u_f32_e64 v_cmp_neq_f32_e64 "
    "v_cmp_nlt_f32_e64 v_cmp_nle_f32_e64 v_cmp_o_f32_e64 v_cmp_nlg_f32_e64 v_cmp_nge_f32_e64 "
    "v_cmp_ngt_f32_e64 v_cmp_lg_f32_e64 v_cmp_ge_f32_e64 v_cmp_gt_f32_e64",
}
COUNT, LENGTH = 16, 30
MASKS = ("vcc", "s[20:21]", "s[22:23]")
EXEC = {"all lanes": "-1", "some lanes": "0x0f0f3351", "no lane": "0"}
NO_DENORMALS = RSRC1 & ~(0xF << 16)


def instructions(forms: dict[str, str], chance: random.Random) -> list[str]:
    def instruction() -> str:
        form, names = chance.choice(list(forms.items()))
        single = [f"v{64 + chance.randrange(COUNT)}" for _ in "dabc"]
        pairs = [f"v[{k}:{k + 1}]" for k in (64 + 2 * chance.randrange(COUNT // 2) for _ in "pqr")]
        operands = dict(zip("dabcpqr", single + pairs, strict=True))
        uniform = chance.choice(("s8", "s9", "17", "-1", "vcc_lo"))
        masks = dict(zip("mn", chance.choices(MASKS, k=2), strict=True))
        return f"{chance.choice(names.split())} {form.format(**operands, u=uniform, **masks)}"

    return [instruction() for _ in range(LENGTH)]


def integers(chance: np.random.Generator) -> np.ndarray:
    edges = np.array([0, 1, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], np.uint32)
    words = chance.integers(0, 1 << 32, (COUNT, LANES), np.uint32)
    return np.where(chance.random(words.shape) < 0.3, chance.choice(edges, words.shape), words)


def reals(chance: np.random.Generator) -> np.ndarray:
    """Without NaNs: which of two an operation keeps is not specified."""
    edges = np.array([0, -0.0, 1, -1.5, 2.5, 1e-40, -1e-45, 3e38, -3e38, 2e9, 3e9, np.inf], np.float32)
    words = chance.normal(0, 100, (COUNT, LANES)).astype(np.float32)
    return np.where(chance.random(words.shape) < 0.3, chance.choice(edges, words.shape), words).view(
        np.uint32
    )


@pytest.mark.parametrize("active", EXEC)
@pytest.mark.parametrize("kind", ["integers", "reals", "reals without denormals"])
def test_a_stretch_leaves_what_its_instructions_leave(kind: str, active: str) -> None:
    forms, inputs = (INTEGERS, integers) if kind == "integers" else (REALS, reals)
    rsrc1 = NO_DENORMALS if "without" in kind else RSRC1
    start = [
        "s_mov_b32 s8, 0x41200000",
        "s_mov_b32 s9, -3",
        "s_mov_b64 vcc, 0x1234",
        "s_mov_b64 s[20:21], -1",
    ]
    start += ["s_mov_b64 s[22:23], 0x7f01", f"s_mov_b64 exec, {EXEC[active]}"]
    end = ["s_mov_b64 exec, -1"]
    end += [f"v_mov_b32_e32 v{128 + COUNT + k}, s{20 + k}" for k in range(4)]
    end += [f"v_mov_b32_e32 v{128 + k}, v{64 + k}" for k in range(COUNT)]
    for seed in range(4):
        body = instructions(forms, random.Random(seed))
        # Where registers are indexed, here by nothing, instructions run one by one.
        singly = ["s_set_gpr_idx_on s30, 0x0", *body, "s_set_gpr_idx_off"]
        words = inputs(np.random.default_rng(seed))
        together, alone = (
            registers("\n".join([*start, *text, *end]), words, COUNT + 4, "gfx90a", rsrc1=rsrc1)
            for text in (body, singly)
        )
        if kind != "integers":
            together, alone = together.view(np.float32), alone.view(np.float32)
        np.testing.assert_array_equal(together, alone)


# Sources of words, at addresses side by side, in windows, the same for all, anywhere: v1 to v4. LDS has the
# lanes' squares, and memory at s[4:5] (v[32:33] for each lane) other numbers.
PLACES = [
    "v_mul_lo_u32 v9, v0, v0",
    "ds_write_b32 v1, v9",
    "v_and_b32_e32 v2, 0x44, v1",
    "v_mov_b32_e32 v3, 40",
    "v_mul_lo_u32 v4, v1, 12",
    "v_and_b32_e32 v4, 0xfc, v4",
    "v_mov_b32_e32 v33, s5",
    "v_add_co_u32_e32 v32, vcc, s4, v1",
    "v_addc_co_u32_e32 v33, vcc, 0, v33, vcc",
]
LOADS = [
    "v_add_u32_e32 v8, 4, v3",
    "ds_read_b32 v128, v1",
    "ds_read2_b32 v[130:131], v2 offset1:17",
    "ds_read_b32 v129, v8 offset:8",
    "ds_read2_b32 v[132:133], v4 offset0:1",
    "ds_read_b64 v[136:137], v2",
    "ds_read_b96 v[138:140], v3",
    "ds_read_b128 v[144:147], v2 offset:16",
    "v_add_u32_e32 v134, v128, v133",
    "global_load_dword v141, v1, s[4:5]",
    "global_load_dword v142, v4, s[4:5] offset:4",
    "global_load_dword v143, v[32:33], off",
    "flat_load_dword v135, v[32:33]",
    "v_add_u32_e32 v134, v134, v142",
    "ds_read_b32 v4, v4",
    "global_load_dword v32, v[32:33], off",
    "v_add_u32_e32 v135, v4, v135",
    "v_xor_b32_e32 v135, v32, v135",
]


@pytest.mark.parametrize("active", EXEC)
def test_a_stretch_loads_what_its_instructions_load(active: str) -> None:
    words = np.random.default_rng(1).integers(0, 1 << 32, (4, LANES), np.uint32)
    together, alone = (
        registers(
            "\n".join([*PLACES, f"s_mov_b64 exec, {EXEC[active]}", *text]), words, 20, "gfx90a", lds=512
        )
        for text in (LOADS, ["s_set_gpr_idx_on s30, 0x0", *LOADS, "s_set_gpr_idx_off"])
    )
    np.testing.assert_array_equal(together, alone)
    assert active == "no lane" or together.any()


# Rows of lanes store where others load and store, before and behind: at v1 side by side, at v2 in the other
# order, at v3 all in one place, at v[32:33] without a base.
STORES = [
    "global_load_dword v128, v1, s[4:5]",
    "global_store_dword v1, v64, s[4:5] offset:64",
    "global_load_dword v129, v1, s[4:5] offset:128",
    "v_add_u32_e32 v130, v128, v129",
    "global_store_dword v1, v130, s[4:5]",
    "global_store_dword v1, v65, s[4:5] offset:64",
    "s_load_dword s8, s[4:5], 0x40",
    "global_store_dword v[32:33], v66, off offset:32",
    "s_load_dword s9, s[4:5], 0x80",
    "v_add_u32_e32 v131, s8, v128",
    "v_add_u32_e32 v131, s9, v131",
    "s_load_dword s9, s[4:5], 0x204",
    "global_store_dword v1, v131, s[4:5] offset:512",
    "v_add_u32_e32 v131, s9, v131",
    "global_store_dword v2, v131, s[4:5] offset:512",
    "global_store_dword v3, v67, s[4:5] offset:640",
    "global_load_dword v132, v2, s[4:5] offset:512",
]


@pytest.mark.parametrize("active", EXEC)
def test_a_stretch_stores_what_its_instructions_store(active: str) -> None:
    words = np.random.default_rng(1).integers(0, 1 << 32, (4, LANES), np.uint32)
    start = ["v_sub_u32_e32 v2, 0xfc, v1", "v_mov_b32_e32 v3, 40", "s_mov_b32 s8, 0", "s_mov_b32 s9, 0"]
    start += ["v_mov_b32_e32 v33, s5", "v_add_co_u32_e32 v32, vcc, s4, v1"]
    start += ["v_addc_co_u32_e32 v33, vcc, 0, v33, vcc", f"s_mov_b64 exec, {EXEC[active]}"]
    end = ["s_mov_b64 exec, -1"]
    end += [f"global_load_dword v{133 + k}, v1, s[4:5] offset:{256 * k}" for k in range(4)]
    together, alone = (
        registers("\n".join([*start, *text, *end]), words, 9, "gfx90a")
        for text in (STORES, ["s_set_gpr_idx_on s30, 0x0", *STORES, "s_set_gpr_idx_off"])
    )
    np.testing.assert_array_equal(together, alone)
    assert (together[5:] == words).all() == (active == "no lane")


INDEXED = "s_mov_b32 s7, 6\ns_set_gpr_idx_on s7, {which}\nv_mov_b32_e32 {operands}\ns_set_gpr_idx_off"


@pytest.mark.parametrize(
    ("reads", "writes"),
    [
        ("v_mov_b32_e32 v2, v7", "v_add_u32_e32 v7, 3, v0"),
        ("v_accvgpr_read_b32 v2, a2", "v_accvgpr_write_b32 a2, 3"),
        (INDEXED.format(which=1, operands="v2, v1"), INDEXED.format(which=8, operands="v1, 3")),
    ],
    ids=["v7", "a2", "v7 by an index"],
)
def test_each_workgroup_begins_with_zeros(reads: str, writes: str) -> None:
    """Also where the one before it has come to instructions that write more registers than those before."""
    text = ["s_load_dwordx2 s[4:5], s[0:1], 0x0", "v_lshlrev_b32_e32 v1, 2, v0", "s_lshl_b32 s6, s2, 8"]
    text += [reads, "v_add_u32_e32 v1, s6, v1", "global_store_dword v1, v2, s[4:5]", writes]
    result = run_code("\n".join(text), data=b"\xff" * 256 * 5, workgroups=5)
    assert result.fault == "none" and result.data == bytes(256 * 5)


@pytest.mark.parametrize("active", ["all lanes", "some lanes"])
@pytest.mark.parametrize(
    "reads",
    [
        [
            "v_add_u32_e32 v2, 4, v1",
            "ds_read_b32 v3, v2 offset:4",
            "v_mov_b32_e32 v2, 0",
            "ds_read_b32 v4, v2",
        ],
        ["s_mov_b64 s[6:7], 0x4000", "global_load_dword v3, v1, s[6:7]", "v_add_u32_e32 v2, 4, v1"],
        ["v_add_u32_e32 v2, 4, v1", "s_mov_b64 s[6:7], 0x4000", "s_load_dword s8, s[6:7], 0x10"],
        ["s_mov_b64 s[6:7], 0x4000", "v_add_u32_e32 v2, 4, v1", "global_store_dword v2, v1, s[6:7]"],
        [
            "s_getpc_b64 s[6:7]",
            "s_and_b32 s6, s6, 0xffffff00",
            *["s_nop 0"] * LANES,  # code, which can be read
            "global_load_dword v2, v1, s[6:7]",
            "global_store_dword v1, v2, s[6:7]",
        ],
    ],
)
def test_what_a_stretch_cannot_reach_is_named(reads: list[str], active: str) -> None:
    """By the instruction's own text, pc and address, although rows before it have run on."""
    start = [f"s_mov_b64 exec, {EXEC[active]}", "v_lshlrev_b32_e32 v1, 2, v0"]
    together, alone = (
        run_code("\n".join(text), lds=108)
        for text in ([*start, *reads], [*start, "s_set_gpr_idx_on s30, 0x0", *reads])
    )
    assert together.fault in ("aperture", "memory")
    assert (together.fault, together.address, together.text) == (alone.fault, alone.address, alone.text)
    assert together.pc == alone.pc - 4


def test_a_loop_that_runs_as_one_ends() -> None:
    loop = ["s_mov_b32 s6, 0", "v_mov_b32_e32 v128, 0", "again: v_add_u32_e32 v128, s6, v128"]
    loop += ["s_add_u32 s6, s6, 1", "s_cmp_lg_u32 s6, 1000", "s_cbranch_scc1 again"]
    nothing = np.zeros((1, LANES), np.uint32)
    assert (registers("\n".join(loop), nothing, 1, "gfx90a") == 499500).all()


@pytest.mark.parametrize(
    "chooses", ["v_cmp_gt_u32_e64 exec, 9, v0", "v_cmpx_gt_u32_e32 9, v0", "s_mov_b64 exec, 15"]
)
def test_what_chooses_lanes_counts_for_what_follows(chooses: str) -> None:
    text = ["v_mov_b32_e32 v128, 1", chooses, "v_mov_b32_e32 v128, 2", "v_add_u32_e32 v128, v128, v0"]
    [got] = registers("\n".join(text), np.zeros((1, LANES), np.uint32), 1, "gfx90a")
    active = np.arange(LANES) < (4 if chooses.startswith("s_") else 9)
    np.testing.assert_array_equal(got, np.where(active, np.arange(LANES) + 2, 1))
