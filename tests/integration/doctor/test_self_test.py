"""`kerncap doctor --self-test`: each way captures and replays, or the step that fails is named."""

from __future__ import annotations

import sys

import pytest

from kerncap.api.doctor import self_test as self_test_module
from kerncap.api.doctor.self_test import self_test
from kerncap.report.documents.doctor import Way
from tests.integration.cuda.conftest import Rig
from tests.rigs import amd_gpu

WORKS = Way(name="w", works=True)
STEPS = ["run", "capture", "verify"]


def test_cuda_on_the_stand_in_driver(rig: Rig, shim: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in rig.environment().items():
        monkeypatch.setenv(name, value)
    found = self_test("cuda", WORKS, sys.executable)
    assert found.result == "pass", found
    assert [step.name for step in found.steps] == STEPS


def test_a_machine_that_does_not_run_it_is_told_from_a_capture_that_fails(
    rig: Rig, shim: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    alone = self_test("cuda", WORKS, sys.executable)
    if alone.result == "pass":
        pytest.skip("there is a CUDA driver here")
    assert (alone.result, alone.step) == ("fail", "run") and "driver" in (alone.reason or "")
    for name, value in rig.environment().items():
        monkeypatch.setenv(name, value)
    # A preload that nobody may use: the program runs as before, and nothing is seen of it.
    monkeypatch.setattr(self_test_module, "KERNELS", {"cuda": "another"})
    unseen = self_test("cuda", WORKS, sys.executable)
    assert (unseen.result, unseen.step) == ("fail", "capture")
    assert "matches none of 1 kernels: vector_add" in (unseen.reason or "")


def test_a_way_that_does_not_work_is_not_tried() -> None:
    found = self_test("cuda", Way(name="w", works=False, reason="libcuda: none"), sys.executable)
    assert (found.result, found.reason, found.steps) == ("skipped", "libcuda: none", ())


@pytest.mark.long
def test_triton_on_the_cpu() -> None:
    pytest.importorskip("triton")
    found = self_test("triton-cpu", WORKS, sys.executable)
    assert found.result == "pass", found


def test_hip_without_hip_python_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hip", None)
    found = self_test("hip", WORKS, sys.executable)
    assert found.result == "skipped" and found.reason is not None and "hip-python" in found.reason


@pytest.mark.long
def test_hip_on_the_emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hip", reason="hip-python is not installed")
    found = amd_gpu.find()
    if isinstance(found, str):
        pytest.skip(found)
    for name, value in found.environment({}).items():
        monkeypatch.setenv(name, value)
    result = self_test("hip", WORKS, sys.executable, str(found.folder))
    assert result.result == "pass", result
