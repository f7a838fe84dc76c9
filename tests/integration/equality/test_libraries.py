"""Kernels that were written apart, unchanged: Liger's against those that Inductor writes."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kerncap.api.sanitize.program import LiveOptions, sanitize_command
from kerncap.sanitizer.analysis import Options
from kerncap.sanitizer.equality.proof import kernel_of, prove
from kerncap.sanitizer.equality.same_memory import match
from kerncap.sanitizer.findings import LaunchReport
from kerncap.sanitizer.launch import Launch, Unwritten
from kerncap.sanitizer.paged_bytes import PagedBytes

CALLS = Path(__file__).with_name("library_calls.py")
PAIRS = (
    "softmax",
    "layer norm",
    "RMS norm",
    "swiglu",
    "geglu",
    "cross entropy",
    "dynamic tanh",
    "squared ReLU",
)
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        importlib.util.find_spec("liger_kernel") is None, reason="liger-kernel is not installed"
    ),
]


@dataclass(frozen=True)
class Kept:
    """What storages held when the launch was met."""

    arrays: list[npt.NDArray[np.uint8]]

    @classmethod
    def of(cls, launch: Launch) -> Kept:
        held = [launch.contents.read(index) for index in range(len(launch.storages))]
        return cls([np.zeros(0, np.uint8) if one is None else one.whole().copy() for one in held])

    def read(self, storage: int) -> PagedBytes | None:
        return PagedBytes.of(self.arrays[storage])

    def unwritten(self, storage: int) -> Unwritten | None:
        return None


@pytest.fixture(scope="module")
def launches() -> dict[str, list[Launch]]:
    """By the name of the call."""
    found: dict[str, list[Launch]] = {}

    def keep(launch: Launch, options: Options) -> LaunchReport:
        call = next(frame[2] for frame in launch.python_stack if frame[2].endswith((", first", ", second")))
        found.setdefault(call, []).append(replace(launch, contents=Kept.of(launch)))
        return LaunchReport(launch.kernel, launch.grid, ())

    options = LiveOptions(target="cuda:90", every_configuration=False, fresh=False)
    done = sanitize_command([sys.executable, str(CALLS)], options, engine=keep)
    assert done.target_status == 0, done.notes
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_they_are_proved_equal(name: str, launches: dict[str, list[Launch]]) -> None:
    [first], [second] = launches[f"{name}, first"], launches[f"{name}, second"]
    matched = match(first, second, {}, ("Liger", "Inductor"))
    found = prove(kernel_of(first), replace(kernel_of(matched.launch), names=matched.names))
    assert found.equal, found.reason
    assert found.elements == (3 if name == "cross entropy" else 300)
