"""`kerncap list` on a GPU: CUPTI's times, ranges, graphs, stacks; and a program that profiles itself."""

from __future__ import annotations

import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

from .captured import AT_ONCE, TARGETS, build

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def listed(kerncap_of_module: CommandLine) -> dict[str, Any]:
    done = kerncap_of_module("list", "--json", "--", sys.executable, TARGETS / "listed.py", timeout=300)
    assert done.status == 0 and "profiled" in done.stderr, done.stderr
    return done.document


def rows_of(document: dict[str, Any], word: str) -> list[dict[str, Any]]:
    return [row for entry in document["kernels"] if word in entry["qualified_name"] for row in entry["rows"]]


def test_cupti_measures(listed: dict[str, Any]) -> None:
    # The program ends with torch's own profiler, which takes CUPTI from then on.
    [clock] = listed["clocks"]
    assert clock["clock"] == "events" and "begun to profile itself" in clock["reason"], clock
    adds = [row for row in rows_of(listed, "CUDAFunctor_add") if row["range"] == ["outer", "inner"]]
    assert sum(row["launches"] for row in adds) == 20
    assert all(row["timed"] == row["launches"] and row["min_ns"] > 0 for row in adds)


def test_kernels_of_a_graph(listed: dict[str, Any]) -> None:
    graph = [row for row in rows_of(listed, "MulFunctor") if row["route"] == "cuGraphLaunch"]
    assert sum(row["launches"] for row in graph) == 3 * 50
    assert sum(row["timed"] for row in graph) == 3 * 50 and all(row["time_ns"] > 0 for row in graph)


def test_python_stacks(listed: dict[str, Any]) -> None:
    import ctypes

    if not hasattr(ctypes.CDLL(None), "_Py_DumpTraceback"):
        pytest.skip("this interpreter does not export its traceback writer")
    stacks = [entry["stack"] for entry in listed["kernels"] if "CUDAFunctor_add" in entry["qualified_name"]]
    assert any(Path(frame[0]).name == "listed.py" and frame[2] == "adds" for frame in stacks[0]), stacks


def test_triton_kernels_have_the_shims_times(listed: dict[str, Any]) -> None:
    [kernel] = [entry for entry in listed["kernels"] if entry["name"].endswith("double")]
    assert (kernel["launches"], kernel["timed_launches"]) == (7, 7) and kernel["time_ns"] > 0
    assert all(row["config"] for row in kernel["rows"]), kernel["rows"]


@pytest.mark.parametrize("program", ["several.cu", "listed.py"])
def test_each_command_captures_its_kernel_and_no_other(
    kerncap_of_module: CommandLine, listed: dict[str, Any], program: str
) -> None:
    """Templates, lambdas, overloads, torch's and Triton's kernels."""
    document = listed
    if program.endswith(".cu"):
        document = kerncap_of_module("list", "--json", "--", build(program)).document

    def captured_by(number: int) -> set[str]:
        words = shlex.split(document["kernels"][number]["command"])
        assert words[:2] == ["kerncap", "capture"], words
        out = kerncap_of_module.folder / f"{Path(program).stem}-{number}"
        done = kerncap_of_module("capture", "--no-self-check", "-o", out, *words[2:], timeout=120)
        names = set()
        for path in out.glob("[!.]*"):
            with Reproducer.open(path) as reproducer:
                names.add(reproducer.manifest.kernel.qualified_name)
        return names or {done.stderr}

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(captured_by, range(len(document["kernels"]))))
    assert found == [{kernel["qualified_name"]} for kernel in document["kernels"]]
