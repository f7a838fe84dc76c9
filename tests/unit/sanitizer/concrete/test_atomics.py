"""Many lanes at few places: what each finds and what is left, against one lane after the other."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap.sanitizer.concrete.atomics import combiner, in_order, summed
from tests.unit.sanitizer.concrete.launches import Array
from tests.unit.sanitizer.concrete.text import run_text

_random = np.random.default_rng(5)


def _one_by_one(kind: str, places: Array, start: Array, operands: Array) -> tuple[Array, Array]:
    combine = combiner(kind, start.dtype.kind == "f")
    cells = dict(zip(places.tolist(), start, strict=True))
    old = np.empty_like(start)
    for lane, place in enumerate(places.tolist()):
        old[lane] = cells[place]
        cells[place] = combine(cells[place].reshape(1), operands[lane : lane + 1])[0]
    return old, np.array([cells[place] for place in places.tolist()], dtype=start.dtype)


@pytest.mark.parametrize("count", [1, 3, 40, 1000], ids="{} places".format)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("add", "i4"), ("max", "i4"), ("umin", "i4"), ("xor", "i8"), ("exch", "i4"),
        ("fadd", "f4"), ("fadd", "f2"), ("min", "f4"), ("inc", "i4"), ("dec", "i4"),
    ],
)  # fmt: skip
def test_in_order(kind: str, dtype: str, count: int) -> None:
    places = _random.integers(0, count, 300)
    cells = _random.integers(-50, 50, count).astype(dtype)
    operands = (_random.standard_normal(300) * 9).astype(dtype)
    start = cells[places]
    with np.errstate(all="ignore"):
        wanted = _one_by_one(kind, places, start, operands)
        combine = combiner(kind, dtype[0] == "f")
        ufunc = combine if isinstance(combine, np.ufunc) else None
        found = in_order(places, start, lambda x, lanes: combine(x, operands[lanes]), ufunc, operands)
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, want)
        if kind == "add":
            for got, want in zip(summed(places, start, operands), wanted, strict=True):
                np.testing.assert_array_equal(got, want)


def test_sums_wrap_around() -> None:
    old, final = summed(np.zeros(3, "i8"), np.full(3, 2**31 - 1, "i4"), np.array([1, 1, -3], "i4"))
    assert old.tolist() == [2**31 - 1, -(2**31), -(2**31) + 1]
    assert final.tolist() == [2**31 - 2] * 3


def test_no_lane_and_no_program() -> None:
    nothing = np.zeros(0, "i8"), np.zeros(0, "i4")
    assert all(not len(array) for array in in_order(*nothing, lambda x, lanes: x))
    body = """
    %one = arith.constant 1 : i32
    %r = tt.atomic_rmw add, relaxed, gpu, %x, %one : (!tt.ptr<i32>, i32) -> i32
    tt.return
    """
    outcome, after = run_text(body, {"x": np.zeros(1, "i4")}, (0,))
    assert outcome.complete and after["x"].tolist() == [0]
    outcome, after = run_text(body, {"x": np.zeros(1, "i4")}, (50_000,))
    assert outcome.complete and after["x"].tolist() == [50_000]
