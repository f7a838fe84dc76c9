"""Wave instructions that the emulated GPU runs in a second: python -m tests.native.amd_gpu.speed"""

from __future__ import annotations

from tests.native.amd_gpu.isa import run_code

ITERATIONS = 20000
START = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v3, 0\n"
BODIES = {
    "f32 arithmetic": ["v_fma_f32 v4, v5, v6, v4", "v_add_f32_e32 v5, v4, v6", "v_mul_f32_e32 v6, 0.5, v6"],
    "integers": ["v_add_u32_e32 v4, v5, v6", "v_lshlrev_b32_e32 v5, 3, v4", "v_and_b32_e32 v6, v4, v5"],
    "f16, packed": ["v_pk_fma_f16 v4, v5, v6, v4", "v_pk_add_f16 v5, v4, v6"],
    "global memory": ["global_load_dword v4, v1, s[4:5]", "global_store_dword v1, v4, s[4:5]"],
    "LDS": ["ds_write_b32 v1, v4", "ds_read_b32 v5, v1"],
    "comparisons": ["v_cmp_lt_f32_e32 vcc, v4, v5", "v_cndmask_b32_e32 v6, v4, v5, vcc"],
    "scalar": ["s_add_u32 s10, s10, 1", "s_and_b64 s[12:13], s[14:15], exec", "s_lshl_b32 s10, s10, 1"],
    "matrix (f16 32x32x8)": ["v_mfma_f32_32x32x8f16 v[32:47], v[4:5], v[6:7], v[32:47]"],
}


def measure(body: list[str]) -> float:
    """Wave instructions per second of a loop with this body; three more instructions make the loop."""
    iterations = ITERATIONS // 10 if "mfma" in body[0] else ITERATIONS
    loop = "\n".join(
        ["again:", *body * 4, "s_sub_u32 s8, s8, 1", "s_cmp_lg_u32 s8, 0", "s_cbranch_scc1 again"]
    )
    result = run_code(f"{START}s_mov_b32 s8, {iterations}\n{loop}", data=bytes(256), lds=256)
    assert result.fault == "none", result.text
    return iterations * (4 * len(body) + 3) / result.seconds


if __name__ == "__main__":
    for name, body in BODIES.items():
        print(f"{name:22} {measure(body) / 1e6:8.1f} M wave instructions/s")
