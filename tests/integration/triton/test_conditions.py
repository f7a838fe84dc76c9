"""Captures that depend on how the launch ends: faults, values that are not finite, the last N."""

from __future__ import annotations

import sys
from pathlib import Path

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

SAMPLES = Path(__file__).parents[3] / "samples"


def test_nonfinite_seals_exactly_the_seventh_launch(kerncap: CommandLine) -> None:
    sample = SAMPLES / "nan_on_seventh"
    done = kerncap(
        "capture", "--json", "--when", "nonfinite", "-o", "out", "--", sys.executable, sample / "run.py"
    )
    document = _last_document(done.stdout)
    [name] = document["captured"]
    path = kerncap.folder / name
    manifest = Reproducer.open(path).manifest
    assert manifest.launch.ordinal == 6, "0-based: the seventh"
    assert manifest.oracle.kind == "suspect"
    assert manifest.oracle.condition == "nonfinite"

    assert kerncap("replay", path).status == 0, "the NaN is reproduced"
    broken = kerncap("verify", path, "--expect", "finite")
    assert broken.status == 1, broken.stdout
    for judge in (["--expect", "finite"], ["--reference", sample / "reference.py"]):
        repaired = kerncap("verify", path, "--candidate", sample / "repaired.py", *judge)
        assert repaired.result_line.startswith("Result: PASS"), repaired.stdout + repaired.stderr
    by_reference = kerncap("verify", path, "--reference", sample / "reference.py")
    assert by_reference.status == 1


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
    done = kerncap("capture", "--json", "--on-fault", "-o", "out", "--", sys.executable, target)
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
    paths = kerncap.capture("--last", "2", "-k", "bump", target=target, expect=2)
    assert sorted(Reproducer.open(path).manifest.launch.ordinal for path in paths) == [4, 5]


def test_differs_keeps_a_launch_that_does_not_repeat(kerncap: CommandLine) -> None:
    # The hidden counter is reached through an integer, so it's outside the closure and moves on.
    target = kerncap.target(
        """
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
    counter = torch.zeros(1, dtype=torch.int64)
    for _ in range(3):
        steady[(1,)](y, BLOCK=8)
    leaky[(1,)](y, counter.data_ptr(), BLOCK=8)
    assert y.tolist() == list(range(8)), y
    """
    )
    [path] = kerncap.capture("--when", "differs", target=target)
    manifest = Reproducer.open(path).manifest
    assert manifest.kernel.name == "leaky"
    assert manifest.oracle.kind == "suspect"


def _last_document(stdout: str) -> dict[str, list[str]]:
    """The JSON document after whatever the target printed."""
    import json

    start = stdout.index("\n{") + 1 if not stdout.startswith("{") else 0
    document = json.loads(stdout[start:])
    assert isinstance(document, dict)
    return document
