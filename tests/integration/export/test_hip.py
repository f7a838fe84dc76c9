"""`kerncap export --as cmake` of HIP launches: built by CMake, run on the emulated GPU without kerncap."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.hip.conftest import Bench, Captured, Programs, programs, rig, shared_bench, shim
from tests.rigs import amd_gpu

from .test_native import build
from .test_script import export

__all__ = ["programs", "rig", "shared_bench", "shim"]


@pytest.fixture(scope="module")
def captured(shared_bench: Bench, programs: Programs) -> Captured:
    """The launches of one program: pointers in memory, variables, managed memory."""
    program = (programs("memory"),)
    names = "^(pointer_table|variables|static_variable)$"
    return shared_bench.capture("-k", names, "--launch", "0:1", program=program, expect=3)


def reproducer(captured: Captured, name: str) -> Path:
    [path] = (path for path in captured.paths if path.name.rpartition("-")[0] == name)
    return path


def project(bench: Bench, path: Path, folder: Path) -> Path:
    """The program of a reproducer's project."""
    export(bench.kerncap, path, "cmake", folder)
    library = bench.rig.library_dir / "libamdhip64.so.6"
    older = Path(amd_gpu.__file__).with_name("rocm") / "older_clang.h"
    return build(
        folder, f"-DHIP_INCLUDE_DIR={bench.rig.include_dir}", f"-DHIP_LIBRARY={library}",
        f"-DHIPCC={bench.rig.hipcc}", f"-DHIP_FLAGS=-include;{older}",
        # What the library itself needs is in the rig's folder, and of a newer libc than the linker knows.
        "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined",
    )  # fmt: skip


def test_pointers_and_the_source_again(shared_bench: Bench, captured: Captured, tmp_path: Path) -> None:
    program = project(shared_bench, reproducer(captured, "pointer_table"), tmp_path / "project")
    done = shared_bench.run(program)
    assert done.status == 0 and "bytes identical" in done.stdout, done.stdout + done.stderr
    rebuilt = ["cmake", "--build", program.parent, "--target", "rebuilt"]
    made = subprocess.run(rebuilt, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    done = shared_bench.run(program, program.parent / "rebuilt.hsaco")
    assert done.status == 0 and "Result: PASS" in done.stdout, done.stdout + done.stderr
    unit = tmp_path / "project" / "source" / "memory.hip"
    unit.write_text(unit.read_text().replace("if (i < n) out[i] = sum;", "(void)sum;"))
    subprocess.run(rebuilt, capture_output=True, check=True)
    done = shared_bench.run(program, program.parent / "rebuilt.hsaco")
    assert done.status == 1 and "Result: FAIL (arg1[0]: expected" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_variables(shared_bench: Bench, captured: Captured, tmp_path: Path) -> None:
    """A static one, which HIP has no address of, stops only what changes it."""
    program = project(shared_bench, reproducer(captured, "variables"), tmp_path / "project")
    done = shared_bench.run(program)
    assert done.status == 0 and "bytes identical" in done.stdout, done.stdout + done.stderr
    path = reproducer(captured, "static_variable")
    refused = shared_bench.kerncap("export", path, "--as", "cmake", "-o", tmp_path / "static")
    assert refused.status == 2 and "hidden_counter, a static variable" in refused.stderr, refused.stderr
    assert not (tmp_path / "static").exists()


@pytest.mark.long
def test_a_partial_workgroup(shared_bench: Bench, programs: Programs, tmp_path: Path) -> None:
    run = shared_bench.capture("-k", "^partial$", program=(programs("launches"),))
    done = shared_bench.run(project(shared_bench, run.path, tmp_path / "project"))
    assert done.status == 0 and "bytes identical" in done.stdout, done.stdout + done.stderr


def test_one_launch_of_a_graph(shared_bench: Bench, programs: Programs, tmp_path: Path) -> None:
    emulator = {"KERNCAP_AMD_EMULATOR": str(shared_bench.rig.folder)}
    run = shared_bench.capture(
        "--graph", "1:1", program=(programs("graphs"),), self_check=True, extra=emulator
    )
    program = project(shared_bench, run.path, tmp_path / "project")
    done = shared_bench.run(program)
    assert done.status == 0 and "PASS (3 launches in order: " in done.stdout, done.stdout + done.stderr
    source = tmp_path / "project" / "source" / "graphs.hip"
    source.write_text(source.read_text().replace("y[i] = x[(i + 1) % n]", "y[i] = x[i]"))
    subprocess.run(
        ["cmake", "--build", program.parent, "--target", "rebuilt_0"], capture_output=True, check=True
    )
    done = shared_bench.run(program, f"0={program.parent / 'rebuilt_0.hsaco'}")
    assert done.status == 1 and "FAIL (launch 1 (shifted): arg1[0]: expected" in done.stdout, done.stdout
