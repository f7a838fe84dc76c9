"""Captures that depend on how the launch ends: faults, results that do not repeat, the last N.

A value that is not finite: test_samples.py has that.
"""

from __future__ import annotations

import sys

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine


@pytest.mark.long
def test_a_fault_is_sealed_reproduced_and_its_repair_passes(kerncap: CommandLine) -> None:
    target = kerncap.target(
        """
    @triton.jit
    def gather(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        index = tl.load(index_ptr + i, mask=i < n, other=0)
        tl.store(y_ptr + i, tl.load(x_ptr + index), mask=i < n)

    x, y = torch.randn(64), torch.zeros(64)
    for step in range(4):
        index = torch.arange(64)
        if step == 2:
            index[5] = 1 << 44  # far outside every mapping
        gather[(2,)](x, index, y, 64, BLOCK=32)
    """
    )
    done = kerncap(
        "capture", "--json", "--on-fault", "--no-self-check", "-o", "out", "--", sys.executable, target
    )
    assert done.status == 128 + 11, done.stderr
    [name] = done.document["captured"]
    path = kerncap.folder / name
    manifest = Reproducer.open(path).manifest
    assert manifest.oracle.kind == "fault"
    assert "SIGSEGV" in (manifest.oracle.error or "")
    again = kerncap("replay", path)
    assert again.result_line.startswith("Result: PASS"), again.stdout + again.stderr
    source = (path / "source" / "kernel.py").read_text()
    repaired = kerncap.folder / "repaired.py"
    repaired.write_text(
        source.replace("tl.load(x_ptr + index)", "tl.load(x_ptr + index, mask=(index < n), other=0.0)")
    )
    assert kerncap("verify", path, "--candidate", repaired, "--expect", "finite").status == 0
    assert kerncap("verify", path, "--expect", "finite").status == 1, "the original still faults"


@pytest.mark.long
def test_last_keeps_the_last(kerncap: CommandLine) -> None:
    target = kerncap.target(
        """
    @triton.jit
    def bump(x_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)

    x = torch.zeros(8)
    for _ in range(6):
        bump[(1,)](x, BLOCK=8)
    """
    )
    paths = kerncap.capture("--last", "2", "-k", "bump", "--no-self-check", target=target, expect=2)
    assert sorted(Reproducer.open(path).manifest.launch.ordinal for path in paths) == [4, 5]


def test_differs_keeps_a_launch_that_does_not_repeat(kerncap: CommandLine) -> None:
    # The hidden counter is no tensor, so it isn't part of the reachable memory and moves on.
    target = kerncap.target(
        """
    import numpy as np

    @triton.jit
    def leaky(y_ptr, counter, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        state = counter.to(tl.pointer_type(tl.int64))
        value = tl.load(state)
        tl.store(state, value + 1)
        tl.store(y_ptr + i, i + value)

    @triton.jit
    def steady(y_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y_ptr + i, tl.load(y_ptr + i) + 1)

    y = torch.zeros(8, dtype=torch.int64)
    counter = np.zeros(1 << 20, dtype=np.int64)  # large ones lie above 2^31: the address is an int64
    for _ in range(3):
        steady[(1,)](y, BLOCK=8)
    leaky[(1,)](y, counter.ctypes.data, BLOCK=8)
    assert y.tolist() == list(range(8)), y
    """
    )
    [path] = kerncap.capture("--when", "differs", "--no-self-check", target=target)
    manifest = Reproducer.open(path).manifest
    assert manifest.kernel.name == "leaky"
    assert manifest.oracle.kind == "suspect"
