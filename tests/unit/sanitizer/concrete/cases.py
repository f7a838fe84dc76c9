"""Launches of the kernels in `kernels`: grid, arguments and constants of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.unit.sanitizer.concrete import kernels


@dataclass(frozen=True)
class Tensor:
    """``data`` holds the bits where numpy has no such type; ``kind`` as Triton's signatures spell it."""

    kind: str
    data: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    kernel: Any
    grid: tuple[int, ...]
    arguments: Mapping[str, Tensor | int | float]
    constants: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0  # relative and absolute, of floats


_KINDS = {  # by numpy's letter and size
    "f2": "fp16",
    "f4": "fp32",
    "f8": "fp64",
    "i1": "i8",
    "i2": "i16",
    "i4": "i32",
    "i8": "i64",
}
_random = np.random.default_rng(7)


def T(data: Any, kind: str | None = None) -> Tensor:
    data = np.ascontiguousarray(data)
    return Tensor(kind or _KINDS[f"{data.dtype.kind}{data.itemsize}"], data)


def _normal(*shape: int, dtype: str = "f4") -> Tensor:
    return T(_random.standard_normal(shape).astype(dtype))


def _whole(low: int, high: int, *shape: int, dtype: str = "i4") -> Tensor:
    return T(_random.integers(low, high, shape).astype(dtype))


def _zeros(*shape: int, dtype: str = "i4") -> Tensor:
    return T(np.zeros(shape, dtype))


def _nonzero(*shape: int, dtype: str = "i4", high: int = 100) -> Tensor:
    return T((_random.integers(1, high, shape) * _random.choice([-1, 1], shape)).astype(dtype))


_specials = np.array([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, -2.5, 1e-40], dtype="f4")


def _casts() -> Tensor:
    return T((_random.standard_normal(64) * 60).astype("f4"))


