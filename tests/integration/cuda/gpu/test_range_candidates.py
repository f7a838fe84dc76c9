"""Fused kernels for launches of a range, of Triton and of CUDA C++, judged with their captured images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerncap.replay.candidates import tools
from tests.integration.conftest import CommandLine
from tests.integration.triton.test_range_candidates import ONE

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

MLP = Path(__file__).parents[4] / "samples" / "mlp"
FUSED = MLP / "fused.py"
NEEDED_NO_MORE = ("--intermediate", "0.y", "--intermediate", "1.c")


@pytest.fixture(scope="module")
def mlp(kerncap_of_module: CommandLine) -> Path:
    options = ("-k", "^(rms_norm|matmul|swiglu)$", "--launches", "3:6")
    [path] = kerncap_of_module.capture(*options, target=MLP / "run.py")
    return path


@pytest.mark.parametrize("options", [(), ("--hostile",)])
def test_a_fused_kernel_passes(kerncap: CommandLine, mlp: Path, options: tuple[str, ...]) -> None:
    found = kerncap("verify", "--json", mlp, "--candidate", FUSED, *NEEDED_NO_MORE, *options).judged
    assert (found["result"], found["engine"]) == ("pass", "binary"), found
    [_, oracle, *_] = found["stages"]
    assert any("on other values of" in said for said in oracle["shown"]), oracle


def test_it_is_open_whether_intermediates_are_needed(kerncap: CommandLine, mlp: Path) -> None:
    done = kerncap("verify", "--json", mlp, "--candidate", FUSED)
    assert done.status == 5 and "--intermediate 0.y --intermediate 1.c" in done.document["summary"]


@pytest.mark.parametrize(
    "old, new",
    [("1e-6", "1e-1"), ("tl.store(out + rows[:, None] * N", "tl.store(out + (rows[:, None] % 8) * N")],
)
def test_a_wrong_one_fails_and_the_place_is_named(
    kerncap: CommandLine, mlp: Path, old: str, new: str
) -> None:
    wrong = kerncap.folder / "wrong.py"
    wrong.write_text(FUSED.read_text().replace(old, new))
    found = kerncap("verify", "--json", mlp, "--candidate", wrong, *NEEDED_NO_MORE).judged
    assert found["result"] == "fail" and "2.out" in found["summary"], found


def test_one_that_does_not_compile(kerncap: CommandLine, mlp: Path) -> None:
    wrong = kerncap.folder / "wrong.py"
    wrong.write_text(FUSED.read_text().replace("tl.sigmoid(gate)", "tl.sigmoidal(gate)"))
    found = kerncap("verify", "--json", mlp, "--candidate", wrong, *NEEDED_NO_MORE).judged
    assert found["result"] == "fail" and "does not compile" in found["summary"], found


def test_a_fused_kernel_is_proved(kerncap: CommandLine, mlp: Path) -> None:
    """With the TTIR that was captured on one side."""
    (kerncap.folder / "one.py").write_text(ONE)
    options = ("--candidate", "one.py", "--intermediate", "1.c", "--prove")
    found = kerncap("verify", "--json", mlp, *options).judged
    assert (found["result"], found["engine"]) == ("pass", "binary"), found
    [proof] = [stage for stage in found["stages"] if stage["name"] == "proof"]
    assert proof["shown"][0].startswith("PROVED equal over the reals"), proof


# The same in CUDA C++: a block for each row; M = 16 rows, K = 32, N = 32 columns.
SOURCE = """
// kerncap: replaces 0:3
// kerncap: launch mlp<<<16, 32, 128>>>(0.x, 0.weight, 1.b, 2.out, 0.columns, 1e-6)
extern __shared__ float normed[];

