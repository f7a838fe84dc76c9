"""Cooperative launches go through a queue that ROCr keeps for its agent, and destroys with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.rigs import amd_gpu

from .conftest import Bench, Programs


@pytest.mark.parametrize("rocm", [6, 7])
def test_the_program_ends_as_it_does_alone(
    kerncap: CommandLine, shim: Path, programs: Programs, rocm: int
) -> None:
    rig = amd_gpu.find(rocm)
    if isinstance(rig, str):
        pytest.skip(rig)
    assert shim.is_file()
    bench = Bench(kerncap, rig)
    [path] = bench.capture("-k", "halve", program=(programs("cooperative"),)).paths
    assert bench.judge(path)["result"] == "pass"
