"""`verify --candidate FILE.cu --prove`: a CUDA candidate is run, and proved equal to the captured kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.replay.candidates import tools
from tests.integration.cuda.conftest import Bench
from tests.unit.replay.native import Native

N = 1000
KERNEL = "_Z10vector_addPKfS0_Pfi"
CAPTURED = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry {KERNEL}(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n) {{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n];
    setp.ge.s32 %p1, %r4, %r5;
    @%p1 bra end;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [out];
    mul.wide.s32 %rd4, %r4, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    add.s64 %rd7, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5];
    ld.global.f32 %f2, [%rd6];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd7], %f3;
end:
    ret;
}}
"""
SOURCE = """
__global__ void vector_add(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
STRIDED = """
__global__ void vector_add(const float *a, const float *b, float *out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = b[i] + a[i];
}
"""


def captured(folder: Path, source: str | None = None) -> Path:
    a, b = (np.arange(N, dtype=np.float32) * scale for scale in (1, 2))
    code = {"ptx": CAPTURED.encode()}
    launch = Native(KERNEL, grid=(8, 1, 1), block=(128, 1, 1), code=code, source=source)
    return launch.array(a).array(b).array(np.zeros(N, np.float32), a + b).integer(N).seal(folder)


def judged(bench: Bench, path: Path, candidate: Path) -> dict[str, Any]:
    return bench.judge(path, "--candidate", candidate, "--prove", "--stages", "smoke", "--trust")


@pytest.mark.long
def test_a_source_of_cuda(bench: Bench, tmp_path: Path) -> None:
    found = tools.nvcc()
    if isinstance(found, str):
        pytest.skip(found)
    candidate = tmp_path / "strided.cu"
    candidate.write_text(STRIDED)
    document = judged(bench, captured(tmp_path / "captured", SOURCE), candidate)
    assert document["result"] == "pass", document
    [smoke, proof] = document["stages"]
    assert (smoke["name"], proof["name"]) == ("smoke", "proof")
    assert proof["shown"][0].startswith("PROVED equal over the reals, for all float values")


def test_ptx_of_another_function(bench: Bench, tmp_path: Path) -> None:
    candidate = tmp_path / "other.ptx"
    candidate.write_text(CAPTURED.replace("add.f32", "sub.f32"))
    document = judged(bench, captured(tmp_path / "captured"), candidate)
    assert document["result"] == "fail", document
    assert "not the same function" in document["stages"][1]["reasons"][0]
