"""ROCr that is linked with rocprofiler-register, as AMD's builds are: no tool, another tool, and no way in.

Under ROCm 6 with a stand-in of that library, under ROCm 7 (`make amd-gpu ROCM=7`) with its own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.rigs import amd_gpu

from .conftest import PROGRAMS, Bench, Programs

REGISTERING = {"AMD_GPU_REGISTER": "1"}


@pytest.fixture(params=[6, 7], ids=["rocm6", "rocm7"])
def bench(request: pytest.FixtureRequest, kerncap: CommandLine, shim: Path) -> Bench:
    assert shim.is_file()
    found = amd_gpu.find(request.param)
    if isinstance(found, str):
        pytest.skip(found)
    return Bench(kerncap, found, REGISTERING)


@pytest.fixture(scope="session")
def with_profiler(rig: amd_gpu.Rig, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which rocprofiler-register finds programs/profiler.cpp."""
    library = tmp_path_factory.mktemp("profiler") / "libprofiler.so"
    includes = [f"-I{rig.include_dir}", "-D__HIP_PLATFORM_AMD__", "-DAMD_INTERNAL_BUILD"]
    command = ["g++", "-shared", "-fPIC", *includes, str(PROGRAMS / "profiler.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    return {"ROCPROFILER_REGISTER_LIBRARY": str(library)}


@pytest.fixture
def hsa_nested(rig: amd_gpu.Rig, tmp_path: Path) -> Path:
    made = tmp_path / "hsa_nested"
    libraries = [f"-L{rig.library_dir}", "-l:libhsa-runtime64.so.1", "-ldl", "-Wl,--allow-shlib-undefined"]
    source = str(PROGRAMS / "hsa_nested.cpp")
    subprocess.run(["g++", f"-I{rig.include_dir}", source, "-o", str(made), *libraries], check=True)
    return made


def kernels_of_profiler(stderr: str) -> int:
    [line] = [line for line in stderr.splitlines() if line.startswith("profiler: ")]
    return int(line.split()[1])


@pytest.mark.long
def test_with_no_other_tool_the_old_entry_is_called(bench: Bench, programs: Programs) -> None:
    captured = bench.capture("-k", "in_graph", program=(programs("launches"),))
    assert not list(captured.folder.glob("**/rocprofiler-*"))
    assert bench.judge(captured.paths[0])["result"] == "pass"


def test_with_another_tool_both_see_the_kernels(
    bench: Bench, programs: Programs, with_profiler: dict[str, str]
) -> None:
    captured = bench.capture("-k", "in_graph", program=(programs("launches"),), extra=with_profiler)
    # The captured launch runs once, and the profiler counts what it would count without kerncap.
    assert kernels_of_profiler(captured.done.stderr) == kernels_of_profiler(captured.plain.stderr) > 7
    assert bench.judge(captured.paths[0])["result"] == "pass"


@pytest.mark.long
def test_a_queue_that_cannot_be_shared_is_ours(
    bench: Bench, programs: Programs, with_profiler: dict[str, str]
) -> None:
    extra = {**with_profiler, "PROFILER_QUEUES": "plain"}
    bench.capture("-k", "in_graph", program=(programs("launches"),), extra=extra)


@pytest.mark.long
def test_doctor_says_which_entry_and_why(
    bench: Bench, programs: Programs, with_profiler: dict[str, str]
) -> None:
    program = [*bench.rig.run_prefix, programs("launches")]
    [process] = _live(bench, "--", *program, extra=with_profiler)
    assert process["live"] == ["HIP shim, by rocprofiler-register"] and process["launches"] == 7
    [process] = _live(bench, "--", *program)
    assert process["live"] == ["HIP shim"]
    extra = {**with_profiler, "KERNCAP_AMD_EMULATOR": str(bench.rig.folder)}
    checks = bench("doctor", "--json", extra=extra).document["checks"]
    [detail] = [each["detail"] for each in checks if each["name"] == "HIP shim"]
    assert "by LD_PRELOAD and rocprofiler-register; ROCr skips HSA_TOOLS_LIB" in detail


def test_with_no_way_in_the_program_is_named(
    bench: Bench, programs: Programs, with_profiler: dict[str, str]
) -> None:
    program = ["env", "-u", "LD_PRELOAD", *bench.rig.run_prefix, programs("launches")]
    document = bench("doctor", "--json", "--", *program, extra=with_profiler).document
    [missed] = document["missed"]
    assert "another tool is registered with rocprofiler-register" in missed
    done = bench("capture", "--json", "-k", "in_graph", "--", *program, extra=with_profiler)
    assert not done.document["captured"] and "did not call the HIP shim" in done.document["reason"]


def test_the_runtimes_last_user_ends_it(
    bench: Bench, hsa_nested: Path, with_profiler: dict[str, str]
) -> None:
    """No one calls OnUnload there: the shim counts, and lets go before the runtime is gone."""
    done = bench("doctor", "--json", "--", *bench.rig.run_prefix, hsa_nested, extra=with_profiler)
    assert done.document["target_status"] == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "live" in line] == ["live: 1", "live: 0"]


def _live(bench: Bench, *arguments: str | Path, extra: dict[str, str] | None = None) -> list[dict]:
    document = bench("doctor", "--json", *arguments, extra=extra).document
    return [process for process in document["processes"] if process["live"]]
