"""The measurement's kernels are PTX that NVIDIA's assembler takes, and do the work that is counted."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerncap.replay.candidates import tools

FILE = Path(__file__).parents[3] / "replay" / "worker" / "limits" / "benchmark_kernels.py"


@pytest.fixture(scope="module")
def ptx() -> Any:
    """The module alone: the worker's package is loaded by path in the worker."""
    spec = importlib.util.spec_from_file_location("measured_ptx", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["measured_ptx"] = module
    spec.loader.exec_module(module)
    return module


KERNELS = {
    "copy": ("memory", (True, True), 32), "read": ("memory", (True, False), 16),
    "fp32": ("vector", ("fp32",), 32 * 128 * 2), "fp64": ("vector", ("fp64",), 32 * 128 * 2),
    "fp16": ("vector", ("fp16",), 32 * 128 * 4), "special": ("vector", ("special",), 32 * 128),
    "mma fp16": ("mma", ("fp16",), 32 * 2 * 16 * 8 * 16), "mma fp64": ("mma", ("fp64",), 32 * 2 * 8 * 8 * 4),
    "wgmma bf16": ("wgmma", ("bf16",), 8 * 2 * 64 * 256 * 16 // 4),
    "wgmma int8": ("wgmma", ("int8",), 8 * 2 * 64 * 256 * 32 // 4),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_it_assembles(ptx: Any, name: str, tmp_path: Path) -> None:
    assembler = tools.ptxas()
    if isinstance(assembler, str):
        pytest.skip(assembler)
    make, arguments, per_round = KERNELS[name]
    kernel = getattr(ptx, make)(*arguments)
    assert kernel.per_round == per_round
    source = tmp_path / "kernel.ptx"
    source.write_text(kernel.text)
    arch = "sm_90a" if kernel.only else f"sm_{kernel.least}"
    done = subprocess.run(
        [assembler.path, "-arch", arch, source, "-o", tmp_path / "kernel.cubin"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_kind_has_a_kernel(ptx: Any) -> None:
    for kind in ptx.MMA_KINDS:
        assert "mma.sync" in ptx.mma(kind).text
    for kind in ptx.WGMMA_KINDS:
        assert ptx.wgmma(kind).only and ptx.wgmma(kind).least == 90
