"""`blame` of CUDA kernels on an NVIDIA GPU: the option, the level of ptxas or the image that is to blame."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.blame.test_blame import rows
from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]

# A denormal number that --ftz=true makes zero, an argument for which the fast sine is of no use, and a kernel
# that no option changes but by rounding; and blocks that take places in the order in which they come.
PROGRAM = '''
import sys
import torch

SOURCE = """
__global__ void denormal(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 0.5f * 1e30f;
}
__global__ void wave(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + sinf(i * 100.0f);
}
__global__ void healthy(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = i + 1.0f;
  if (i < n) y[i] = a * a + 0.25f * a;
}
__global__ void queue(int* next, int* places, int n) {
  if (threadIdx.x == 0) places[atomicAdd(next, 1)] = blockIdx.x;
}
"""
name, *options = sys.argv[1:]
kernel = torch.cuda._compile_kernel(SOURCE, name, nvcc_options=options)
n = 4096
if name == "queue":
    next, places = (torch.zeros(size, dtype=torch.int32, device="cuda") for size in (1, n))
    kernel((n, 1, 1), (32, 1, 1), [next, places, n])
else:
    x = torch.full((n,), 1e-39, device="cuda") * (1 + torch.arange(n, device="cuda") % 7)
    y = torch.empty(n, device="cuda")
    kernel((n // 256, 1, 1), (256, 1, 1), [x, y, n])
torch.cuda.synchronize()
'''
LEVELS = ["ptxas -O1", "ptxas -O2", "ptxas -O3"]


@pytest.fixture(scope="module")
def program(kerncap_of_module: CommandLine) -> Path:
    path = kerncap_of_module.folder / "compiled_here.py"
    path.write_text(PROGRAM)
    return path


def captured(kerncap: CommandLine, program: Path, name: str, *options: str) -> Path:
    done = kerncap(
        "capture", "--json", "--no-self-check", "-o", f"out-{name}", "-k", f"^{name}$", "--",
        sys.executable, program, name, *options,
    )  # fmt: skip
    [path] = done.document["captured"]
    return kerncap.folder / path


def blamed(kerncap: CommandLine, path: Path, *options: str | Path) -> dict[str, Any]:
    [run] = kerncap("blame", "--json", *options, path).document["runs"]
    return dict(run)


def test_no_build_of_a_healthy_kernel_differs(kerncap: CommandLine, program: Path) -> None:
    run = blamed(kerncap, captured(kerncap, program, "healthy"))
    found = rows(run)
    print(run["compiler"], found)
    assert ["IEEE arithmetic, ptxas -O0", "--fmad=true", *LEVELS] == list(found)[:5], run
    assert list(found)[-1] == "captured image" and "differs" not in found.values(), run
    assert run["result"] == "pass" and run["guilty"] is None and run["compiler"], run


def test_the_option_that_flushes_denormals_is_named(kerncap: CommandLine, program: Path) -> None:
    path = captured(kerncap, program, "denormal", "--ftz=true")
    run = blamed(kerncap, path, "-o", "report")
    assert run["guilty"]["stage"] == "--ftz=true" and "author" in run["guilty"]["to"], run
    assert "[0]: " in run["guilty"]["place"], run
    report = kerncap.folder / "report"
    assert "--ftz=true differs from --fmad=true" in (report / "report.md").read_text()
    assert "void denormal" in (report / "source.cu").read_text()
    assert zipfile.is_zipfile(report / "reproducer.zip")


def test_fast_functions_are_told_from_what_else_fast_math_does(kerncap: CommandLine, program: Path) -> None:
    run = blamed(kerncap, captured(kerncap, program, "wave", "--use_fast_math"))
    assert run["guilty"]["stage"] == "--use_fast_math", run
    assert list(rows(run))[4:6] == ["--prec-sqrt=false", "--use_fast_math"], run


def test_a_candidate_with_another_result_is_the_sources_fault(kerncap: CommandLine, program: Path) -> None:
    path = captured(kerncap, program, "healthy")
    [source] = [
        one for one in (path / "source").rglob("*") if one.is_file() and "void healthy" in one.read_text()
    ]
    wrong = kerncap.folder / "wrong.cu"
    wrong.write_text(source.read_text().replace("0.25f * a", "0.5f * a"))
    run = blamed(kerncap, path, "--candidate", wrong)
    assert run["guilty"]["stage"] == "source" and "in any build" in run["guilty"]["what"], run
    wrong.write_text(source.read_text().replace("0.25f * a", "quarter * a"))
    run = blamed(kerncap, path, "--candidate", wrong)
    assert "does not compile" in run["guilty"]["what"] and "quarter" in run["guilty"]["what"], run


def test_blocks_in_any_order_are_no_fault_of_ptxas(kerncap: CommandLine, program: Path) -> None:
    run = blamed(kerncap, captured(kerncap, program, "queue"))
    assert "varies from run to run" in run["guilty"]["what"] and "author" in run["guilty"]["to"], run
