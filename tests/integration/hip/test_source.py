"""A captured launch's source, edited and recompiled at its original paths: the verdict follows the edit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from kerncap.format.schema import Source
from tests.integration.conftest import CommandLine

from .conftest import PROGRAMS, Bench, Programs

UNIT, ONE, TWO, GAIN = "src/blend.hip", "src/one/shape.h", "src/two/shape.h", "include/gain.h"
LIBRARY = PROGRAMS / "library"  # installed: a ROCm's include folder


@pytest.fixture(scope="module")
def project(shared_bench: Bench, programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program in its project, built for two architectures with a compile_commands.json."""
    folder = programs.project(tmp_path_factory.mktemp("sources") / "project", "blend")
    rig = shared_bench.rig
    words = ["--offload-arch=gfx90a", "--offload-arch=gfx906", "-g", "-O3", "-DOFFSET=0.5f", "-std=c++17"]
    folders = [f"-I{folder}/include", f"-I{LIBRARY}"]
    command = [rig.hipcc, *words, *folders, "-c", str(folder / UNIT), "-o", "blend.o"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "HIP_PLATFORM": "amd"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    link = ["g++", "blend.o", "-o", "blend", f"-L{rig.library_dir}", "-l:libamdhip64.so.6"]
    subprocess.run([*link, "-Wl,--allow-shlib-undefined"], cwd=folder, check=True)
    entry = {"directory": str(folder), "file": UNIT, "arguments": command}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    return folder


@pytest.fixture(scope="module")
def captured(shared_bench: Bench, project: Path) -> Iterator[dict[str, Path]]:
    """Captured once; afterwards the project is gone: a reproducer stands alone."""
    names = ("blend", "transform_kernel")
    run = shared_bench.capture("-o", "out-blend", program=(project / "blend",), expect=len(names))
    of_both = shared_bench.capture("-o", "out-both", "--launches", "0:2", program=(project / "blend",))
    gone = project.with_name("gone")
    project.rename(gone)
    paths = {manifest.kernel.name: path for path, manifest in run.manifests().items()}
    yield {**paths, "range": of_both.path}
    gone.rename(project)


@pytest.fixture(scope="module")
def reproducer(captured: dict[str, Path]) -> Path:
    return captured["blend"]


@pytest.fixture
def bench(kerncap: CommandLine, shared_bench: Bench) -> Bench:
    return Bench(kerncap, shared_bench.rig)


def source_of(reproducer: Path) -> Source:
    with Reproducer.open(reproducer) as opened:
        source = opened.manifest.source
    assert source is not None and source.build is not None
    return source


def edited(reproducer: Path, folder: Path, name: str, old: str, new: str) -> Path:
    """The unit's files as they lie in the reproducer, with one edit; gives the edited file."""
    shutil.copytree(reproducer / "source", folder)
    text = (folder / name).read_text()
    assert text.count(old) == 1, (name, old)
    (folder / name).write_text(text.replace(old, new))
    return folder / name


def test_the_recipe_is_the_builds_own(reproducer: Path, project: Path) -> None:
    source = source_of(reproducer)
    build = source.build
    assert build is not None
    assert (source.language, source.entry, build.tool, build.arch) == ("hip", "blend", "hipcc", "gfx90a")
    assert build.unit == f"source/{UNIT}" and build.name.endswith(f"/project/{UNIT}")
    assert {"-O3", "-DOFFSET=0.5f", "-std=c++17"} <= set(build.options)
    assert not any("arch" in option for option in build.options)
    assert {f"source/{name}" for name in (ONE, TWO, GAIN)} <= set(build.headers.values())


# For the first launch of the range: with the application's options and headers.
NEW = """
#include <hip/hip_runtime.h>
#include <gain.h>
#include "one/shape.h"
#include "two/shape.h"
// kerncap: replaces 0:1
// kerncap: launch mine<<<4, 128>>>(0.arg1, 0.arg0, OFFSET_OF, 500)
__global__ void mine(float* out, const float* x, float added, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = one::shaped(x[i]) * GAIN + two::shaped(x[i]) + OFFSET + added;
}
"""


@pytest.mark.long
@pytest.mark.parametrize(("added", "result"), [("0.0f", "pass"), ("0.25f", "fail")])
@pytest.mark.parametrize("options", [(), ("--hostile",)])
def test_a_new_source_is_compiled_like_the_launch_that_it_replaces(
    bench: Bench, captured: dict[str, Path], added: str, result: str, options: tuple[str, ...]
) -> None:
    (bench.kerncap.folder / "new.hip").write_text(NEW.replace("OFFSET_OF", added))
    extra = {"KERNCAP_AMD_EMULATOR": str(bench.rig.folder)}
    done = bench("verify", "--json", captured["range"], "--candidate", "new.hip", *options, extra=extra)
    assert done.judged["result"] == result, done.document


def test_an_address_of_the_code_has_its_line(bench: Bench, reproducer: Path) -> None:
    done = bench("inspect", "--json", *(f"--at={offset:#x}" for offset in range(0, 0x100, 4)), reproducer)
    assert done.status == 0, done.stderr
    places = json.loads(done.stdout)["places"]
    files = {place["file"].partition("/project/")[2] for place in places if place["file"]}
    assert {UNIT, ONE} <= files, places
    assert (
        bench("inspect", "--at", "0xffffff", reproducer).stdout.count("no line of the kernel's source") == 1
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "old", "new", "verdict"),
    [
        (UNIT, "+ OFFSET", "+ (OFFSET * 0.5f + OFFSET * 0.5f)", "pass"),
        (UNIT, "+ OFFSET", "- OFFSET", "fail"),
        (ONE, "x * x", "x * x * 1.0f", "pass"),
        (ONE, "x * x", "x * x * 1.5f", "fail"),
        (TWO, "x + 3.0f", "x - 3.0f", "fail"),
        (GAIN, "2.0f", "4.0f", "fail"),
        (UNIT, "if (i < n)", "if (i < 0)", "fail"),  # computes nothing
        # Compiled for the captured architecture alone: the build's other one is never seen.
        (UNIT, "template <class T>", "#ifdef __gfx906__\n#error two\n#endif\ntemplate <class T>", "pass"),
    ],
    ids=["same", "unit", "header same", "header", "its namesake", "include folder", "no-op", "one arch"],
)
def test_the_verdict_follows_the_edit(
    bench: Bench, reproducer: Path, tmp_path: Path, name: str, old: str, new: str, verdict: str
) -> None:
    candidate = edited(reproducer, tmp_path / "mine", name, old, new)
    document = bench.judge(reproducer, "--candidate", candidate)
    assert document["result"] == verdict, document


