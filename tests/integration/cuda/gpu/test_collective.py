"""Launches that all ranks make together: processes on one GPU and on two, torch's symmetric memory."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine
from tests.integration.cuda.collective import by_rank, check_windows

from .captured import TARGETS, build, compile_candidate, libcuda, linked
from .test_peers import NO_MULTICAST, TORCHRUN

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]
KERNELS = ("all_reduce", "matmul_put", "ring_step")


def captured_together(
    kerncap: CommandLine, kernels: str, command: Sequence[str | Path], env: dict[str, str]
) -> dict[str, list[Path]]:
    """The reproducers of each kernel's first launch, by the kernel's name and in the order of ranks."""
    plain = subprocess.run(
        [*map(str, command)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    options = ("--json", "--no-self-check", "--collective", "2", "-k", kernels, "--launch", "0:1")
    done = kerncap("capture", *options, "-o", "out", "--", *command, env=env, timeout=300)
    document = json.loads(done.stdout)
    assert document["target_status"] == 0 and document["failed"] == [], (document["failed"], done.stderr)
    assert plain.stdout.strip() and plain.stdout.strip() in done.stderr
    found: dict[str, list[Path]] = {}
    for path in document["captured"]:
        with Reproducer.open(kerncap.folder / path) as reproducer:
            name = reproducer.manifest.kernel.name
        found.setdefault(name, []).append(kerncap.folder / path)
    return {name: by_rank(paths) for name, paths in found.items()}


def captured_of_ranks(kerncap: CommandLine, way: str, devices: str) -> dict[str, list[Path]]:
    program = build("ranks.cu", "ranks_kernels.h", options=linked(libcuda()))
    found = captured_together(kerncap, ".", (program, "2", way), {"CUDA_VISIBLE_DEVICES": devices})
    assert tuple(sorted(found)) == KERNELS
    return found


def judged(kerncap: CommandLine, paths: Sequence[Path], *options: str | Path) -> dict[str, Any]:
    done = kerncap("verify", "--together", "--json", "--timeout", "5", *options, *paths, timeout=200)
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("devices", ["0", "0,1"])
@pytest.mark.parametrize("way", ["vmm", "ipc"])
def test_ranks_that_wait_for_each_other(
    kerncap: CommandLine, way: str, devices: str, request: pytest.FixtureRequest
) -> None:
    if devices != "0":
        request.getfixturevalue("two_devices")
    found = captured_of_ranks(kerncap, way, devices)
    for kernel, paths in found.items():
        assert check_windows(paths) == 2, kernel
    for kernel, paths in found.items():
        document = judged(kerncap, paths)
        assert document["result"] == "pass" and document["exact"], (kernel, document)


PUT = "if (i < n) next.room()[i] = mine.values()[i];"
SUM = "if (i < n) out[i] = mine.values()[i] + __ldcv(mine.room() + i);"
RAISE = "    raise(next.flag(blockIdx.x), round);\n"
WAIT = "    wait_for(mine.flag(blockIdx.x), round);\n"
FENCE = "  __threadfence_system();\n  __syncthreads();\n  if (threadIdx.x == 0) {"
EDITS = {
    "same": {SUM: "if (i < n) out[i] = __ldcv(mine.room() + i) + mine.values()[i];"},
    "no flag": {RAISE: ""},
    "offset": {PUT: PUT.replace("[i] =", "[i + 1] =")},
    "late": {PUT: "", SUM: f"{SUM}\n  {PUT}"},
}
EDITS_ALONE = {
    **EDITS,
    "no wait": {WAIT: ""},
    "no fence": {FENCE: FENCE.replace("  __threadfence_system();\n", "")},
    "deadlock": {WAIT: WAIT.replace("round", "round + 1")},
    "flag first": {PUT: f"if (threadIdx.x == 0) raise(next.flag(blockIdx.x), round);\n  {PUT}", RAISE: ""},
}


def candidates(folder: Path, edits: dict[str, dict[str, str]]) -> Iterator[tuple[str, Path]]:
    """By name, `ring_step` with each of the edits."""
    source = (TARGETS / "ranks_kernels.h").read_text()
    for name, changes in edits.items():
        file, text = folder / f"{name.replace(' ', '_')}.cu", source
        for before, after in changes.items():
            assert text.count(before) == 1, name
            text = text.replace(before, after)
        file.write_text(text)
        yield name, compile_candidate(file, None)


def test_candidates(kerncap: CommandLine) -> None:
    paths = captured_of_ranks(kerncap, "vmm", "0")["ring_step"]
    for name, candidate in candidates(kerncap.folder, EDITS):
        document = judged(kerncap, paths, "--candidate", candidate)
        expected = {"same": "pass", "no flag": "undecided"}.get(name, "fail")
        assert document["result"] == expected, (name, document)
        assert (name == "no flag") == ("did not end within 5 s" in document["summary"]), document


@pytest.mark.parametrize(("way", "devices"), [("vmm", "0"), ("ipc", "0,1")])
def test_each_rank_alone(
    kerncap: CommandLine, way: str, devices: str, request: pytest.FixtureRequest
) -> None:
    """On one device, wherever the ranks were."""
    if devices != "0":
        request.getfixturevalue("two_devices")
    for kernel, paths in captured_of_ranks(kerncap, way, devices).items():
        for path in paths:
            done = kerncap("verify", "--json", "--timeout", "20", path, timeout=200)
            document = done.document
            assert document["result"] == "pass" and document["exact"], (kernel, document)
            assert any("other ranks store" in note for note in document["notes"]), (kernel, document)


def test_candidates_for_one_rank_alone(kerncap: CommandLine) -> None:
    path = captured_of_ranks(kerncap, "vmm", "0")["ring_step"][1]
    for name, candidate in candidates(kerncap.folder, EDITS_ALONE):
        options = ("--json", "--timeout", "5", "--candidate", candidate)
        document = kerncap("verify", *options, path, timeout=200).document
        expected = "fail" if name in ("no flag", "offset", "no wait") else "undecided"
        assert document["result"] == expected, (name, document)
        assert (name == "deadlock") == ("did not end within 5 s" in document["summary"]), (name, document)


def test_the_self_check_runs_the_ranks_together(kerncap: CommandLine) -> None:
    program = build("ranks.cu", "ranks_kernels.h", options=linked(libcuda()))
    chosen = ("--collective", "2", "-k", "ring_step", "--launch", "0")
    one = {"CUDA_VISIBLE_DEVICES": "0"}
    options = ("--json", "--self-check-timeout", "60", "-o", "out", *chosen)
    done = kerncap("capture", *options, "--", program, "2", "vmm", env=one, timeout=300)
    paths = done.document["captured"]
    assert len(paths) == 2, done.stderr
    for path in paths:
        with Reproducer.open(kerncap.folder / path) as reproducer:
            checks = reproducer.checks()
        assert checks is not None and checks.self_check is not None
        assert checks.self_check.result == "pass", checks


@pytest.mark.usefixtures("two_devices")
def test_symmetric_memory(kerncap: CommandLine) -> None:
    kernels = "add_peer|sum_of_buffers|^put|all_reduce|barrier"
    found = captured_together(kerncap, kernels, (*TORCHRUN, TARGETS / "ranks_symmetric.py"), NO_MULTICAST)
    assert {"add_peer", "sum_of_buffers", "put"} <= set(found) and len(found) >= 5, sorted(found)
    for kernel, paths in found.items():
        assert check_windows(paths) > 0, kernel
    answers = {kernel: judged(kerncap, paths) for kernel, paths in found.items()}
    # Who waits for a signal takes it back, so that nothing is left of it.
    nothing_left = answers.pop("barrier_kernel", {"result": "undecided", "summary": "writes nothing"})
    assert nothing_left["result"] == "undecided" and "writes nothing" in nothing_left["summary"], nothing_left
    for kernel, document in answers.items():
        assert document["result"] == "pass", (kernel, document)
    # One rank alone, which gets its own signals for the other's.
    for kernel, paths in found.items():
        document = kerncap("verify", "--json", "--timeout", "10", paths[1], timeout=200).document
        if "barrier" in kernel and document["result"] == "undecided":
            continue  # it stores signals only, and whether a replay shows them is a matter of time
        assert document["result"] == "pass", (kernel, document)
        has_signals = any("taken back and given to it" in note for note in document["notes"])
        assert has_signals == ("all_reduce" in kernel or "barrier" in kernel), (kernel, document)
