"""Core dumps that ROCr writes of faults on the emulated GPU, whole: what `kerncap from-core` says of them."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kerncap.api import from_core
from kerncap.report.from_core_text import render
from tests.rigs import amd_gpu
from tests.unit.schemas.strict import check

SOURCE = Path(__file__).parents[3] / "samples" / "core_dump" / "fault.hip"
PATTERN = Path("/proc/sys/kernel/core_pattern")


@pytest.fixture(scope="module", autouse=True)
def core_dumps_are_written_here() -> None:
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("core dumps are limited (ulimit -H -c)")
    if PATTERN.read_text().strip() not in ("core", "core.%p"):
        pytest.skip(f"{PATTERN} doesn't leave core dumps in the program's folder")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Its files take some hundred megabytes."""
    made = tmp_path / "dumps"
    made.mkdir()
    yield made
    shutil.rmtree(made)


def dump_of(folder: Path, arch: str, way: str, extra: Mapping[str, str] | None = None) -> tuple[Path, Path]:
    """The GPU's core dump, and the program."""
    rig = amd_gpu.find(7 if arch == "gfx950" else 6)
    if isinstance(rig, str):
        pytest.skip(rig)
    program = rig.build(SOURCE, folder / "fault", arch)
    done = subprocess.run(
        ["sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh", *rig.run_prefix, program, way],
        cwd=folder,
        env=rig.environment({"AMD_GPU_GFX": arch, **(extra or {})}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode < 0, done.stderr
    found = [each for each in folder.iterdir() if each.name.startswith("gpucore.") or each.suffix == ".gpu"]
    assert found, f"{rig.folder} is of an older tree (make amd-gpu), or: {done.stderr}"
    return found[0], program


def read(path: Path, program: Path) -> dict[str, Any]:
    document = from_core(path, program)
    check("from-core", document)
    render(document)
    return document


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.read_text().split("\n"), 1) if text in line)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", pytest.param("gfx950", marks=pytest.mark.long)])
def test_a_memory_fault(folder: Path, arch: str) -> None:
    document = read(*dump_of(folder, arch, "illegal", {"HSA_ENABLE_DEBUG": "1"}))
    [fault] = document["faults"]
    assert fault["exception"]["name"] == "WAVE_MEMORY_VIOLATION"
    assert fault["place"]["function"] == "_Z4pickPKfl"
    assert Path(fault["place"]["file"]).name == SOURCE.name
    assert fault["place"]["line"] == line_of("return in[at]")
    [kernel] = document["kernels"]
    assert (kernel["name"], kernel["grid"], kernel["block"]) == ("scale", (2, 1, 1), (32, 4, 1))
    # Thread 165 of the grid is thread 37 of block 1: in its first wave, which is all that is known.
    assert (fault["threads"][0]["block"], fault["first_thread"]["warp"]) == ((1, 0, 0), 0)
    [elsewhere] = document["elsewhere"]
    assert elsewhere["thread_count"] == 64


def test_a_store_whose_address_is_known(folder: Path) -> None:
    document = read(*dump_of(folder, "gfx942", "store"))
    [fault] = document["faults"]
    [kernel] = document["kernels"]
    out = int.from_bytes(bytes.fromhex(kernel["parameters"][0]["bytes"]), "little")
    first, second = fault["threads"][:2]
    assert (first["block"], first["thread"]) == ((1, 0, 0), (36, 0, 0))
    assert first["access"] == {"space": "global", "address": out + 4 * (100 + (1 << 40)), "in_dump": False}
    assert second["access"] == {"space": "global", "address": out + 4 * 64, "in_dump": True}
    assert fault["place"]["line"] == line_of("out[i == wrong")


@pytest.mark.parametrize(
    ("way", "kernel", "block", "thread", "count"),
    [
        ("assert", "check", (3, 0, 0), (44, 0, 0), 20),
        pytest.param("trap", "stop", (1, 0, 0), (36, 0, 0), 1, marks=pytest.mark.long),
    ],
)
def test_a_kernel_that_stops_itself(
    folder: Path, way: str, kernel: str, block: Any, thread: Any, count: int
) -> None:
    document = read(*dump_of(folder, "gfx942", way))
    [fault] = document["faults"]
    assert fault["exception"]["name"] == "WAVE_ABORT"
    assert document["kernels"][fault["kernel"]]["name"] == kernel
    assert (fault["threads"][0]["block"], fault["threads"][0]["thread"]) == (block, thread)
    assert fault["thread_count"] == count


@pytest.mark.long
def test_waves_that_were_not_told(folder: Path) -> None:
    document = read(*dump_of(folder, "gfx90a", "illegal"))
    [fault] = document["faults"]
    assert fault["threads"][0]["block"] is None
    assert document["kernels"][fault["kernel"]]["name"] == "scale"
