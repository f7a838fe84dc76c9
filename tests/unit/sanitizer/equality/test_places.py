"""Places of largest and smallest numbers: equal ones are so for every order of the numbers, with ties."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from kerncap.sanitizer.equality.field_arithmetic import PRIMES
from kerncap.sanitizer.equality.field_draw import Field
from kerncap.sanitizer.equality.numbers import NotModelled, named
from kerncap.sanitizer.equality.places import (
    Places,
    Rule,
    along,
    as_bits,
    as_numbers,
    extreme_along,
    of_integers,
    of_numbers,
    of_one,
    picked,
    rule_of_ties,
    scaled,
    shifted,
)

COUNT = 4
Order = tuple[int, ...]  # of each number, its rank
Chosen = tuple[int, int]  # a rank and a place


@dataclass(frozen=True)
class Tree:
    """How the place of an extreme is found: of one number, or of two trees' with a tie rule."""

    number: int = -1
    place: int = 0
    both: tuple[Tree, ...] = ()
    tie: str = ""


def real(tree: Tree, kind: str, order: Order) -> Chosen:
    if not tree.both:
        return order[tree.number], tree.place
    first, second = (real(one, kind, order) for one in tree.both)
    sign = 1 if kind == "maximum" else -1
    better = sign * (first[0] - second[0])
    if not better:
        left = first[1] < second[1]
        better = {"left": 1 if left else -1, "right": -1 if left else 1, "first": 1, "second": -1}[tree.tie]
    rank, place = first if better > 0 else second
    return rank, place


def modelled(tree: Tree, kind: str, exact: Field, numbers: np.ndarray) -> Places | None:
    """None: not by one rule, so that the prover gives up."""

    def of(one: Tree, tie: str) -> Places | None:
        if not one.both:
            return of_numbers(
                exact, numbers[one.number : one.number + 1], np.array([one.place]), Rule(kind, tie)
            )
        first, second = (of(below, tie) for below in one.both)
        if first is None or second is None:
            return None
        if rule_of_ties(first, second, Rule(kind, tie), one.tie) != tie:
            return None
        return of_one(exact, first, second, one.tie)

    return of(tree, "left") or of(tree, "right")


@some.composite
def _trees(draw: some.DrawFn) -> tuple[Tree, Tree]:
    """Of the same numbers and places, or of all but one; in two orders."""
    count = draw(some.integers(2, COUNT))
    leaves = [Tree(draw(some.integers(0, COUNT - 1)), draw(some.integers(-1, 2))) for _ in range(count)]
    ties = draw(some.lists(some.sampled_from(["left", "right", "first", "second"]), min_size=1, max_size=2))

    def of(some_leaves: list[Tree]) -> Tree:
        if len(some_leaves) == 1:
            return some_leaves[0]
        at = draw(some.integers(1, len(some_leaves) - 1))
        return Tree(both=(of(some_leaves[:at]), of(some_leaves[at:])), tie=draw(some.sampled_from(ties)))

    other = draw(some.permutations(leaves))
    return of(leaves), of(other if draw(some.booleans()) else other[1:])


_EXACT = Field(PRIMES[0], 7)
_NUMBERS = _EXACT.drawn(named("x"), np.arange(COUNT, dtype=np.int64), "f32")


def _orders() -> Iterator[Order]:
    return itertools.product(range(COUNT), repeat=COUNT)


@given(_trees(), some.sampled_from(["maximum", "minimum"]))
def test_what_is_equal_is_equal_for_every_order_and_every_tie(trees: tuple[Tree, Tree], kind: str) -> None:
    first, second = trees
    one, other = (modelled(tree, kind, _EXACT, _NUMBERS) for tree in (first, second))
    if one is None or other is None:
        return
    bits = [as_bits(_EXACT, places, np.dtype(np.int64)) for places in (one, other)]
    if bits[0] == bits[1]:
        assert all(real(first, kind, order)[1] == real(second, kind, order)[1] for order in _orders())