@pytest.mark.long
def test_a_kernel_template_of_an_installed_library(
    bench: Bench, captured: dict[str, Path], tmp_path: Path
) -> None:
    """Its instance is compiled where the application made it, and the library's own header is edited."""
    reproducer = captured["transform_kernel"]
    source = source_of(reproducer)
    header = source.file.path.removeprefix("source/")
    assert header.endswith("library/inner/device/transform.hpp") and source.build is not None
    assert source.build.unit.endswith(UNIT)
    assert source.build.external == ("hip/hip_runtime.h", "outer/outer.hpp", "cstdio", "vector")
    assert not any("/outer/" in stored for stored in source.build.headers.values())
    wrong = edited(reproducer, tmp_path / "wrong", header, "f(in[i])", "in[i]")
    assert bench.judge(reproducer, "--candidate", wrong)["result"] == "fail"


@pytest.mark.long
@pytest.mark.parametrize("new", ["f(in[i])", "f(in[i] + T(0))"], ids=["unedited", "same"])
def test_a_right_edit_of_an_installed_library(
    bench: Bench, captured: dict[str, Path], tmp_path: Path, new: str
) -> None:
    reproducer = captured["transform_kernel"]
    header = source_of(reproducer).file.path.removeprefix("source/")
    candidate = edited(reproducer, tmp_path / "mine", header, "f(in[i])", new)
    assert bench.judge(reproducer, "--candidate", candidate)["result"] == "pass"


@pytest.mark.long
def test_the_compiler_speaks_of_the_users_lines(bench: Bench, reproducer: Path, tmp_path: Path) -> None:
    candidate = edited(reproducer, tmp_path / "mine", TWO, "x + 3.0f", "y + 3.0f")
    done = bench("replay", reproducer, "--emulator", bench.rig.folder, "--candidate", candidate)
    assert done.status == 1
    assert "undeclared identifier 'y'" in done.stdout + done.stderr
    assert "src/two/shape.h:5:10" in done.stdout + done.stderr


