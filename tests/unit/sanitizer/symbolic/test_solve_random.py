"""The solver against every point, on random conditions over small ranges."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kerncap.sanitizer.symbolic import affine, z3_solver
from kerncap.sanitizer.symbolic.enumerate import exhaust
from kerncap.sanitizer.symbolic.expr import Variable, land, ne, var
from kerncap.sanitizer.symbolic.solve import Sat, Solver, Unknown, Unsat
from tests.unit.sanitizer.symbolic import recipes
from tests.unit.sanitizer.symbolic.recipes import VARIABLES, Memory, Recipe, Value, build, environments, value

conjunctions = st.lists(recipes.boolean_recipes, min_size=1, max_size=3).map(lambda parts: ("land", *parts))


def _at(recipe: Recipe, assignment: dict[Variable, int]) -> Value:
    return value(recipe, {v: assignment.get(VARIABLES[v], VARIABLES[v].low) for v in recipes.used(recipe)})


def _truths(recipe: Recipe) -> set[Value]:
    return {value(recipe, point) for point in environments(recipe)}


@settings(max_examples=150)
@given(conjunctions)
def test_answers_agree_with_every_point(recipe: Recipe) -> None:
    answer = Solver(Memory()).satisfiable(*(build(r) for r in recipe[1:]))
    truths = _truths(recipe)
    if isinstance(answer, Unsat):
        assert True not in truths
    elif isinstance(answer, Sat):
        # Simplification may have got rid of what is not known.
        assert _at(recipe, answer.assignment) is not False
    else:
        assert None in truths
        assert True not in truths


@settings(max_examples=60)
@given(conjunctions)
def test_without_memory_nothing_is_claimed_of_it(recipe: Recipe) -> None:
    answer = Solver(None, timeout_s=0.5).satisfiable(*(build(r) for r in recipe[1:]))
    if isinstance(answer, Unsat):
        assert not answer.contents
        assert True not in _truths(recipe)
    elif isinstance(answer, Sat):
        assert _at(recipe, answer.assignment) is not False


@settings(max_examples=60)
@given(conjunctions)
def test_each_tier_is_right_alone(recipe: Recipe) -> None:
    condition = land(*(build(r) for r in recipe[1:]))
    if condition.kind == "boolean":
        return
    truths = _truths(recipe)
    searched = affine.Search(condition, lambda _: False).run()
    assert not (isinstance(searched, affine.Refuted) and True in truths)
    asked = z3_solver.Query(condition, {}, 0.5).ask()
    assert not (isinstance(asked, z3_solver.Impossible) and True in truths)
    if isinstance(asked, z3_solver.Model) and not condition.reads and not condition.unknown_reasons:
        assert _at(recipe, asked.assignment) is not False
    everywhere = exhaust(condition, Memory())
    assert (type(everywhere).__name__ == "Nowhere") <= (True not in truths)


@settings(max_examples=30)
@given(st.integers(0, 1 << 40))
def test_two_copies_of_an_address(seed: int) -> None:
    """Do two different programs touch the same place? Strides that dominate, that do not, masks, swizzles."""
    chance = random.Random(seed)
    shape = chance.choice(("blocks", "rows", "mod"))
    stride, inner = chance.choice((3, 4, 5, 8)), chance.choice((1, 1, 2))
    address: Recipe = ("add", ("mul", ("var", 0), ("const", stride)), ("mul", ("var", 1), ("const", inner)))
    if shape == "rows":
        address = ("add", ("mul", ("var", 3), ("const", 4 * stride)), address)
    elif shape == "mod":
        address = ("mod_floor", address, ("const", chance.choice((8, 16, 32))))
    mask: Recipe = ("lt", ("var", 1), ("const", chance.choice((2, 3, 5, 8))))
    copies = tuple(Variable(v.name + "'", v.kind, v.low, v.high) for v in VARIABLES)
    width = chance.choice((1, 1, 2, 4))
    here, there = build(address), build(address, copies)
    answer = Solver().satisfiable(
        ne(var(VARIABLES[0]), var(copies[0])),
        build(mask),
        build(mask, copies),
        here - there < width,
        here - there > -width,
    )
    every = environments(("land", address, mask))
    touched = {(point[0], int(value(address, point) or 0)) for point in every if value(mask, point)}
    meet = any(a != b and abs(x - y) < width for a, x in touched for b, y in touched)
    assert not isinstance(answer, Unknown)
    assert isinstance(answer, Sat) == meet
