"""`pytest --kerncap-on-failure` on an NVIDIA GPU: a wrong result, and a fault that the process survives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap.format.reader import Reproducer

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

SUITE = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) * 2.01, mask=o < n)

@triton.jit
def wild(x, far, B: tl.constexpr):
    tl.store(x + far + tl.arange(0, B), 1.0)

def test_double():
    x, other, y = (torch.ones(4096, device="cuda") for _ in range(3))
    double[(4,)](x, y, 4096, B=1024)
    double[(4,)](x, other, 4096, B=1024)
    torch.testing.assert_close(y, x * 2)

def test_passes():
    assert torch.ones(4, device="cuda").sum() == 4

def test_wild():
    wild[(1,)](torch.ones(64, device="cuda"), 1 << 42, B=64)
    torch.cuda.synchronize()

def test_after_it():
    assert torch.ones(4, device="cuda").sum() == 4
"""


def test_the_launches_to_blame(tmp_path: Path) -> None:
    (tmp_path / "test_kernels.py").write_text(SUITE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kerncap-on-failure"],
        cwd=tmp_path, env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")},
        capture_output=True, text=True, timeout=450,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    found = {}
    for manifest in tmp_path.joinpath("kerncap-failures").rglob("manifest.json"):
        with Reproducer.open(manifest.parent) as reproducer:
            test = manifest.parent.parent.name.rpartition("-")[0]
            found[test] = (reproducer.manifest.kernel.name, reproducer.manifest.launch.ordinal)
            assert reproducer.manifest.oracle.kind == ("fault" if "wild" in test else "trusted")
    assert found == {
        "test_kernels.py-test_double": ("double", 0),
        "test_kernels.py-test_wild": ("wild", 0),
    }, said
    # The context was lost with the test before it.
    assert "test_after_it: no reproducer: it passed when it ran again by itself" in said
