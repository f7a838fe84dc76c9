"""The line that says how a candidate is launched; and which modules need a closer look."""

from __future__ import annotations

import pytest

from kerncap.api.candidate_settings import SettingError, settings_of
from kerncap.api.edit.plain_source import is_plain

KERNEL = """
import triton
import triton.language as tl

WIDTH = tl.constexpr(float("-inf"))
PAIR = (1, -2)


@triton.jit(noinline=True)
def kernel(x_ptr, n: tl.constexpr, m=3):
    tl.store(x_ptr, n)
"""


def test_without_a_line_it_is_as_captured() -> None:
    assert settings_of("# kernel\nx = 1\n") == (None, 0)


def test_all_that_can_be_said() -> None:
    config, line = settings_of('x = 1\n  # kerncap: num_warps=8 BLOCK=256 FLAG=True grid=(32,2) ACT="relu"\n')
    assert config is not None and line == 2
    assert config.options == {"num_warps": 8} and config.grid == (32, 2, 1)
    assert config.arguments == {"BLOCK": 256, "FLAG": True, "ACT": "relu"}


@pytest.mark.parametrize(
    "text", ["num_warps", "num_warps=0", "num_warps=x", "grid=1,2,3,4", "grid=", "A=[1]", "1=2"]
)
def test_what_says_nothing_is_named_with_its_line(text: str) -> None:
    with pytest.raises(SettingError) as error:
        settings_of(f"\n# kerncap: {text}")
    assert error.value.line == 2


def test_kernels_and_constants_are_plain() -> None:
    assert is_plain(KERNEL)


@pytest.mark.parametrize(
    "more",
    [
        "import torch\ntorch.cuda.set_stream(torch.cuda.Stream())", "import os", "from .near import x",
        "kernel = wrap(kernel)",
        "class JITFunction: pass", "def helper(): pass", "@triton.autotune([])\n@triton.jit\ndef f(x): pass",
        "@triton.jit\ndef f(x=open('f')): pass", "@triton.jit\ndef f(x: print(1)): pass",
        "import near as triton",
        "X = [f() for _ in 'a']", "if True:\n    x = 1", "tl.load = 1", "(",
    ],
)  # fmt: skip
def test_whatever_else_it_does_is_looked_at(more: str) -> None:
    assert not is_plain(f"{KERNEL}\n{more}\n")