def test_an_image_is_a_candidate_too(bench: Bench, reproducer: Path) -> None:
    for name in ("image.hsaco", "image.co"):
        image = bench.kerncap.folder / name
        shutil.copyfile(reproducer / "code" / "kernel.hsaco", image)
        assert bench.judge(reproducer, "--candidate", image)["result"] == "pass"


def test_an_architecture_that_the_compiler_lacks_is_named(
    bench: Bench, reproducer: Path, tmp_path: Path
) -> None:
    """A compiler that refuses as an old one does."""
    hipcc = tmp_path / "hipcc"
    hipcc.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec echo 'HIP version: 4.0.1 clang version 12.0.0'\n"
        "echo \"clang: error: invalid target ID 'gfx90a'\" >&2; exit 1\n"
    )
    hipcc.chmod(0o755)
    candidate = edited(reproducer, tmp_path / "mine", GAIN, "2.0f", "4.0f")
    done = bench(
        "replay", reproducer, "--emulator", bench.rig.folder, "--candidate", candidate,
        extra={"HIPCC": str(hipcc)},
    )  # fmt: skip
    assert done.status == 4
    assert "hipcc 4.0.1 (clang 12.0.0)" in done.stderr and "does not compile for gfx90a" in done.stderr


@pytest.mark.long
def test_a_working_copy_is_edited_and_judged(bench: Bench, reproducer: Path) -> None:
    """`replay --edit`, one judgement at a time: header, error, patch."""
    copy = bench.kerncap.folder / "copy"

    def judged() -> dict[str, object]:
        return bench.judge(reproducer, "--watch", "--once", "--copy", copy, "-n", "0", command="replay")

    assert judged()["result"] == "pass"
    header = copy / ONE
    text = header.read_text()
    header.write_text(text.replace("x * x", "x * x + 1.0f"))
    assert judged()["result"] == "fail"
    header.write_text(text.replace("x * x", "x * z"))
    broken = judged()
    assert broken["result"] == "fail"
    [place] = [each for each in broken["diagnostics"] if "'z'" in each["message"]]  # type: ignore[attr-defined]
    assert (place["line"], place["column"]) == (5, 14) and place["file"].endswith("one/shape.h")
    header.write_text(text.replace("x * x", "x * (x + 0.0f)"))
    assert judged()["result"] == "pass"


NUMBERS = """#include <hip/hip_runtime.h>
#define STEP 2
template <int WIDTH>
__global__ void sums(const float* x, float* y) {
  float sum = 0;
  for (int i = threadIdx.x * WIDTH; i < 512; i += blockDim.x * WIDTH)
    for (int k = 0; k < WIDTH; ++k) sum += x[blockIdx.x * 512 + i + k];
  for (int lane = 32; lane > 32 >> 6; lane /= STEP) sum += __shfl_xor(sum, lane);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
int main() {
  float *x, *y, values[1024];
  for (int i = 0; i < 1024; ++i) values[i] = static_cast<float>(i % 7);
  if (hipMalloc(reinterpret_cast<void**>(&x), sizeof values) != hipSuccess) return 1;
  if (hipMalloc(reinterpret_cast<void**>(&y), 2 * sizeof *y) != hipSuccess) return 1;
  if (hipMemcpy(x, values, sizeof values, hipMemcpyHostToDevice) != hipSuccess) return 1;
  sums<4><<<2, 64>>>(x, y);
  return hipDeviceSynchronize() != hipSuccess;
}
"""


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--hostile",)])
def test_the_numbers_of_a_source_are_searched(bench: Bench, tmp_path: Path, options: tuple[str, ...]) -> None:
    """A template's argument stays in the kernel's name; in the body it is another number."""
    source = tmp_path / "sums.hip"
    source.write_text(NUMBERS)
    program = bench.rig.build(source, tmp_path / "sums", "gfx90a")
    path = bench.capture("--source-dir", tmp_path, program=(program,)).path
    where = {"KERNCAP_AMD_EMULATOR": str(bench.rig.folder)}
    bounds = ("--bound", "STEP=2:4", "--bound", "WIDTH=2:8")
    found = bench("tune", "--json", path, *bounds, *options, extra=where).document
    states = {(trial["point"]["STEP"], trial["point"]["WIDTH"]): trial["state"] for trial in found["trials"]}
    assert {states[2, width] for width in (2, 4, 8)} <= {"timed", "slow"}, found
    assert {state for (step, _), state in states.items() if step == 4} == {"wrong"}, found
    assert found["result"] == "pass" and found["shapes"][0]["best"]["config"]["STEP"] == 2, found
