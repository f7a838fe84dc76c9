"""Choices that are a maximum or a minimum of what is chosen from, and choices that only look like one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from kerncap.sanitizer.equality.chosen_extremes import extreme_of
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import walk
from tests.integration.equality.pairs import Run, launched


@triton.jit
def larger(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((a > b) | (a != a), a, b))


@triton.jit
def smaller(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((b != b) | (a >= b), b, a))


@triton.jit
def positive(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    tl.store(z + at, tl.where(a > 0, a, 0.0))


@triton.jit
def larger_or_another_is_nan(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b, c = tl.load(x + at), tl.load(y + at), tl.load(z + at)
    tl.store(z + at, tl.where((a > b) | (c != c), a, b))


@triton.jit
def larger_than_another(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b, c = tl.load(x + at), tl.load(y + at), tl.load(z + at)
    tl.store(z + at, tl.where(a > c, a, b))


@triton.jit
def positive_or_one(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    tl.store(z + at, tl.where(a > 0, a, 1.0))


@triton.jit
def larger_or_differing(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((a > b) | (a != b), a, b))


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (larger, "maximum"), (smaller, "minimum"), (positive, "maximum"), (larger_or_another_is_nan, None),
        (larger_than_another, None), (positive_or_one, None), (larger_or_differing, None),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)  # fmt: skip
def test_what_a_choice_is(kernel: Any, wanted: str | None) -> None:
    tensors = tuple(torch.zeros(64) for _ in range(3))
    body = read_module(launched(tensors, Run(kernel, (1,), {"BLOCK": 64})).ttir).kernel.body
    assert body is not None
    assert [extreme_of(one) for one in walk(body) if one.name == "arith.select"] == [wanted]
