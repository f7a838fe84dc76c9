"""What replay says when the AMD GPU fails under it: errors of the queue, hangs, refused allocations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.errors import BackendUnavailable, ReplayError
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.outcome import Outcome
from tests.parameters import first_of

from . import replay_launches as launches
from .replay_launches import emulator, launch

EMULATOR = emulator()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hip")
    x = np.arange(64, dtype=np.float32)
    made = launch("scale_in_place", launches.kernels(folder)).array(x, 3 * x)
    return made.single(3.0).integer(64).seal(folder)


def first_launch(path: Path, limit_s: float = 10.0, device: str = "auto") -> Outcome:
    """How the first launch of a worker ends; nothing is copied on the device before it."""
    trust.agree_to_derived(path)
    with Reproducer.open(path) as reproducer, Engine(
        reproducer, device=device, emulator=EMULATOR, timeout_s=limit_s
    ) as engine:  # fmt: skip
        found = engine.launch(ORIGINAL)
        assert engine.generation == (1 if found.ok else 2), "what is lost is replaced"
        return found


# The first dispatch of the process is ROCr's own: it copies the code object to where the host does not reach.
@first_of(
    ("failure", "said"),
    [
        ("memory@2:0x123456000", "GPU memory fault at 0x123456000"),
        ("illegal@2", "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"),
        ("aperture@2", "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION"),
        ("trap@2", "HSA_STATUS_ERROR_EXCEPTION"),
        ("packet@2", "HSA_STATUS_ERROR_INVALID_PACKET_FORMAT"),
    ],
)
def test_errors_of_the_queue_are_faults_with_rocrs_name(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: str, said: str
) -> None:
    monkeypatch.setenv("AMD_GPU_FAIL", failure)
    found = first_launch(path)
    assert found.status == "fault" and said in found.message, found


def test_a_dispatch_that_never_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMD_GPU_FAIL", "hang@2")
    found = first_launch(path, limit_s=0.5)
    assert (found.status, found.message) == ("timeout", "the kernel did not end within 0.5 s")


def test_a_queue_that_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMD_GPU_FAIL", "queue@1")
    with pytest.raises(BackendUnavailable, match="gives this process no queue: .*OUT_OF_RESOURCES"):
        first_launch(path)


@pytest.mark.long
def test_a_fault_while_rocr_itself_waits_ends_the_worker(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ROCr would wait for its copy for ever: the worker ends by itself, and says what was lost."""
    monkeypatch.setenv("AMD_GPU_FAIL", "memory@1:0x123456000")
    with pytest.raises(ReplayError, match="the device was lost: GPU memory fault at 0x123456000"):
        first_launch(path)


def test_another_gpu_of_several(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMD_GPU_COUNT", "2")
    assert first_launch(path, device="hip:1").ok
    with pytest.raises(BackendUnavailable, match="AMD GPU 2.*shows 2 of them"):
        first_launch(path, device="hip:2")
