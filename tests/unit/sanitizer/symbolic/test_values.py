"""Simplification, intervals, congruences and evaluation against plain Python, on random expressions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncap.sanitizer.symbolic import expr
from kerncap.sanitizer.symbolic.evaluate import evaluate_partially
from kerncap.sanitizer.symbolic.expr import Buffer, Unevaluable, Variable, const, evaluate, var
from tests.unit.sanitizer.symbolic import recipes
from tests.unit.sanitizer.symbolic.recipes import VARIABLES, Memory, Recipe, build, environments, value


@settings(max_examples=250)
@given(recipes.integer_recipes)
def test_integers_keep_their_values_and_bounds(recipe: Recipe) -> None:
    e = build(recipe)
    points = list(environments(recipe))
    arrays = {VARIABLES[v]: np.array([p[v] for p in points]) for v in points[0]}
    (result,) = evaluate_partially([e], arrays, Memory())
    values = np.broadcast_to(result.value, len(points))
    known = np.broadcast_to(True if result.known is None else result.known, len(points))
    low, high = expr.interval(e)
    modulus, remainder = expr.congruence(e)
    for point, got, is_known in zip(points, values.tolist(), known.tolist(), strict=True):
        expected = value(recipe, point)
        if expected is None:
            continue
        assert is_known
        assert got == expected
        assert (low is None or low <= expected) and (high is None or expected <= high)
        assert expected == remainder if modulus == 0 else (expected - remainder) % modulus == 0


@settings(max_examples=120)
@given(recipes.boolean_recipes)
def test_booleans_and_their_negations_keep_their_values(recipe: Recipe) -> None:
    e = build(recipe)
    points = list(environments(recipe))
    arrays = {VARIABLES[v]: np.array([p[v] for p in points]) for v in points[0]}
    straight, opposite = evaluate_partially([e, expr.lnot(e)], arrays, Memory())
    for index, point in enumerate(points):
        expected = value(recipe, point)
        if expected is not None:
            assert bool(np.broadcast_to(straight.value, len(points))[index]) == expected
            assert bool(np.broadcast_to(opposite.value, len(points))[index]) != expected
    assert expr.lnot(expr.lnot(e)) is e or expr.lnot(expr.lnot(e)).sort == "bool"


@settings(max_examples=80)
@given(recipes.integer_recipes, st.randoms(use_true_random=False))
def test_substitution_is_evaluation_at_the_replacement(recipe: Recipe, chance: object) -> None:
    p, i = VARIABLES[0], VARIABLES[1]
    # p in [0, 3] becomes i // 2, which stays within.
    e = build(recipe)
    replaced = expr.substitute(e, {p: expr.div_floor(var(i), const(2))})
    assert p not in replaced.variables
    for number in range(i.low, i.high + 1):
        for others in (0, 2):
            point = {v: min(others, v.high) for v in VARIABLES} | {i: number}
            before = evaluate_partially([e], point | {p: number // 2}, Memory())[0]
            after = evaluate_partially([replaced], point, Memory())[0]
            if before.known is None or bool(before.known):
                assert after.known is None or bool(after.known)
                assert int(before.value) == int(after.value)


def test_wide_results_leave_64_bits_without_harm() -> None:
    x = Variable("x", "free", -(2**62), 2**62)
    cube = expr.mul(var(x), expr.mul(var(x), var(x)))
    numbers = np.array([2**62, -(2**62), 3, 0])
    (values,) = evaluate([cube], {x: numbers})
    assert values.tolist() == [2**186, -(2**186), 27, 0]
    (wrapped,) = evaluate([expr.wrap(expr.add(cube, const(5)), 64)], {x: numbers})
    assert wrapped.dtype == np.int64
    assert wrapped.tolist() == [5, 5, 32, 5]
    (far,) = evaluate([expr.lt(var(x), const(2**70))], {x: numbers})
    assert far.all()


def test_the_most_negative_number_divided_by_minus_one() -> None:
    x = Variable("x", "free", -(2**63), 2**63 - 1)
    y = Variable("y", "free", -5, -1)
    (value_,) = evaluate([expr.div_trunc(var(x), var(y))], {x: -(2**63), y: -1})
    assert value_.tolist() == 2**63


def test_what_is_not_known_reaches_only_what_depends_on_it() -> None:
    i = Variable("i", "lane", 0, 3)
    nothing = expr.unknown("no idea", "key")
    numbers = np.arange(4)
    condition = expr.land(expr.lt(var(i), const(2)), expr.gt(nothing, const(0)))
    (result,) = evaluate_partially([condition], {i: numbers})
    assert result.known is not None
    assert result.known.tolist() == [False, False, True, True]
    with pytest.raises(Unevaluable, match="no idea"):
        evaluate([expr.add(nothing, var(i))], {i: numbers})
    with pytest.raises(Unevaluable, match="storage 3"):
        evaluate([expr.read(Buffer(3, 32), var(i))], {i: numbers})
    guarded = expr.ite(expr.gt(var(i), const(0)), expr.div_trunc(const(12), var(i)), const(-1))
    assert evaluate([guarded], {i: numbers})[0].tolist() == [-1, 12, 6, 4]
    with pytest.raises(Unevaluable, match="zero"):
        evaluate([expr.div_trunc(const(12), var(i))], {i: numbers})


def test_variables_broadcast() -> None:
    i, j = Variable("i", "lane", 0, 3), Variable("j", "lane", 0, 4)
    (grid,) = evaluate(
        [expr.add(expr.mul(var(i), const(10)), var(j))], {i: np.arange(4)[:, None], j: np.arange(5)[None, :]}
    )
    assert grid.shape == (4, 5)
    assert grid[3, 4] == 34


def test_a_million_points_with_64_bit_unsigned_memory() -> None:
    class Memory64:
        def values(self, buffer: Buffer, offsets: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
            return np.where(offsets % 16 == 0, np.uint64(2**64 - 1), np.uint64(7))

        def bounds(self, buffer: Buffer) -> None:
            return None

    i = Variable("i", "lane", 0, 999)
    (values,) = evaluate(
        [expr.read(Buffer(0, 64, signed=False), var(i))], {i: np.array([0, 1, 16])}, Memory64()
    )
    assert values.tolist() == [2**64 - 1, 7, 2**64 - 1]