__global__ void mlp(const float* x, const float* norm, const float* weight, float* out, int n, float eps) {
  int row = blockIdx.x, at = threadIdx.x;
  float value = x[row * n + at], sum = value * value;
  for (int lane = 16; lane; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
  normed[at] = value * (1.0f / sqrtf(sum / n + eps)) * norm[at];
  __syncthreads();
  float gate = 0, up = 0;
  for (int k = 0; k < n; ++k) {
    gate += normed[k] * weight[k * 2 * n + at];
    up += normed[k] * weight[k * 2 * n + n + at];
  }
  out[row * n + at] = gate / (1.0f + expf(-gate)) * up;
}
"""

# Two launches: the intermediate result is in a variable of the module.
IN_TWO = """
// kerncap: launch normalized<<<16, 32>>>(0.x, 0.weight, 32)
// kerncap: launch gated<<<dim3(16, 1, 1), dim3(32)>>>(1.b, 2.out,
//     32)
__device__ float kept[16 * 32];

template <class T>
__global__ void normalized(const T* x, const T* norm, int n) {
  int row = blockIdx.x, at = threadIdx.x;
  T value = x[row * n + at], sum = value * value;
  for (int lane = 16; lane; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
  kept[row * n + at] = value * (1.0f / sqrtf(sum / n + 1e-6f)) * norm[at];
}
template __global__ void normalized<float>(const float*, const float*, int);

extern "C" __global__ void gated(const float* weight, float* out, int n) {
  int row = blockIdx.x, at = threadIdx.x;
  float gate = 0, up = 0;
  for (int k = 0; k < n; ++k) {
    gate += kept[row * n + k] * weight[k * 2 * n + at];
    up += kept[row * n + k] * weight[k * 2 * n + n + at];
  }
  out[row * n + at] = gate / (1.0f + expf(-gate)) * up;
}
"""


@pytest.fixture(scope="module")
def nvcc() -> None:
    if isinstance(tools.nvcc(), str) and isinstance(found := tools.nvrtc(), str):
        pytest.skip(found)


def of_source(kerncap: CommandLine, mlp: Path, text: str, *options: str) -> dict[str, Any]:
    (kerncap.folder / "fused.cu").write_text(text)
    return kerncap("verify", "--json", mlp, "--candidate", "fused.cu", *NEEDED_NO_MORE, *options).judged


@pytest.mark.usefixtures("nvcc")
@pytest.mark.parametrize("options", [(), ("--hostile",)])
@pytest.mark.parametrize("text", [SOURCE, IN_TWO], ids=["one", "two"])
def test_a_fused_source_passes(kerncap: CommandLine, mlp: Path, text: str, options: tuple[str, ...]) -> None:
    found = of_source(kerncap, mlp, text, *options)
    assert (found["result"], found["engine"]) == ("pass", "binary"), found
    assert any("on other values of" in said for said in found["stages"][1]["shown"]), found


@pytest.mark.usefixtures("nvcc")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("1e-6)", "1e-1)", "2.out: "),
        ("row = blockIdx.x,", "row = blockIdx.x % 8,", "2.out[8, 0]"),
        ("  __syncthreads();\n", "  __trap();\n", ""),
        ("expf(-gate)", "epxf(-gate)", "does not compile the candidate: "),
        ("0.columns, 1e-6", "0.columns", "takes 6 arguments (x, norm, weight, out, n, eps), 5 are passed"),
    ],
)
def test_a_wrong_source_fails(kerncap: CommandLine, mlp: Path, old: str, new: str, said: str) -> None:
    assert old in SOURCE
    found = of_source(kerncap, mlp, SOURCE.replace(old, new))
    assert found["result"] == "fail" and said in found["summary"], found


def test_the_numbers_of_a_source_are_searched(kerncap: CommandLine, mlp: Path) -> None:
    """Rows for each block, which the launch follows; and one that is right as it is only."""
    if isinstance(found := tools.nvcc(), str):
        pytest.skip(found)
    text = SOURCE.replace("<<<16, 32, 128>>>", "<<<16 / ROWS, 32 * ROWS, 128 * ROWS>>>")
    for old, new in (
        ("extern __shared__ float normed[];", "extern __shared__ float shared[];"),
        ("row = blockIdx.x, at = threadIdx.x;",
         "row = blockIdx.x * ROWS + threadIdx.x / 32, at = threadIdx.x % 32;\n"
         "  float* normed = shared + threadIdx.x / 32 * n;"),
        ("* up;", "* up * (HALF / 2);"),
    ):  # fmt: skip
        assert old in text, old
        text = text.replace(old, new)
    (kerncap.folder / "fused.cu").write_text(f"#define ROWS 4\n#define HALF 2\n{text}")
    options = ("--bound", "ROWS=2:16", "--bound", "HALF=2:4", "--apply", "--json")
    done = kerncap("tune", mlp, "--candidate", "fused.cu", *NEEDED_NO_MORE, *options, timeout=250)
    assert done.status == 0, done.stderr
    found = done.document
    for trial in found["trials"]:
        expected = ("timed", "slow") if trial["point"]["HALF"] == 2 else ("wrong",)
        assert trial["state"] in expected, trial
    assert len(found["trials"]) == 8, found["trials"]
    [shape] = found["shapes"]
    assert shape["best"]["ms"] > 0 and shape["captured_ms"] > 0 and shape["best"]["speedup"], shape
    assert any(note.startswith("verify says pass of ROWS=") for note in found["notes"]), found["notes"]