CASES: dict[str, Case] = {
    "add": Case(kernels.add, (5,), {
        "x_ptr": _normal(300), "y_ptr": _normal(300), "out_ptr": _zeros(300, dtype="f4"), "n": 290,
    }, {"BLOCK": 64}),
    "add_half": Case(kernels.add, (2,), {
        "x_ptr": _normal(100, dtype="f2"), "y_ptr": _normal(100, dtype="f2"),
        "out_ptr": _zeros(100, dtype="f2"), "n": 100,
    }, {"BLOCK": 64}),
    "add_double": Case(kernels.add, (2,), {
        "x_ptr": _normal(100, dtype="f8"), "y_ptr": _normal(100, dtype="f8"),
        "out_ptr": _zeros(100, dtype="f8"), "n": 100,
    }, {"BLOCK": 64}),
    "add_bytes": Case(kernels.add, (2,), {
        "x_ptr": _whole(-128, 128, 128, dtype="i1"), "y_ptr": _whole(-128, 128, 128, dtype="i1"),
        "out_ptr": _zeros(128, dtype="i1"), "n": 128,
    }, {"BLOCK": 64}),
    "integers_32": Case(kernels.integers, (1,), {
        "x_ptr": _whole(-(2**31), 2**31, 64), "y_ptr": _nonzero(64), "out_ptr": _zeros(12 * 64),
    }, {"BLOCK": 64}),
    "integers_64": Case(kernels.integers, (1,), {
        "x_ptr": _whole(-(2**63), 2**63 - 1, 64, dtype="i8"), "y_ptr": _nonzero(64, dtype="i8", high=2**40),
        "out_ptr": _zeros(12 * 64, dtype="i8"),
    }, {"BLOCK": 64}),
    "integers_16": Case(kernels.integers, (1,), {
        "x_ptr": _whole(-(2**15), 2**15, 64, dtype="i2"), "y_ptr": _nonzero(64, dtype="i2"),
        "out_ptr": _zeros(12 * 64, dtype="i2"),
    }, {"BLOCK": 64}),
    "compare_integers": Case(kernels.compare, (1,), {
        "x_ptr": _whole(-3, 3, 64), "y_ptr": _whole(-3, 3, 64), "out_ptr": _zeros(64),
    }, {"BLOCK": 64}),
    "compare_floats": Case(kernels.compare, (1,), {
        "x_ptr": T(np.repeat(_specials, 8)), "y_ptr": T(np.tile(_specials, 8)), "out_ptr": _zeros(64),
    }, {"BLOCK": 64}),
    "floats": Case(kernels.floats, (1,), {
        "x_ptr": _normal(64), "y_ptr": _normal(64), "out_ptr": _zeros(7 * 64, dtype="f4"),
    }, {"BLOCK": 64}, 1e-6),
    "functions": Case(kernels.functions, (1,), {
        "x_ptr": _normal(64), "out_ptr": _zeros(9 * 64, dtype="f4"),
    }, {"BLOCK": 64}, 1e-6),
    "casts": Case(
        kernels.casts, (1,), {"x_ptr": _casts(), "out_ptr": _zeros(7 * 64, dtype="f4")}, {"BLOCK": 64}
    ),
    "to_bfloat16": Case(kernels.convert, (1,), {
        "x_ptr": T(_random.integers(-128, 128, 64).astype("f4")), "out_ptr": T(np.zeros(64, "u2"), "bf16"),
        "n": 60,
    }, {"BLOCK": 64}),
    "from_bfloat16": Case(kernels.convert, (1,), {
        "x_ptr": T(_random.integers(0x80, 0x7F80, 64).astype("u2"), "bf16"),
        "out_ptr": _zeros(64, dtype="f4"), "n": 60,
    }, {"BLOCK": 64}),
    "from_e4m3": Case(kernels.convert, (1,), {
        "x_ptr": T(np.arange(1, 65, dtype="u1"), "fp8e4nv"), "out_ptr": _zeros(64, dtype="f4"), "n": 64,
    }, {"BLOCK": 64}),
    "from_e5m2": Case(kernels.convert, (1,), {
        "x_ptr": T(np.arange(4, 68, dtype="u1"), "fp8e5"), "out_ptr": _zeros(64, dtype="f4"), "n": 64,
    }, {"BLOCK": 64}),
    "to_e4m3": Case(kernels.convert, (1,), {
        "x_ptr": T(np.arange(-8, 8, dtype="f4")), "out_ptr": T(np.zeros(16, "u1"), "fp8e4nv"), "n": 16,
    }, {"BLOCK": 16}),
    "random": Case(kernels.random, (2,), {"out_ptr": _zeros(64, dtype="f4"), "seed": 123}, {"BLOCK": 32}),
    "high_product": Case(kernels.high_product, (1,), {
        "x_ptr": _whole(-(2**31), 2**31, 32), "y_ptr": _whole(-(2**31), 2**31, 32), "out_ptr": _zeros(32),
    }, {"BLOCK": 32}),
    "transpose": Case(kernels.transpose, (1,), {
        "x_ptr": _normal(8, 16), "out_ptr": _zeros(16, 8, dtype="f4"),
    }, {"M": 8, "N": 16}),
    "reshape": Case(kernels.reshape, (1,), {
        "x_ptr": _normal(8, 16), "out_ptr": _zeros(8, 16, dtype="f4"),
    }, {"M": 8, "N": 16}),
    "join_split": Case(kernels.join_split, (1,), {
        "x_ptr": _normal(16), "y_ptr": _normal(16), "out_ptr": _zeros(48, dtype="f4"),
    }, {"BLOCK": 16}),
    "gather_rows": Case(kernels.gather_rows, (1,), {
        "x_ptr": _normal(4, 16), "index_ptr": _whole(0, 16, 4, 16), "out_ptr": _zeros(4, 16, dtype="f4"),
    }, {"M": 4, "N": 16}),
    "histogram": Case(kernels.histogram, (3,), {
        "x_ptr": _whole(0, 8, 3, 64), "out_ptr": _zeros(3, 8),
    }, {"BLOCK": 64, "BINS": 8}),
    "sort_rows": Case(
        kernels.sort_rows, (3,), {"x_ptr": _normal(3, 32), "out_ptr": _zeros(3, 32, dtype="f4")}, {"N": 32}
    ),
    "reductions": Case(kernels.reductions, (1,), {
        "x_ptr": _normal(8, 16), "out_ptr": _zeros(5 * 8 + 17, dtype="f4"),
    }, {"M": 8, "N": 16}, 1e-5),
    "reductions_ties": Case(kernels.reductions, (1,), {
        "x_ptr": _whole(0, 3, 8, 16), "out_ptr": _zeros(5 * 8 + 17),
    }, {"M": 8, "N": 16}),
    "xor_sum": Case(
        kernels.xor_sum, (1,), {"x_ptr": _whole(-(2**31), 2**31, 64), "out_ptr": _zeros(3)}, {"N": 64}
    ),
    "custom_reduce": Case(kernels.custom_reduce, (1,), {
        "x_ptr": T(np.array([0] * 5 + [9, 0, 4], dtype="i4")), "out_ptr": _zeros(2),
    }, {"N": 8}),
    "scans": Case(
        kernels.scans, (1,), {"x_ptr": _whole(-3, 4, 4, 16), "out_ptr": _zeros(4 * 64)}, {"M": 4, "N": 16}
    ),
    "custom_scan": Case(kernels.custom_scan, (1,), {
        "a_ptr": _normal(16), "b_ptr": _normal(16), "out_ptr": _zeros(32, dtype="f4"),
    }, {"N": 16, "REVERSE": False}, 1e-5),
    "custom_scan_reverse": Case(kernels.custom_scan, (1,), {
        "a_ptr": _normal(16), "b_ptr": _normal(16), "out_ptr": _zeros(32, dtype="f4"),
    }, {"N": 16, "REVERSE": True}, 1e-5),
    "matmul": Case(kernels.matmul, (3, 2), {
        "a_ptr": _normal(40, 50), "b_ptr": _normal(50, 30), "c_ptr": _zeros(40, 30, dtype="f4"), "M": 40,
        "N": 30, "K": 50,
    }, {"BM": 16, "BN": 16, "BK": 16}, 1e-4),
    "matmul_half": Case(kernels.matmul, (2, 2), {
        "a_ptr": _normal(32, 32, dtype="f2"), "b_ptr": _normal(32, 32, dtype="f2"),
        "c_ptr": _zeros(32, 32, dtype="f2"), "M": 32, "N": 32, "K": 32,
    }, {"BM": 16, "BN": 16, "BK": 16}, 2e-3),
    "dot_integers": Case(kernels.dot_integers, (1,), {
        "a_ptr": _whole(-128, 128, 32, 32, dtype="i1"), "b_ptr": _whole(-128, 128, 32, 32, dtype="i1"),
        "c_ptr": _zeros(32, 32),
    }, {"S": 32}),
    "softmax": Case(kernels.softmax, (6,), {
        "x_ptr": _normal(6, 50), "out_ptr": _zeros(6, 50, dtype="f4"), "columns": 50,
    }, {"BLOCK": 64}, 1e-5),
    "early_return": Case(kernels.early_return, (12,), {"out_ptr": _zeros(12), "n": 8}),
    "branches": Case(kernels.branches, (8,), {"out_ptr": _zeros(8, 16)}, {"BLOCK": 16}),
    "own_trips": Case(kernels.own_trips, (6,), {
        "count_ptr": _whole(0, 12, 6), "x_ptr": _whole(-9, 9, 12, 16), "out_ptr": _zeros(6, 16),
    }, {"BLOCK": 16}),
    "collatz": Case(kernels.collatz, (30,), {"out_ptr": _zeros(30)}),
    "calls": Case(kernels.calls, (5,), {"out_ptr": _zeros(5, 8)}, {"BLOCK": 8}),
    "binary_search": Case(kernels.binary_search, (20,), {
        "x_ptr": T(np.sort(_random.integers(0, 100, 37)).astype("i4")), "wanted_ptr": _whole(-5, 110, 20),
        "out_ptr": _zeros(20), "n": 37,
    }),
    "grid_of_three": Case(kernels.grid_of_three, (2, 3, 4), {"out_ptr": _zeros(24)}),
    "indirect": Case(kernels.indirect, (2,), {
        "x_ptr": _whole(0, 99, 40), "index_ptr": _whole(-4, 40, 50), "out_ptr": _zeros(50), "n": 50,
    }, {"BLOCK": 32}),
    "scatter_in_place": Case(kernels.scatter_in_place, (1,), {
        "x_ptr": _whole(0, 99, 16), "index_ptr": T(_random.permutation(16).astype("i4")),
    }, {"BLOCK": 16}),
    "unaligned": Case(kernels.unaligned, (1,), {
        "x_ptr": _whole(-128, 128, 64, dtype="i1"), "out_ptr": _zeros(16, dtype="i2"),
    }, {"BLOCK": 16}),
    "atomics": Case(kernels.atomics, (4,), {
        "x_ptr": _whole(-50, 50, 64), "index_ptr": _whole(0, 8, 64), "cells_ptr": _whole(-50, 50, 64),
        "out_ptr": _zeros(4), "n": 60,
    }, {"BLOCK": 16}),
    "atomic_floats": Case(kernels.atomic_floats, (4,), {
        "x_ptr": _normal(64), "index_ptr": _whole(0, 8, 64), "cells_ptr": _normal(24),
    }, {"BLOCK": 16}, 1e-5),
    "locked_sum": Case(kernels.locked_sum, (6,), {
        "lock_ptr": _zeros(1), "total_ptr": _zeros(1), "x_ptr": _whole(-9, 9, 6, 16),
    }, {"BLOCK": 16}),
    "last_arriver": Case(kernels.last_arriver, (8,), {
        "count_ptr": _zeros(1), "part_ptr": _zeros(8), "x_ptr": _whole(-9, 9, 8, 16), "out_ptr": _zeros(1),
    }, {"BLOCK": 16, "N": 8}),
    "descriptors": Case(kernels.block_pointers, (3,), {
        "x_ptr": _normal(40, 28), "out_ptr": _zeros(40, 28, dtype="f4"), "M": 40, "N": 28,
    }, {"BM": 16, "BN": 16}),
    "nan_padding": Case(kernels.nan_padding, (1,), {
        "x_ptr": _normal(12, 8), "out_ptr": _zeros(16, 16, dtype="f4"), "M": 12, "N": 8,
    }, {"B": 16}),
}  # fmt: skip
