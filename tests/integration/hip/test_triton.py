"""Triton kernels on an AMD GPU, through Triton's own HIP driver: one reproducer with Triton's source and
configuration and the memory that HSA knows; its code object and its source agree with the application."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine
from tests.parameters import first_of
from tests.rigs import amd_gpu
from tests.rigs.amd_gpu import Rig

from .conftest import Bench

KERNELS = Path(__file__).with_name("triton_targets") / "kernels.py"
NAMES = ("softmax_kernel", "matmul_kernel", "layer_norm_kernel")
PROGRAM = (sys.executable, KERNELS, "softmax", "softmax", "matmul", "layer_norm")

MISSING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def environment(rig: Rig, arch: str = "gfx942") -> dict[str, str]:
    return {
        "AMD_GPU_GFX": arch,
        "TRITON_LIBHIP_PATH": str(rig.library_dir / "libamdhip64.so"),
        "TRITON_INTERPRET": "0",
    }


@pytest.fixture(scope="module")
def captured(shared_bench: Bench, rig: Rig) -> dict[str, Path]:
    """One run of all kernels; reproducers by the kernel's name."""
    done = shared_bench.capture(program=PROGRAM, extra=environment(rig), expect=len(NAMES))
    assert all(f"{name}: right on gfx942" in done.done.stderr for name in ("softmax", "matmul", "layer_norm"))
    return {manifest.kernel.name: path for path, manifest in done.manifests().items()}


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_one_reproducer_has_both_sides(captured: dict[str, Path], name: str) -> None:
    with Reproducer.open(captured[name]) as reproducer:
        manifest = reproducer.manifest
        assert (manifest.kernel.language, manifest.device.kind, manifest.device.arch) == (
            "triton",
            "hip",
            "gfx942",
        )
        assert manifest.launch.mode == "jit" and manifest.closure.consistency == "gated"
        assert manifest.launch.dispatch is not None and manifest.launch.block is not None
        stages = {code.stage for code in manifest.code}
        assert {"ttir", "ttgir", "llir", "amdgcn", "hsaco"} <= stages
        assert manifest.source is not None and f"def {name}(" in (reproducer.source_text() or "")
        tensors = [view for view in manifest.views if view.name]
        assert {view.dtype for view in tensors} <= {"float32", "float16", "bfloat16"} and len(tensors) >= 2
        assert all(manifest.regions[view.region].kind == "device" for view in tensors)
        assert any(reproducer.chunks_changed(region) for region in range(len(manifest.regions)))


@first_of("engine", ["binary", "jit"])
@first_of("name", NAMES)
def test_code_object_and_source_agree_with_the_application(
    shared_bench: Bench, captured: dict[str, Path], name: str, engine: str
) -> None:
    document = shared_bench.judge(captured[name], "--engine", engine)
    assert document["result"] == "pass", document
    assert document["engine"] == engine


def test_limits_are_those_that_amd_publishes(shared_bench: Bench, captured: dict[str, Path]) -> None:
    """What an empty launch takes is not known, so that a short one is not promised to be faster."""
    extra = {"KERNCAP_AMD_EMULATOR": str(shared_bench.rig.folder)}
    run = shared_bench("replay", "--limits", "--json", captured["matmul_kernel"], extra=extra).document
    assert run["device"] == "AMD Instinct MI300X (emulated)" and run["times_ms"]["warm"] > 0
    assert (run["ceilings"]["device"], run["ceilings"]["origin"]) == ("AMD Instinct MI300X", "published")
    bounds = {each["name"]: each for each in run["bounds"]}
    assert bounds["tensor fp16"]["measured_per_s"] == 2048 * 304 * 2.1e9
    assert run["binding"] == "DRAM" and run["headroom"] is None and run["latency_ms"] is None
    told = shared_bench("replay", "--limits", captured["matmul_kernel"], extra=extra).stdout
    assert "published for the AMD Instinct MI300X (304 compute units at 2,100 MHz), not measured" in told
    assert "faster here" not in told
    refused = shared_bench("replay", "--limits", "--measure-again", captured["matmul_kernel"], extra=extra)
    assert refused.status == 2 and "only NVIDIA GPUs are measured" in refused.stderr


