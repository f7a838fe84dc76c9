"""Triton over the shim: one reproducer with Triton's source and configuration and the shim's gated memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

from .captured import TARGETS, Captured, Judge, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

KERNELS = ("saxpy", "add_all", "copy_tiles")


@pytest.fixture(scope="module")
def kernels(kerncap_of_module: CommandLine, judge: Judge) -> Captured:
    options = ("-k", "|".join(KERNELS), "--launch", "0:1")
    captured = capture(kerncap_of_module, sys.executable, TARGETS / "triton_kernels.py", options=options)
    names = [str(path) for path in captured.reproducers]
    engines = ("binary", "jit")
    judge.ask(*(("replay", "--json", "--engine", engine, name) for name in names for engine in engines))
    judge.prepare(captured.reproducers)
    return captured


def test_the_program_notices_nothing(kernels: Captured) -> None:
    kernels.target_is_unchanged()
    assert kernels.plain.status == 0, kernels.plain.stderr
    assert len(kernels.reproducers) == len(KERNELS), "each launch is one reproducer, not one of each shim"


@pytest.mark.parametrize("kernel", KERNELS)
def test_by_both_launchers(kernels: Captured, judge: Judge, kernel: str) -> None:
    path = kernels.one(kernel)
    manifest = kernels.reproducers[path]
    assert (manifest.kernel.language, manifest.launch.mode) == ("triton", "jit")
    assert manifest.closure.consistency == "gated"
    assert manifest.closure.mode == "reachable"
    assert manifest.source is not None
    assert manifest.arguments and manifest.views
    judge.agrees(path)
    for engine in ("binary", "jit"):
        [done] = judge.ask(("replay", "--json", "--engine", engine, str(path)))
        assert done.status == 0, done.stdout + done.stderr
        assert done.document["placement"]["relocated"] == []


def test_a_table_of_pointers_brings_its_rows(kernels: Captured) -> None:
    """Six rows of 40,000 bytes that only addresses in memory lead to."""
    path = kernels.one("add_all")
    closure = kernels.reproducers[path].closure
    assert closure.included_bytes >= 6 * 40_000 + 40_000


def test_a_candidate_that_does_nothing_fails(kernels: Captured, judge: Judge, tmp_path: Path) -> None:
    from kerncap.format import Reproducer

    path = kernels.one("saxpy")
    with Reproducer.open(path) as reproducer:
        text = reproducer.source_text()
    assert text is not None
    candidate = tmp_path / "nothing.py"
    candidate.write_text(text.replace("tl.store(y_ptr + i, a * x + y, mask=i < n)", "pass"))
    assert candidate.read_text() != text
    judge.rejects(path, candidate)
