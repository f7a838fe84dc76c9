"""HIP sources with launch lines, in place of the launches of a range: one launch of a HIP graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.parameters import first_of

from .conftest import Bench, Programs

N = 500

# The graph's three kernels as one, which writes their intermediate results too.
FUSED = """
#include <hip/hip_runtime.h>
// kerncap: replaces 0:3
// kerncap: launch ours::fused<<<dim3(8, 1), 64>>>(0.arg0, 0.arg1, 1.arg1,
//     2.arg2, 0.arg2, 500)
namespace ours {
__global__ void fused(const float* x, float* y, float* side, float* out, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = x[i] * factor;
  side[i] = x[(i + 1) % n] * factor;
  out[i] = y[i] + side[i];
}
}
"""

# Two launches, of which the second reads what the first left in the module's memory.
TWO = """
#include <hip/hip_runtime.h>
// kerncap: replaces 1:3
// kerncap: launch first<<<8, 64, 256>>>(0.arg1, 500)
// kerncap: launch second<<<8, 64>>>(0.arg1, 1.arg1, 2.arg2, 500)
__device__ float kept[500];
extern __shared__ float line[];
extern "C" __global__ void first(const float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  line[threadIdx.x] = y[(i + 1) % n];
  __syncthreads();
  if (i < n) kept[i] = line[threadIdx.x];
}
__global__ void second(const float* y, float* side, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  side[i] = kept[i];
  out[i] = y[i] + kept[i];
}
"""


@pytest.fixture(scope="module")
def graph(shared_bench: Bench, programs: Programs) -> Path:
    run = shared_bench.capture("--graph", "1:1", program=(str(programs("graphs")),))
    return run.path


def verified(bench: Bench, path: Path, candidate: str, *options: str) -> dict[str, Any]:
    (bench.kerncap.folder / "c.hip").write_text(candidate)
    return bench("verify", "--json", path, "--candidate", "c.hip", *options, extra=_emulator(bench)).judged


def _emulator(bench: Bench) -> dict[str, str]:
    return {"KERNCAP_AMD_EMULATOR": str(bench.rig.folder)}


@pytest.mark.parametrize("options", [(), pytest.param(("--hostile",), marks=pytest.mark.long)])
def test_a_fused_kernel_passes(bench: Bench, graph: Path, options: tuple[str, ...]) -> None:
    found = verified(bench, graph, FUSED, *options)
    assert (found["result"], found["engine"]) == ("pass", "binary"), found
    assert "ours::fused in place of launches 0 (scaled), 1 (shifted), 2 (added)" in found["notes"], found
    assert any("on other values of" in said for said in found["stages"][1]["shown"]), found["stages"]


def test_launches_of_a_source_share_its_variables(bench: Bench, graph: Path) -> None:
    found = verified(bench, graph, TWO)
    assert found["result"] == "pass", found
    assert "first, second in place of launches 1 (shifted), 2 (added)" in found["notes"], found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("out[i] = y[i] + side[i]", "out[i] = y[i] - side[i]", "2.arg2: "),
        ("500)\n", "499)\n", "2.arg2[499]"),
        ("side[i] = ", "*(volatile float*)8 = ", "candidate's line 4: "),  # a fault
    ],
)
def test_a_wrong_one_fails_and_the_place_is_named(
    bench: Bench, graph: Path, old: str, new: str, said: str
) -> None:
    assert old in FUSED
    found = verified(bench, graph, FUSED.replace(old, new))
    assert found["result"] == "fail" and said in found["summary"], found


def test_one_that_leaves_an_intermediate_out(bench: Bench, graph: Path) -> None:
    found = verified(bench, graph, FUSED.replace("side[i] = ", "float next = ").replace("side[i]", "next"))
    assert found["result"] == "undecided" and "--intermediate 1.arg1 says" in found["summary"], found


@first_of(
    ("old", "new", "said"),
    [
        ("float factor", "flaot factor", "does not compile the candidate: "),
        ("launch ours::fused", "launch theirs::fused", "no one kernel is theirs::fused; the source has ours"),
        ("0.arg2, 500", "0.arg2", "takes 6 arguments (x, y, side, out, factor, n), 5 are passed"),
        ("0.arg2, 500", "0.arg2, 1.5", "argument 6 (n): 1.5 is not an int32"),
        ("0.arg2, 500", "0.arg1, 500", "argument 5 (factor): float32 in the source, and memory is passed"),
        ("(0.arg0", "(0", "argument 1 (x): a pointer in the source, and a number is passed"),
    ],
)
def test_one_that_can_not_be_launched(bench: Bench, graph: Path, old: str, new: str, said: str) -> None:
    assert old in FUSED
    found = verified(bench, graph, FUSED.replace(old, new))
    assert found["result"] == "fail" and said in found["summary"], found


def test_a_line_that_says_no_launch(bench: Bench, graph: Path) -> None:
    for old, new, said in (
        ("64>>>", "64, 0, stream>>>", "c.hip, line 4: a stream"),
        ("(0.arg0", "(3.arg0", "c.hip: line 4: argument 1: the range has the launches 0 to 2, and no 3"),
        ("kerncap: ", "", "c.hip: no comment `// kerncap: launch"),
    ):
        (bench.kerncap.folder / "c.hip").write_text(FUSED.replace(old, new))
        done = bench("verify", graph, "--candidate", "c.hip", extra=_emulator(bench))
        assert done.status == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.long
def test_the_numbers_of_a_source_are_searched(bench: Bench, graph: Path) -> None:
    """Of fewer threads than elements the result is wrong."""
    (bench.kerncap.folder / "c.hip").write_text(
        "#define THREADS 64\n" + FUSED.replace("dim3(8, 1), 64>>>", "8, THREADS>>>")
    )
    options = ("--candidate", "c.hip", "--bound", "THREADS=32:128")
    found = bench("tune", "--json", graph, *options, extra=_emulator(bench)).document
    states = {trial["point"]["THREADS"]: trial["state"] for trial in found["trials"]}
    assert states.pop(32) == "wrong" and set(states.values()) <= {"timed", "slow"}, found
    assert found["result"] == "pass" and found["shapes"][0]["best"] is not None, found
