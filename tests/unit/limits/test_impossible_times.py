"""Times in which no device can have done the work."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, verify
from kerncap.errors import BackendUnavailable
from kerncap.replay.amd_devices import Emulator
from kerncap.replay.choose_engine import Choice
from kerncap.replay.limits import impossible_times
from kerncap.replay.limits.ceilings import Ceilings
from kerncap.replay.worker.common import bitmap
from tests.parameters import first_of
from tests.unit.replay import native, rig


def device(memory: float = 3e12, cache: float = 6e12) -> Ceilings:
    rates = {"dram_write_bytes_per_s": memory, "l2_bytes_per_s": cache, "event_us": 2.0}
    return Ceilings("a", "sm_90", "13.0", 132, 1, 1, 1, 50 << 20, rates, {}, {})


@pytest.mark.parametrize(
    "changed, ms, possible",
    [
        (1 << 30, 0.4, True),
        (1 << 30, 0.3, False),  # 1 GiB less the cache at 3 TB/s: 0.34 ms
        (50 << 20, 0.005, True),  # it fits into the cache
        (50 << 20, 0.004, False),  # and the cache has a rate, too
        (1 << 30, 100.0, True),
        (0, 0.0009, False),  # half of an empty launch takes 1 us
        (0, 0.0011, True),
    ],
)
def test_what_is_written_takes_its_time(changed: int, ms: float, possible: bool) -> None:
    problem = impossible_times.Floor(changed, "python", 0, device()).problem(ms)
    assert bool(problem) != possible, problem
    assert possible or f"{ms:.3g} ms is less than the " in problem


@pytest.mark.parametrize(
    "name, emulator, problem",
    [
        ("AMD Instinct MI300X", None, "0.1 ms is less than the 0.151 ms that writing 1,073,741,824 bytes"),
        ("AMD Instinct MI300X (emulated)", Emulator(Path("rig"), "gfx942"), None),
        ("AMD Instinct MI9000", None, None),
    ],
)
def test_what_is_published_of_an_amd_gpu_serves(
    name: str, emulator: Emulator | None, problem: str | None
) -> None:
    """1 GiB less 256 MiB of cache, at 5.3 TB/s."""
    engine: Any = SimpleNamespace(
        choice=Choice("python", "native", "hip", 0, emulator), facts=SimpleNamespace(device=name),
        restore=lambda: None, diff=lambda *_: bitmap.span(1 << 30, 0, 1 << 30),
    )  # fmt: skip
    measured: Any = SimpleNamespace(results=lambda: {0: bitmap.span(1 << 30, 0, 1 << 30)})
    floor = impossible_times.of_launch(engine, measured)
    assert (floor is None) == (problem is None)
    assert floor is None or problem is None or floor.problem(0.1).startswith(problem)


def test_a_slow_launch_asks_for_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impossible_times, "of_device", lambda *_: pytest.fail("measured"))
    assert impossible_times.Floor(1 << 20, "python", 0).problem(1.0) == ""


def test_a_device_that_can_not_be_measured_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Ceilings:
        raise BackendUnavailable("the device's ceilings", "no numpy")

    monkeypatch.setattr(impossible_times, "of_device", refused)
    assert impossible_times.Floor(1 << 30, "python", 0).problem(0.001) == ""


@first_of(("memory", "answer"), [(1.0, Answer.UNDECIDED), (1e15, Answer.YES)])
def test_a_candidate_that_is_too_fast_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: float, answer: Answer
) -> None:
    rig.use(monkeypatch, rig.kernels(tmp_path))
    monkeypatch.setattr(impossible_times, "_ALWAYS_POSSIBLE", 0.0)
    monkeypatch.setattr(impossible_times, "of_device", lambda *_: device(memory, memory))
    launch = native.add()
    candidate = tmp_path / "same.ptx"
    candidate.write_bytes(launch.image())
    result = verify(
        launch.seal(tmp_path),
        VerifyOptions(candidate=candidate, stages=("smoke", "oracle", "timing"), timeout_s=20.0),
    )
    assert result.answer is answer, result.verdict.reasons
    if answer is Answer.UNDECIDED:
        assert "bytes takes at the rate" in result.verdict.summary
