"""What Triton's interpreter lacks and the worker fills: libdevice, and float arguments with a type."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from kerncap.api.replay import replay

from .build import Launch

pytest.importorskip("triton")
pytest.importorskip("torch")

TANH = """
from triton.language.extra import libdevice
from triton.language.extra.libdevice import erf


@triton.jit
def gate(x_ptr, out_ptr, scale, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i) * scale.to(tl.float32)
    tl.store(out_ptr + i, libdevice.tanh(x) + erf(x) + libdevice.pow(x, 2.0) + libdevice.isnan(x))
"""


def test_libdevice_and_typed_floats(tmp_path: Path) -> None:
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    halves = (x * np.float32(0.5)).tolist()
    expected = np.array([math.tanh(v) + math.erf(v) + v * v for v in halves], np.float32)
    launch = Launch(TANH, "gate", mode="jit").tensor("x_ptr", x)
    launch.tensor("out_ptr", np.zeros(64, np.float32), expected)
    result = replay(launch.argument("scale", 0.5).constexpr("BLOCK", 64).seal(tmp_path))
    assert result.passed, result.verdict.reasons
    assert "captured by Triton's compiler, replayed by interpreter" in result.notes


def test_a_float_argument_is_fp32_as_the_compiler_types_it(tmp_path: Path) -> None:
    """A half times a Python float stays half; times a compiled kernel's scalar it is single."""
    kernel = """
@triton.jit
def widen(x_ptr, out_ptr, scale, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * scale)
"""
    x = (np.arange(64, dtype=np.float16) / 7).astype(np.float16)
    launch = Launch(kernel, "widen", mode="jit").tensor("x_ptr", x)
    launch.tensor("out_ptr", np.zeros(64, np.float32), x.astype(np.float32) * np.float32(0.1))
    result = replay(launch.argument("scale", 0.1).constexpr("BLOCK", 64).seal(tmp_path))
    assert result.passed and result.verdict.exact, result.verdict.reasons
