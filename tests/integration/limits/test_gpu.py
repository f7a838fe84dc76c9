"""On an NVIDIA GPU: ceilings are measured, and reports agree with Nsight Compute where it is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kerncap.api.limits import limits
from kerncap.api.profile import profile
from kerncap.api.replay import ReplayOptions
from kerncap.replay.limits import ceilings, ncu, peaks
from kerncap.replay.limits.ncu_agreement import agreement
from kerncap.report.limits_text import render
from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "benchmarks" / "programs" / "limits_kernels.py"
SAXPY = """
import cupy
kernel = cupy.RawKernel(r'''
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}''', "saxpy")
n = 1 << 24
x, y = cupy.random.rand(n, dtype=cupy.float32), cupy.zeros(n, dtype=cupy.float32)
kernel((n // 256,), (256,), (x, y, cupy.float32(2), n))
cupy.cuda.Device().synchronize()
"""


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """One cache for the file: it is measured once."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def captured(kerncap: CommandLine, kernel: str, *command: str | Path) -> Path:
    done = kerncap(
        "capture", "--json", "-k", f"^{kernel}$", "--no-self-check", "-o", "out", "--",
        sys.executable, *command, timeout=300,
    )  # fmt: skip
    assert done.status == 0, done.stdout + done.stderr
    (path,) = done.document["captured"]
    return kerncap.folder / path


def test_ceilings_are_measured_once_and_kept() -> None:
    first = ceilings.of_device(sys.executable, 0)
    print(json.dumps(first.as_dict(), indent=2))
    assert ceilings.of_device(sys.executable, 0) == first == ceilings.read(Path(first.path))
    peak = peaks.dram_bytes_per_s(first)
    for name in ("dram_read_bytes_per_s", "dram_write_bytes_per_s", "dram_copy_bytes_per_s"):
        rate = first.rate(name)
        assert rate is not None, first.missing
        assert peak is None or 0.5 * peak < rate < 1.02 * peak, name
    l2, read = first.rate("l2_bytes_per_s"), first.rate("dram_read_bytes_per_s")
    assert l2 is not None and read is not None and l2 > read
    for kind in ("fp32", "fp64", "special", "tensor_fp16", "tensor_bf16", "tensor_tf32"):
        rate = first.rate(f"{kind}_per_s")
        assert rate is not None, first.missing
        promised = peaks.operations_per_s(first, kind)
        assert promised is None or 0.5 * promised < rate < 1.05 * promised, f"{kind}: {rate:.3g}"
    if first.arch == "sm_90":
        assert first.how["tensor_bf16_per_s"] == "wgmma"


@pytest.mark.parametrize("kernel", ["copy_kernel", "softmax_kernel", "matmul_kernel"])
def test_a_report_agrees_with_ncu(kerncap: CommandLine, kernel: str) -> None:
    if ncu.find() is None:
        pytest.skip("Nsight Compute is not installed")
    report = limits(captured(kerncap, kernel, PROGRAM), ReplayOptions(trust=True), counters="ncu")
    print(render(report))
    assert report.counted.exact, report.counted.notes
    bound = report.binding
    # This product is near both; which is longer is a matter of the card.
    assert bound is not None and bound.name in {"matmul_kernel": ("tensor bf16", "L2")}.get(kernel, ("DRAM",))
    assert report.achieved is not None and 0.5 < report.achieved < 1.05
    found = agreement(report)
    print(found)
    # ncu has no share of the cache's bandwidth.
    wanted = [one for one in found if one.what == bound.name or bound.name == "L2"]
    assert wanted and all(one.points < 5.0 for one in wanted), found


def test_a_native_launch_by_its_counters(kerncap: CommandLine) -> None:
    pytest.importorskip("cupy")
    if ncu.find() is None:
        pytest.skip("Nsight Compute is not installed")
    path = captured(kerncap, "saxpy", kerncap.target(SAXPY))
    report = limits(path, ReplayOptions(trust=True))
    print(render(report))
    assert report.counters is not None, report.notes
    assert report.work.dram_read_bytes == pytest.approx(4 << 24, rel=0.1)
    assert report.binding is not None and report.binding.name == "DRAM"


def test_a_profile_explains_a_copy(kerncap: CommandLine) -> None:
    if ncu.find() is None:
        pytest.skip("Nsight Compute is not installed")
    kept = kerncap.folder / "copy.ncu-rep"
    path = captured(kerncap, "copy_kernel", PROGRAM)
    result = profile(path, ReplayOptions(trust=True), output=kept)
    print(result.claims, sorted(result.row.metrics))
    assert kept.stat().st_size > 0
    first = result.claims[0]
    assert "memory-bound" in first.text and "dram_" in first.evidence[0][0]
    done = kerncap("profile", "--import-report", kept)
    assert done.status == 0 and "memory-bound" in done.stdout
