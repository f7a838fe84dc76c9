"""Two devices in one process."""

from __future__ import annotations

import sys

import pytest

from tests.integration.conftest import CommandLine

from .captured import TARGETS, Judge, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400), pytest.mark.usefixtures("two_devices")]


def test_a_kernel_on_the_second_one(kerncap_of_module: CommandLine, judge: Judge) -> None:
    options = ("-k", "MulFunctor|CUDAFunctor", "--where", "device == 1", "--launch", "0:1")
    captured = capture(kerncap_of_module, sys.executable, TARGETS / "second_gpu.py", options=options)
    captured.target_is_unchanged()
    assert len(captured.reproducers) == 2, captured.names()
    for path, manifest in captured.reproducers.items():
        assert manifest.device.ordinal == 1
        assert all(region.device == 1 for region in manifest.regions if region.kind == "device")
        judge.agrees(path)


def test_an_all_reduce_does_not_hang(kerncap_of_module: CommandLine) -> None:
    """Its kernel on one device waits for the other one's, which is held at the gate."""
    options = ("-k", "nccl", "--launch", "0:1")
    captured = capture(kerncap_of_module, sys.executable, TARGETS / "nccl_one_process.py", options=options)
    assert captured.captured.stdout == captured.plain.stdout, captured.captured.stderr
    assert captured.plain.status == 0, captured.plain.stderr
    # Nothing captured is status 1, with the kernel named; a target that fails has its own.
    assert captured.captured.status == (0 if captured.reproducers else 1), captured.captured.stderr
    if not captured.reproducers:
        assert "nccl" in captured.captured.stderr, "the stream that did not finish is named"