def test_a_configuration_is_searched(shared_bench: Bench, captured: dict[str, Path]) -> None:
    """Of a row of 200 elements a tile of 128 is wrong; what is compiled needs no torch to be launched."""
    options = ("--pin", "num_warps=4", "--bound", "BLOCK=128:512", "--device", "hip:0")
    where = {"KERNCAP_AMD_EMULATOR": str(shared_bench.rig.folder)}
    found = shared_bench("tune", "--json", *options, captured["softmax_kernel"], extra=where).document
    states = {trial["point"]["BLOCK"]: trial["state"] for trial in found["trials"]}
    assert states.pop(128) == "wrong" and states.keys() == {256, 512}, found
    assert set(states.values()) <= {"timed", "slow"}, found
    assert found["result"] == "pass" and found["engine"] == "jit", found
    assert "the times are the emulator's, which say nothing of a GPU" in found["notes"]


@pytest.mark.long
def test_a_source_is_judged_in_other_configurations_and_sizes(
    shared_bench: Bench, captured: dict[str, Path], tmp_path: Path
) -> None:
    with Reproducer.open(captured["softmax_kernel"]) as reproducer:
        text = reproducer.source_text() or ""
    candidate = tmp_path / "candidate.py"
    options = ("--engine", "jit", "--candidate", candidate, "--stages", "oracle,shapes")
    for line, result in (("BLOCK=512 num_warps=8", "pass"), ("BLOCK=128", "fail")):  # of rows of 200
        candidate.write_text(f"# kerncap: {line}\n{text}")
        document = shared_bench.judge(captured["softmax_kernel"], *options)
        assert document["result"] == result, document
        shapes = document["stages"][-1]
        assert result == "fail" or "as the captured kernel on columns = 199" in shapes["shown"], shapes


@pytest.mark.long
def test_the_interpreter_takes_it_too(shared_bench: Bench, captured: dict[str, Path]) -> None:
    done = shared_bench("verify", "--engine", "interpreter", captured["softmax_kernel"])
    assert done.status == 0 and done.result_line.startswith("Result: PASS"), done.stdout + done.stderr


@first_of(
    ("name", "old", "new", "said"),
    [
        ("right", "top / tl.sum(top, axis=0)", "top * (1.0 / tl.sum(top, axis=0))", ""),
        ("wrong", "top / tl.sum(top, axis=0)", "top * 0.5", "differ"),
        ("no-op", "    at = tl.program_id(0)", "    return\n    at = tl.program_id(0)", "never written"),
        ("outside", "axis=0), mask=i < columns)", "axis=0))", "outside"),
        ("broken", "tl.exp(", "tl.exxp(", "exxp"),
    ],
)
def test_edited_sources_are_told_apart(
    shared_bench: Bench, captured: dict[str, Path], tmp_path: Path, name: str, old: str, new: str, said: str
) -> None:
    with Reproducer.open(captured["softmax_kernel"]) as reproducer:
        text = reproducer.source_text() or ""
    assert old in text
    candidate = tmp_path / f"{name.replace('-', '_')}.py"
    candidate.write_text(text.replace(old, new))
    document = shared_bench.judge(captured["softmax_kernel"], "--candidate", candidate)
    assert (document["result"] == "pass") == (not said), document
    assert said in " ".join(document["reasons"])


# A workgroup of one wavefront for each row; for two launches of Triton's softmax.
SOFTMAX = """
#include <hip/hip_runtime.h>
// kerncap: launch softmax<<<5, 64>>>(0.x_ptr, 0.y_ptr, 0.columns)
// kerncap: launch softmax<<<5, 64>>>(1.x_ptr, 1.y_ptr, 1.columns)
__global__ void softmax(const float* x, float* y, int n) {
  float top = -INFINITY, sum = 0;
  x += blockIdx.x * n, y += blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += 64) top = fmaxf(top, x[i]);
  for (int lane = 32; lane; lane /= 2) top = fmaxf(top, __shfl_xor(top, lane));
  for (int i = threadIdx.x; i < n; i += 64) sum += expf(x[i] - top);
  for (int lane = 32; lane; lane /= 2) sum += __shfl_xor(sum, lane);
  for (int i = threadIdx.x; i < n; i += 64) y[i] = expf(x[i] - top) / sum;
}
"""


