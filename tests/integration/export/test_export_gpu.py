"""Exported projects on a real GPU: nvcc programs by CMake, Triton scripts, where there is no kerncap."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kerncap.format import LaunchRange
from tests.integration.conftest import CommandLine
from tests.integration.cuda.gpu.captured import TARGETS, build, capture, libcuda, nvcc, toolkit

from .bare import Bare
from .conftest import Capture, sample
from .test_native import build as build_project
from .test_script import export

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(280)]

HERE = Path(__file__).parent
KERNELS = {
    "several.cu": ("kc_add", "kc_table", "kc_struct_in_memory", "kc_large_shared", "kc_managed", "kc_pinned"),
    "launches.cu": ("kc_cooperative", "10kc_cluster"),
    "variables.cu": ("kc_variables",),
}
NOTHING = "__global__ void kc_add(const float*, const float*, float*, int) {}"


@pytest.fixture(scope="module")
def projects(kerncap_of_module: CommandLine) -> dict[str, Path]:
    """The build folder of each kernel's project."""
    captures = {}
    for first, wanted in KERNELS.items():
        program = build(*((first, "variables_other.cu") if first == "variables.cu" else (first,)))
        options = ("-k", "|".join(name.lstrip("10") for name in wanted), "--launch", "0:1")
        captures[first] = capture(kerncap_of_module, program, options=options)
    options = (
        f"-DCUDA_DRIVER={libcuda()}", f"-DCUDA_INCLUDE_DIR={toolkit() / 'include'}", f"-DNVCC={nvcc()}",
        "-DCMAKE_BUILD_TYPE=Release",
    )  # fmt: skip

    def made(first: str, name: str) -> tuple[str, Path]:
        reproducer = captures[first].one(name)
        folder = export(kerncap_of_module, reproducer, "cmake", kerncap_of_module.folder / f"p-{name}")
        return name, build_project(folder, *options).parent

    with ThreadPoolExecutor(4) as pool:
        names = [(first, name) for first, wanted in KERNELS.items() for name in wanted]
        return dict(pool.map(lambda each: made(*each), names))


@pytest.mark.parametrize("name", [name for wanted in KERNELS.values() for name in wanted])
def test_native(projects: dict[str, Path], name: str) -> None:
    [program] = projects[name].glob("replay_*")
    done = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0 and "Result: PASS" in done.stdout, done.stdout + done.stderr
    if name != "kc_managed":  # nothing is poisoned of what is read, too
        assert "bytes identical" in done.stdout, done.stdout


def test_launches_of_a_graph(kerncap_of_module: CommandLine, tmp_path: Path) -> None:
    """Triton's and torch's, in one program."""
    command = ("--graph", "1:1", "--", sys.executable, TARGETS / "torch_graphs.py")
    document = kerncap_of_module("capture", "--json", "-o", "graph", *command, timeout=250).document
    path = kerncap_of_module.folder / document["captured"][0]
    with LaunchRange.open(path) as opened:
        names = [launch.manifest.kernel.name for launch in opened.launches]
    folder = export(kerncap_of_module, path, "cmake", tmp_path / "project")
    program = build_project(
        folder, f"-DCUDA_DRIVER={libcuda()}", f"-DCUDA_INCLUDE_DIR={toolkit() / 'include'}"
    )
    done = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
    said = f"Result: PASS ({len(names)} launches in order: "
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr
    # Other code for one of them.
    nothing, number = tmp_path / "nothing.ptx", names.index("added")
    with LaunchRange.open(path) as opened:
        ptx = opened.launches[number].code("ptx")
    assert ptx is not None
    nothing.write_bytes(re.sub(rb"(?m)^.*\bst\.global.*$", b"", ptx))  # which stores nothing
    done = subprocess.run(
        [program, f"{number}={nothing}"], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 1 and f"FAIL (launch {number} (added): " in done.stdout, done.stdout


def test_rebuilt_from_source(projects: dict[str, Path], tmp_path: Path) -> None:
    folder = projects["kc_add"]
    [program] = folder.glob("replay_*")
    made = subprocess.run(
        ["cmake", "--build", folder, "--target", "rebuilt"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    done = subprocess.run([program, folder / "rebuilt.cubin"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Result: PASS" in done.stdout, done.stdout + done.stderr
    source, cubin = tmp_path / "nothing.cu", tmp_path / "nothing.cubin"
    source.write_text(NOTHING)
    subprocess.run([nvcc(), "-cubin", "-arch=native", source, "-o", cubin], check=True)
    done = subprocess.run([program, cubin], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Result: FAIL (" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["softmax", "flash_attention", "autotuned_matmul", "mixed"])
def test_script(
    kerncap_of_module: CommandLine, captured: Capture, bare: Bare, name: str, tmp_path: Path
) -> None:
    program = sample(name) if name != "mixed" else HERE / "targets" / "arguments.py"
    script = export(kerncap_of_module, captured(program), "script", tmp_path / "one.py")
    done = bare(script)
    assert done.status == 0 and "bytes identical" in done.result_line, done.stdout + done.stderr
    if name in ("softmax", "mixed"):  # those that round the same way everywhere
        interpreted = bare(script, env={"TRITON_INTERPRET": "1"})
        assert interpreted.status == 0, interpreted.stdout + interpreted.stderr
    text = re.sub(r"^GRID = .*", "GRID = (0, 1, 1)", script.read_text(), flags=re.MULTILINE)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(text)
    done = bare(wrong)
    assert done.status == 1 and "Result: FAIL (" in done.stdout, done.stdout + done.stderr
