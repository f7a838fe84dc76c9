"""A crowded device: only what the launch can reach is copied, and quickly."""

from __future__ import annotations

import os
import sys

import pytest

from kerncap.format import records
from tests.integration.conftest import CommandLine

from .captured import TARGETS, Captured, Judge, build, capture, records_of

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

MIB = 1 << 20
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
# The device must hold it beside what other tests run: tests of this file never overlap.
CROWDED_GIB = os.environ.get("KERNCAP_TEST_CROWDED_GIB", "60")


def raw_bytes(captured: Captured) -> int:
    """What the shim wrote of memory; holes don't count."""
    [session] = captured.folder.glob(".kerncap-session-*")
    files = [path for word in ("pre", "post") for path in session.glob(f"*/*.{word}*")]
    assert files
    return sum(path.stat().st_blocks * 512 for path in files)


def is_small_and_quick(captured: Captured, judge: Judge, kernel: str) -> None:
    captured.target_is_unchanged()
    path = captured.one(kernel)
    manifest = captured.reproducers[path]
    assert manifest.closure.mode == "reachable"
    assert 8 * MIB <= manifest.closure.included_bytes < 64 * MIB, manifest.closure
    assert raw_bytes(captured) < 64 * MIB
    complete = records_of(captured, records.RecordKind.COMPLETE)[-1]
    assert complete["copy_ns"]["pre"] + complete["copy_ns"]["post"] < 2_000_000_000
    judge.agrees(path)


def test_crowded_by_separate_allocations(kerncap_of_module: CommandLine, judge: Judge) -> None:
    options = ("-k", "kc_touch", "--launch", "1", "--keep-session")
    captured = capture(
        kerncap_of_module, build("crowded.cu"), CROWDED_GIB, options=options, beside=False, timeout=300
    )
    is_small_and_quick(captured, judge, "kc_touch")


@pytest.mark.parametrize("env", [{}, EXPANDABLE], ids=["segments", "expandable"])
def test_crowded_by_tensors(kerncap_of_module: CommandLine, judge: Judge, env: dict[str, str]) -> None:
    options = ("-k", "MulFunctor", "--launch", "1", "--keep-session")
    command = (sys.executable, TARGETS / "torch_crowded.py", CROWDED_GIB)
    captured = capture(kerncap_of_module, *command, options=options, env=env, beside=False, timeout=300)
    is_small_and_quick(captured, judge, "MulFunctor")
