"""Somebody else's kernels, unchanged: Liger-Kernel from PyPI, captured in one run and replayed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("liger_kernel") is None,
    reason="liger-kernel is not installed (make setup brings it)",
)

TARGET = Path(__file__).parent / "targets" / "liger_ops.py"

# What Triton's interpreter can run on CPU tensors; the others stop in the application itself.
ON_THE_CPU = {
    "_softmax_single_block_forward_kernel", "_softmax_single_block_backward_kernel",
    "_sparsemax_forward_kernel", "_sparsemax_backward_kernel",
    "_relu_squared_forward_kernel", "_relu_squared_backward_kernel",
    "_jsd_kernel", "liger_cross_entropy_kernel", "element_mul_kernel",
    "_triton_rope", "_triton_llama4_rope",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(400)
def test_every_captured_kernel_replays_to_the_applications_output(kerncap: CommandLine) -> None:
    plain_status_line = "softmax: ok"
    done = kerncap(
        "capture",
        "-o",
        "out",
        "-k",
        r"^liger_kernel\.",
        "--launch",
        "0:1",
        "--no-self-check",
        "--",
        sys.executable,
        TARGET,
        timeout=300,
    )
    assert done.status == 0, done.stderr
    assert plain_status_line in done.stdout.splitlines()
    paths = sorted(path for path in (kerncap.folder / "out").iterdir() if not path.name.startswith("."))
    names = {Reproducer.open(path).manifest.kernel.name for path in paths}
    assert names >= _expected(names), sorted(names)
    assert len(names) >= 10

    results = [kerncap("replay", path, timeout=200) for path in paths]
    failed = {
        path.name: (result.stdout + result.stderr)[-600:]
        for path, result in zip(paths, results, strict=True)
        if not result.result_line.startswith("Result: PASS")
    }
    assert not failed, failed


def _expected(names: set[str]) -> set[str]:
    """The kernels that must be there, by their names in the installed release."""
    present = {name for name in ON_THE_CPU if name in names}
    families = ("softmax", "sparsemax", "relu", "jsd", "cross_entropy", "element_mul", "rope")
    for family in families:
        assert any(family in name for name in names), f"no kernel of {family} in {sorted(names)}"
    return present