@pytest.mark.long
def test_a_hip_source_in_place_of_a_ranges_launches(bench: Bench, rig: Rig) -> None:
    """On a GPU that the hipcc here compiles for."""
    program = (sys.executable, KERNELS, "softmax", "softmax")
    run = bench.capture("--launches", "0:2", program=program, extra=environment(rig, "gfx90a"))
    extra = {"KERNCAP_AMD_EMULATOR": str(bench.rig.folder), "AMD_GPU_GFX": "gfx90a"}
    for old, new, said in (("", "", ""), ("sum += expf", "sum = expf", "0.y_ptr: ")):
        (bench.kerncap.folder / "c.hip").write_text(SOFTMAX.replace(old, new))
        done = bench("verify", "--json", run.path, "--candidate", "c.hip", extra=extra)
        assert done.judged["result"] == ("fail" if said else "pass"), done.document
        assert said in done.document["summary"], done.document


MODULE = """
import triton
import triton.language as tl

LAUNCHES = [
    {
        "kernel": "both", "grid": [10],
        "arguments": {
            "x": "0.x_ptr", "y": "0.y_ptr", "more_x": "1.x_ptr", "more_y": "1.y_ptr",
            "n": "0.columns", "B": 256,
        },
    },
]

@triton.jit
def both(x, y, more_x, more_y, n, B: tl.constexpr):
    row = tl.program_id(0)
    if row >= 5:
        x, y = more_x, more_y
    at = (row % 5) * n + tl.arange(0, B)
    inside = tl.arange(0, B) < n
    v = tl.load(x + at, mask=inside, other=-float("inf"))
    top = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + at, top / tl.sum(top, axis=0), mask=inside)
"""


def test_a_module_in_place_of_a_ranges_launches(bench: Bench, rig: Rig) -> None:
    """Its kernel takes other arguments than the captured ones: they are passed as its code object says."""
    path = bench.capture("--launches", "0:2", program=PROGRAM, extra=environment(rig)).path
    module, extra = bench.kerncap.folder / "module.py", {"KERNCAP_AMD_EMULATOR": str(bench.rig.folder)}
    for old, new, said in (("", "", ""), ("row % 5", "row % 4", "0.y_ptr")):
        module.write_text(MODULE.replace(old, new))
        done = bench("verify", "--json", path, "--candidate", module, "--stages", "oracle", extra=extra)
        assert done.judged["result"] == ("fail" if said else "pass"), done.document
        assert said in done.document["summary"], done.document
    module.write_text(MODULE)
    options = ("--candidate", module, "--bound", "B=128:256", "--pin", "num_warps=4")
    found = bench("tune", "--json", path, *options, extra=extra).document
    assert {trial["point"]["B"]: trial["state"] for trial in found["trials"]} == {128: "wrong", 256: "timed"}
    assert found["result"] == "pass" and found["engine"] == "binary", found


@pytest.mark.long
def test_a_gfx950_with_its_own_instructions(kerncap: CommandLine, shim: Path) -> None:
    """HIP 6 does not know it. The code has transposing reads of LDS, wider MFMA and MFMA with scales."""
    rig = amd_gpu.find(7)
    if isinstance(rig, str):
        pytest.skip(rig)
    assert shim.is_file()
    bench = Bench(kerncap, rig)
    program = (sys.executable, KERNELS, "matmul", "scaled_matmul", "softmax")
    captured = bench.capture(program=program, extra=environment(rig, "gfx950"), expect=3)
    found = {manifest.kernel.name: path for path, manifest in captured.manifests().items()}
    used = ""
    for path in found.values():
        with Reproducer.open(path) as reproducer:
            assert reproducer.manifest.device.arch == "gfx950"
            used += (reproducer.code("amdgcn") or b"").decode()
        for engine in ("binary", "jit"):
            assert bench.judge(path, "--engine", engine)["result"] == "pass"
    for name in ("ds_read_b64_tr_b16", "ds_read_b64_tr_b8", "v_mfma_f32_32x32x16_f16", "v_mfma_scale_f32_"):
        assert name in used
    with Reproducer.open(found["scaled_matmul_kernel"]) as reproducer:
        text = reproducer.source_text() or ""
    candidate = kerncap.folder / "wrong.py"
    candidate.write_text(text.replace('"e2m1")', '"e2m1") + 1'))
    document = bench.judge(found["scaled_matmul_kernel"], "--candidate", candidate)
    assert document["result"] == "fail" and "differ" in " ".join(document["reasons"])
