"""`kerncap export --as cmake` against the stand-in CUDA driver: built by CMake, run without kerncap."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.cuda.conftest import Bench, bench, rig, shim
from tests.native.building import TOOLS

from .bare import Bare
from .test_script import export

__all__ = ["bench", "rig", "shim"]


def build(folder: Path, *options: str) -> Path:
    """The project's program, by CMake; skips where a tool is missing."""
    made = folder.with_name(f"{folder.name}-build")
    for command in (["cmake", "-S", folder, "-B", made, *options], ["cmake", "--build", made]):
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False, env={"PATH": TOOLS}
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning:" not in done.stderr + done.stdout, done.stderr + done.stdout
    [program] = made.glob("replay_*")
    return program


STRICT = "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"


def project(bench: Bench, name: str, *client: str, options: tuple[str, ...] = ()) -> Path:
    captured = bench.capture("-k", name, *options, client=client, self_check=True)
    folder = export(bench.kerncap, captured.path, "cmake", bench.kerncap.folder / "project")
    return build(folder, f"-DCUDA_DRIVER={bench.rig.folder / 'libcuda.so.1'}", STRICT)


def test_vector_add(bench: Bench) -> None:
    program = project(bench, "vector_add", "vector_add")
    done = bench.rig.run(program)
    assert done.status == 0, done.stdout + done.stderr
    assert done.result_line == "Result: PASS (12000 bytes identical, 4000 written bytes poisoned)"
    for edition, reason in ((1, "arg2[0]: expected"), (2, "was changed, outside every region")):
        done = bench.rig.run(program, bench.candidate("other", edition))
        assert done.status == 1 and reason in done.result_line, (edition, done.stdout)
    within = bench.rig.run(program, bench.candidate("other", 3))
    assert within.result_line.startswith("Result: PASS (within tolerance"), within.stdout
    broken = bench.kerncap.folder / "broken.ptx"
    broken.write_text("not an image")
    done = bench.rig.run(program, broken)
    assert done.status == 4 and done.stdout.startswith("can't run here: no code can be loaded"), done.stdout


def range_project(bench: Bench, launches: str, *client: str) -> Path:
    captured = bench.capture("--launches", launches, client=client, self_check=True)
    folder = export(bench.kerncap, captured.path, "cmake", bench.kerncap.folder / "project")
    return build(folder, f"-DCUDA_DRIVER={bench.rig.folder / 'libcuda.so.1'}", STRICT)


def test_a_range_and_what_the_host_changes_in_between(bench: Bench) -> None:
    program = range_project(bench, "1:4", "chain")
    assert program.name == "replay_range_of_3_vector_add"
    done = bench.rig.run(program)
    assert done.status == 0, done.stdout + done.stderr
    assert done.result_line == (
        "Result: PASS (3 launches in order: 16000 bytes identical, 8000 written bytes poisoned)"
    )
    wrong, near = bench.candidate("wrong", 1), bench.candidate("near", 3)
    done = bench.rig.run(program, f"2={wrong}")  # of launch 0's module as well
    assert done.status == 1 and "FAIL (launch 0 (vector_add): arg2[0]: expected" in done.stdout, done.stdout
    done = bench.rig.run(program, f"0={near}")
    assert done.status == 0 and "PASS (3 launches in order: within tolerance: max abs" in done.stdout, done
    for given, reason in ((wrong, "expected K=IMAGE"), (f"3={wrong}", "there is no such launch"),
                          (f"1={wrong}", "no code can be loaded: _Z14scale_in_placePffi")):  # fmt: skip
        done = bench.rig.run(program, given)
        assert done.status == 4 and reason in done.stdout, done.stdout


@pytest.mark.long
def test_a_range_with_variables_of_a_module(bench: Bench) -> None:
    """Two launches have them; each other kernel is a module of its own."""
    program = range_project(bench, "2:7", "chain", "variables")
    assert len(list((bench.kerncap.folder / "project" / "code").iterdir())) == 3
    done = bench.rig.run(program)
    assert done.status == 0 and "PASS (5 launches in order: " in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_zeros_of_an_arena(bench: Bench) -> None:
    program = project(bench, "vector_add", "memory_kinds", "arena", options=("--max-size", "1MiB"))
    done = bench.rig.run(program)
    assert done.status == 0, done.stdout + done.stderr
    done = bench.rig.run(program, bench.candidate("other", 4))
    assert done.status == 1 and "memory was changed that the application left zero" in done.stdout


@pytest.mark.long
def test_pointers_in_memory(bench: Bench) -> None:
    done = bench.rig.run(project(bench, "sum_of_rows", "pointers", "rows"))
    assert done.status == 0 and done.result_line.startswith("Result: PASS"), done.stdout + done.stderr


@pytest.mark.long
def test_variables_of_the_module(bench: Bench) -> None:
    """The module puts them elsewhere: words that point to them are set anew."""
    program = project(bench, "through_global", "pointers", "through_global")
    done = bench.rig.run(program)
    assert done.status == 0 and done.result_line.startswith("Result: PASS"), done.stdout + done.stderr
    # A compiler leaves out the variables of a kernel that has come to do nothing.
    empty = bench.kerncap.folder / "empty.ptx"
    empty.write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry _Z14through_globalPfi(.param .u64 out, .param .u32 n)\n{\n ret;\n}\n"
    )
    done = bench.rig.run(program, empty)
    assert done.status == 1 and "Result: FAIL (" in done.stdout, done.stdout + done.stderr
    assert "note: this code has no table" in done.stdout, done.stdout


@pytest.mark.long
def test_a_pytest_file(bench: Bench, bare: Bare) -> None:
    captured = bench.capture("-k", "vector_add", client=("vector_add",), self_check=True)
    folder = export(bench.kerncap, captured.path, "pytest", bench.kerncap.folder / "tests")
    environment = bench.rig.environment({
        "CMAKE_ARGS": f"-DCUDA_DRIVER={bench.rig.folder / 'libcuda.so.1'}", "PATH": TOOLS
    })  # fmt: skip
    done = bare("-m", "pytest", "-q", "-p", "no:cacheprovider", folder, env=environment)
    assert done.status == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    captured = bench.capture("--launches", "1:3", client=("chain", "alone"))
    folder = export(bench.kerncap, captured.path, "pytest", bench.kerncap.folder / "of-range")
    done = bare("-m", "pytest", "-q", "-p", "no:cacheprovider", folder, env=environment)
    assert done.status == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
