"""Dynamic LDS of as much as a workgroup can have: 160 KiB on gfx950, 64 KiB before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.rigs import amd_gpu

from .conftest import Bench, Programs
from .replay_launches import by_hiprtc

KIB = 1024
SOURCE = """
extern "C" __global__ void reverse(int* x, int n) {
  extern __shared__ int tile[];
  for (int i = threadIdx.x; i < n; i += 1024) tile[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 1024) x[i] = tile[n - 1 - i];
}
"""
WRONG = ("tile[n - 1 - i]", "tile[n - 1 - i] + (i == 40000 || i == 100)")
STATIC = ("  for", "  __shared__ int more[64];\n  more[threadIdx.x % 64] = n;\n  x[0] = more[n % 64];\n  for")


@pytest.mark.parametrize(
    ("arch", "rocm", "most"),
    [("gfx942", 6, 64 * KIB), pytest.param("gfx950", 7, 160 * KIB, marks=pytest.mark.long)],
)
def test_all_of_a_workgroups_lds(
    kerncap: CommandLine, shim: Path, programs: Programs, tmp_path: Path, arch: str, rocm: int, most: int
) -> None:
    rig = amd_gpu.find(rocm)
    if isinstance(rig, str):
        pytest.skip(rig)
    assert shim.is_file()

    def code(name: str, *edits: tuple[str, str]) -> Path:
        text = SOURCE
        for old, new in edits:
            text = text.replace(old, new, 1)
        file = tmp_path / f"{name}.hsaco"
        file.write_bytes(by_hiprtc(text, arch, rig.folder, tmp_path))
        return file

    bench, program, unedited = Bench(kerncap, rig), programs("large_lds"), code("unedited")
    gpu = {"AMD_GPU_GFX": arch}
    run = bench.capture("-k", "reverse", program=(program, unedited, str(most)), extra=gpu)
    [(path, manifest)] = run.manifests().items()
    assert manifest.launch.shared_bytes == most
    assert bench.judge(path)["result"] == "pass"
    assert bench.judge(path, "--candidate", unedited)["result"] == "pass"
    document = bench.judge(path, "--candidate", code("wrong", WRONG))
    assert document["result"] == "fail" and "bytes differ" in document["summary"], document
    # A candidate with LDS of its own needs more than there is.
    done = bench("verify", path, "--candidate", code("static", STATIC), "--emulator", rig.folder)
    assert f"needs {most + 256:,} bytes of LDS, this device has {most:,}" in done.stdout + done.stderr
    # More than that HIP itself refuses, so there is no launch.
    refused = bench.run(program, unedited, str(most + 4), extra=gpu)
    assert refused.status == 1 and "hipModuleLaunchKernel" in refused.stderr
