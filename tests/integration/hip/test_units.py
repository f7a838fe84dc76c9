"""Device code of two units, linked (-fgpu-rdc): only one of them is stored, and is rebuilt alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import Bench

HEADER = "__device__ float shaped(float);\n__device__ float bent(float);\n"
OTHER = """#include <hip/hip_runtime.h>
#include "shapes.h"
__device__ float shaped(float x) { return x * x + 1.0f; }
__device__ float bent(float x) { return x * 3.0f; }
"""
MAIN = """#include <hip/hip_runtime.h>
#include "shapes.h"
__global__ void plain(float *x, float f) { x[threadIdx.x] = x[threadIdx.x] * f + 3.0f * x[threadIdx.x]; }
__global__ void calls(float *x, float f) { x[threadIdx.x] = shaped(x[threadIdx.x]) * f; }
static __global__ void hidden(float *x) { x[threadIdx.x] += 2.0f; }
int main() {
  float values[64], *x;
  for (int i = 0; i < 64; ++i) values[i] = i * 0.5f;
  if (hipMalloc(reinterpret_cast<void**>(&x), sizeof values) != hipSuccess) return 1;
  if (hipMemcpy(x, values, sizeof values, hipMemcpyHostToDevice) != hipSuccess) return 1;
  plain<<<1, 64>>>(x, 2.0f);
  calls<<<1, 64>>>(x, 0.5f);
  hidden<<<1, 64>>>(x);
  return hipDeviceSynchronize() != hipSuccess;
}
"""


@pytest.fixture(scope="module")
def captured(shared_bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("units")
    for name, text in {"shapes.h": HEADER, "main.hip": MAIN, "other.hip": OTHER}.items():
        (folder / name).write_text(text)
    rig, commands = shared_bench.rig, []
    for name in ("main", "other"):
        words = rig.compile_command(folder / f"{name}.hip", flags=("-fgpu-rdc",))
        commands.append([*words, "-c", f"{name}.hip", "-o", f"{name}.o"])
    entry = {"directory": str(folder), "file": "main.hip", "arguments": commands[0]}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    link = [rig.hipcc, "-fgpu-rdc", "--hip-link", "--offload-arch=gfx90a", "main.o", "other.o", "-o", "app"]
    libraries = [f"-L{rig.library_dir}", "-l:libamdhip64.so.6", "-Wl,--allow-shlib-undefined"]
    for command in (*commands, [*link, *libraries]):
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "HIP_PLATFORM": "amd"}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    names = ("plain", "calls", "hidden")
    run = shared_bench.capture("-o", "out-units", program=(folder / "app",), expect=len(names))
    return {manifest.kernel.name: path for path, manifest in run.manifests().items()}


def edited(reproducer: Path, folder: Path, old: str, new: str) -> Path:
    """The captured unit with an edit, at a place of its own."""
    (unit,) = (reproducer / "source").rglob("main.hip")
    folder.mkdir()
    shutil.copy(unit.with_name("shapes.h"), folder)
    text = unit.read_text()
    assert text.count(old) == 1, old
    (folder / "main.hip").write_text(text.replace(old, new))
    return folder / "main.hip"


@pytest.mark.parametrize(
    ("new", "result"),
    [
        ("3.0f * x[threadIdx.x]", "pass"),
        ("x[threadIdx.x] * 3.0f", "pass"),
        ("4.0f * x[threadIdx.x]", "fail"),
        ("bend(x[threadIdx.x])", "fail"),
    ],
    ids=["unedited", "right", "wrong", "typo"],
)
def test_a_kernel_that_needs_nothing_of_the_other_unit_is_judged(
    bench: Bench, captured: dict[str, Path], tmp_path: Path, new: str, result: str
) -> None:
    candidate = edited(captured["plain"], tmp_path / "mine", "3.0f * x[threadIdx.x]", new)
    document = bench.judge(captured["plain"], "--candidate", candidate)
    assert document["result"] == result, document
    assert ("undeclared identifier 'bend'" in document["summary"]) == ("bend" in new)


@pytest.mark.parametrize(
    ("kernel", "old", "new", "said"),
    [
        (
            "plain",
            "3.0f * x[threadIdx.x]",
            "bent(x[threadIdx.x])",
            "plain needs bent, which its unit does not",
        ),
        ("calls", "* f; }\nstatic", "* f; }\nstatic", "calls needs shaped, which its unit does not define"),
        ("calls", "shaped(", "bent(", "calls needs bent, which its unit does not define"),
        ("hidden", "+= 2.0f", "+= 2.0f", "-fgpu-rdc named _ZL6hiddenPf _ZL6hiddenPf.intern."),
    ],
    ids=["newly", "unedited", "in its place", "static"],
)
def test_what_the_other_unit_has_is_no_mistake_of_a_candidate(
    bench: Bench, captured: dict[str, Path], tmp_path: Path, kernel: str, old: str, new: str, said: str
) -> None:
    candidate = edited(captured[kernel], tmp_path / "mine", old, new)
    done = bench("verify", captured[kernel], "--emulator", bench.rig.folder, "--candidate", candidate)
    assert done.status == 4, done.stdout
    assert said in done.stderr
