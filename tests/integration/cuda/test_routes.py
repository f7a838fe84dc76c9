"""Every way to find, load and launch a kernel ends in the same reproducer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.cuda.conftest import Bench
from tests.native.building import TOOLS
from tests.parameters import first_of

FOUND = ["dlsym", "dlsym_default", "dlsym_ptsz", "proc_address", "proc_address_ptsz", "proc_address_v1"]
FOUND += ["proc_address_nested"]
LOADED = [
    "library_kernel",
    "library_function",
    "library_module",
    "load_data_ex",
    "link",
    "freed_image",
    "extra",
]


@first_of("route", FOUND + LOADED)
def test_a_vector_add_by(bench: Bench, route: str) -> None:
    captured = bench.capture("-k", "vector_add", client=("routes", route))
    manifest = captured.manifest()
    assert manifest.kernel.mangled == "_Z10vector_addPKfS0_Pfi"
    parameters = manifest.launch.parameters
    assert parameters is not None and len(bytes.fromhex(parameters.bytes)) == 28
    assert parameters.layout == ((0, 8), (8, 8), (16, 8), (24, 4))
    assert manifest.code, "the image comes along"
    bench.passes(captured.path)


@first_of("way", ["LD_PRELOAD", "CUDA_INJECTION64_PATH"])
def test_either_way_in_is_enough(bench: Bench, shim: Path, way: str) -> None:
    other = {"LD_PRELOAD", "CUDA_INJECTION64_PATH"} - {way}
    without = [f"-u{name}" for name in sorted(other)]
    program = shutil.which("env")
    assert program is not None
    captured = bench.capture("-k", "vector_add", client=(program, *without, bench.rig.client("vector_add")))
    bench.passes(captured.path)
    assert shim.name == "libkerncap_cuda.so"


def test_launch_attributes_reach_the_replay(bench: Bench) -> None:
    captured = bench.capture("-k", "shape", client=("routes", "ex_attributes"))
    launch = captured.manifest().launch
    assert launch.cluster == (2, 1, 1) and launch.cooperative
    assert (launch.grid, launch.block, launch.shared_bytes) == ((4, 2, 1), (32, 2, 1), 64)
    assert {attribute.id for attribute in launch.attributes} >= {4, 2}
    # The kernel writes what it was launched with: a replay without the attributes would differ.
    bench.passes(captured.path)


@pytest.mark.long
@pytest.mark.parametrize("route", ["cooperative", "ex"])
def test_other_launch_functions(bench: Bench, route: str) -> None:
    captured = bench.capture("-k", "shape", client=("routes", route))
    assert captured.manifest().launch.cooperative == (route == "cooperative")
    bench.passes(captured.path)


@pytest.fixture(scope="module")
def nvcc() -> str:
    found = shutil.which("nvcc", path=TOOLS + ":/usr/local/cuda/bin")
    if found is None:
        pytest.skip("needs nvcc to compile an image")
    return found


SOURCE = """
__global__ void vector_add(const float* a, const float* b, float* out, int n) { if (n < 0) *out = *a + *b; }
"""


@pytest.mark.long
@pytest.mark.parametrize("route", ["file", "library_file"])
@pytest.mark.parametrize("form", ["cubin", "fatbin", "ptx"])
def test_images_of_the_toolkit(bench: Bench, nvcc: str, tmp_path: Path, form: str, route: str) -> None:
    source, image = tmp_path / "add.cu", tmp_path / f"add.{form}"
    source.write_text(SOURCE)
    options = ["-arch=sm_90", "-Xfatbin=-compress=false"] if form != "ptx" else ["-arch=compute_90"]
    subprocess.run([nvcc, f"-{form}", *options, str(source), "-o", str(image)], check=True)
    captured = bench.capture("-k", "vector_add", client=("routes", route, image, "_Z10vector_addPKfS0_Pfi"))
    parameters = captured.manifest().launch.parameters
    assert parameters is not None and parameters.layout == ((0, 8), (8, 8), (16, 8), (24, 4))
    bench.passes(captured.path)