def _row(places: list[int], tie: str = "left", kind: str = "maximum") -> Places:
    return of_numbers(_EXACT, _NUMBERS[: len(places)], np.array(places), Rule(kind, tie))


def _number(places: Places) -> int:
    return int(as_numbers(_EXACT, places).reshape(-1)[0])


def test_an_order_of_lanes_makes_no_difference() -> None:
    once = along(_EXACT, _row([0, 1, 2, 3]), 0)
    parts = [
        along(_EXACT, of_numbers(_EXACT, _NUMBERS[at], np.array(at), Rule("maximum", "left")), 0)
        for at in ([3, 0], [2, 1])
    ]
    assert _number(once) == _number(of_one(_EXACT, parts[0], parts[1], "left"))


@pytest.mark.parametrize(
    "other",
    [
        lambda: along(_EXACT, _row([0, 1, 2, 4]), 0),
        lambda: along(_EXACT, _row([0, 1, 2]), 0),
        lambda: along(_EXACT, _row([0, 1, 2, 3], "right"), 0),
        lambda: along(_EXACT, _row([0, 1, 2, 3], kind="minimum"), 0),
        lambda: shifted(_EXACT, along(_EXACT, _row([0, 1, 2, 3]), 0), np.array(1)),
        lambda: scaled(_EXACT, along(_EXACT, _row([0, 1, 2, 3]), 0), np.array(2)),
    ],
    ids=["another place", "one less", "to the right", "the least", "one further", "doubled"],
)
def test_another_place_is_another_number(other: Callable[[], Places]) -> None:
    assert _number(along(_EXACT, _row([0, 1, 2, 3]), 0)) != _number(other())


def test_minus_infinity_is_never_the_largest_but_of_itself() -> None:
    nothing = _EXACT.constant(-np.inf)
    numbers = np.concatenate([nothing, _NUMBERS[:1], nothing])
    found = along(_EXACT, of_numbers(_EXACT, numbers, np.array([4, 5, 6]), Rule("maximum", "left")), 0)
    assert (found.low, found.high) == (5, 5)
    both = np.concatenate([nothing, nothing])
    for tie, wanted in (("left", 4), ("right", 6)):
        found = along(_EXACT, of_numbers(_EXACT, both, np.array([6, 4]), Rule("maximum", tie)), 0)
        assert (found.low, found.high) == (wanted, wanted)


def test_a_number_that_is_there_twice_counts_once() -> None:
    nan, nothing = _EXACT.constant(np.nan), _EXACT.constant(-np.inf)
    for function, once, twice in (
        ("maxnum", [_NUMBERS[:1], _NUMBERS[1:2]], [_NUMBERS[:1], _NUMBERS[1:2], _NUMBERS[:1]]),
        ("minimum", [_NUMBERS[:1]], [_NUMBERS[:1]] * 3),
        ("maxnum", [nan], [nan, nan]),
        ("maximum", [nan], [_NUMBERS[:1], nan, nan]),
        ("maxnum", [nothing], [nothing, nan, nothing]),
    ):
        found = [extreme_along(_EXACT, function, np.concatenate(one), 0) for one in (once, twice)]
        assert found[0] == found[1]


def test_infinity_and_nan_have_no_place() -> None:
    for value in (np.inf, np.nan):
        with pytest.raises(NotModelled):
            of_numbers(_EXACT, _EXACT.constant(value), np.array([0]), Rule("maximum", "left"))


def test_an_integer_that_was_not_chosen_is_the_place_of_what_it_is_compared_by() -> None:
    chosen = picked(np.array([True]), of_integers(_EXACT, np.array([3])), _row([1]))
    found = chosen.completed(_EXACT, _NUMBERS[2:3], Rule("maximum", "left"))
    wanted = of_numbers(_EXACT, _NUMBERS[2:3], np.array([3]), Rule("maximum", "left"))
    assert found.weight == wanted.weight
    assert found.total == wanted.total
