"""Places of largest and smallest numbers, as the fields have them: sums over all places that it may be.

The place of the largest of numbers v at places i is sum(W(v) k^i i) / sum(W(v) k^i), with a random W for each
number and a random k. Results that are equal for all W and k are equal for the order of any numbers: let W
grow without bounds, faster for larger numbers, and k tend to 0, so that the left one of equals counts (to
infinity: the right one). So no order has to be drawn; docs/proofs.md has the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kerncap.sanitizer.concrete.values import Opaque
from kerncap.sanitizer.equality.degrees import Degree
from kerncap.sanitizer.equality.field_draw import Field
from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, NotModelled, mixed
from kerncap.sanitizer.equality.prime_residues import INFINITE, MAXIMUM, MINUS_INFINITE, NAN, state_of

LARGEST_PLACE = 1 << 24  # beyond, results are of too high a degree for a proof


@dataclass(frozen=True, slots=True)
class Rule:
    """``kind``: "maximum" or "minimum"; ``tie``: the place of the "left" or the "right" of equal ones."""

    kind: str
    tie: str


@dataclass(frozen=True, slots=True)
class Places(Opaque):
    """An element is ``total / weight``, and one of the integers from ``low`` to ``high``.

    ``numbers``: those that they are the places of, by ``rule``; NaN: of an integer that no comparison chose,
    which may be the place of any. None: they are computed of places.
    """

    total: Array
    weight: Array
    low: Ints
    high: Ints
    numbers: Array | None = None
    rule: Rule | None = None

    def each(self, move: Callable[[Array], Array]) -> Places:
        """Elements put elsewhere."""
        numbers = None if self.numbers is None else move(self.numbers)
        total, weight, low, high = map(move, (self.total, self.weight, self.low, self.high))
        return Places(total, weight, low, high, numbers, self.rule)

    def completed(self, exact: Field, numbers: Array, rule: Rule) -> Places:
        """With integers that no comparison chose as the places of these numbers."""
        assert self.numbers is not None
        of_any = state_of(self.numbers) == NAN
        return picked(of_any, of_numbers(exact, numbers, self.low, rule), self) if of_any.any() else self

    def are_of(self, numbers: Array, rule: Rule) -> bool:
        return self.rule == rule and self.numbers is not None and bool((self.numbers == numbers).all())

    @property
    def spread(self) -> int:
        """Of the powers of k."""
        return (
            0
            if self.rule is None
            else int(np.abs(self.low).max(initial=0) + np.abs(self.high).max(initial=0))
        )


def of_integers(exact: Field, places: Array) -> Places:
    """Integers that no comparison chose."""
    wide = places.astype(np.int64)
    nothing = np.zeros_like(wide)
    return Places(nothing, nothing, wide, wide, np.broadcast_to(exact.constant(np.nan), wide.shape))


def of_numbers(exact: Field, numbers: Array, places: Array, rule: Rule) -> Places:
    """Each number's own place."""
    wide = places.astype(np.int64)
    weight = exact.apply("mul", exact.weight(rule.kind + rule.tie, numbers), _ties(exact, rule, wide))
    weight = np.where(_never(numbers, rule), 0, weight)
    total = exact.apply("mul", weight, exact.integers(wide))
    shape = weight.shape
    low = np.broadcast_to(wide, shape)
    return Places(total, weight, low, low, np.broadcast_to(numbers, shape), rule)


def _ties(exact: Field, rule: Rule, places: Ints) -> Array:
    return exact.powers(f"ties to the {rule.tie}", places)


def _never(numbers: Array, rule: Rule) -> Bools:
    """Where a number is at the other end of all: its place counts only if all are. Raises NotModelled."""
    end, other = (INFINITE, MINUS_INFINITE) if rule.kind == "maximum" else (MINUS_INFINITE, INFINITE)
    state = state_of(numbers)
    if ((state == NAN) | (state == end)).any():
        raise NotModelled(f"the place of a {rule.kind} that may be infinite or NaN")
    return np.asarray(state == other)


def of_one(exact: Field, first: Places, second: Places, tie: str) -> Places:
    """The place of the larger or smaller of two numbers. ``tie``: as `PlaceChoice` has it."""
    rule = first.rule
    assert rule is not None and first.numbers is not None and second.numbers is not None
    low, high = (np.broadcast_arrays(*both) for both in ((first.low, second.low), (first.high, second.high)))
    without = [_never(one.numbers, rule) for one in (first, second) if one.numbers is not None]
    neither = without[0] & without[1]
    lowest, highest = np.minimum(*low), np.maximum(*high)
    if tie in ("first", "second"):
        ends = low[tie == "second"], high[tie == "second"]
    else:
        end = lowest if tie == "left" else highest
        ends = end, end
    return Places(
        exact.apply("add", first.total, second.total),
        exact.apply("add", first.weight, second.weight),
        np.where(neither, ends[0], np.where(without[0], low[1], np.where(without[1], low[0], lowest))),
        np.where(neither, ends[1], np.where(without[0], high[1], np.where(without[1], high[0], highest))),
        exact.apply(rule.kind, first.numbers, second.numbers),
        rule,
    )


def rule_of_ties(first: Places, second: Places, rule: Rule, tie: str) -> str | None:
    """The rule by which two numbers' places are chosen, for all places that they may be; None: no rule."""
    if tie in ("left", "right"):
        return tie
    assert first.numbers is not None and second.numbers is not None
    both = ~(_never(first.numbers, rule) | _never(second.numbers, rule))
    kept, other = (first, second) if tie == "first" else (second, first)
    if not (both & (kept.high > other.low)).any():
        return "left"
    return None if (both & (kept.low < other.high)).any() else "right"


def along(exact: Field, given: Places, axis: int) -> Places:
    """The place of the largest or smallest along an axis."""
    rule = given.rule
    assert rule is not None and given.numbers is not None
    without = _never(given.numbers, rule)
    neither = without.all(axis=axis)
    some = np.expand_dims(neither, axis) | ~without
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    low = np.where(some, given.low, most).min(axis=axis)
    high = np.where(some, given.high, least).max(axis=axis)
    return Places(
        exact.sum(given.total, axis),
        exact.sum(given.weight, axis),
        np.where(neither & (rule.tie == "right"), high, low),
        np.where(neither & (rule.tie == "left"), low, high),
        extreme_along(exact, rule.kind, given.numbers, axis),
        rule,
    )


def extreme_along(exact: Field, function: str, numbers: Array, axis: int) -> Array:
    """Of a set: a number that is there twice counts once."""
    nothing = exact.constant(-np.inf if function.startswith("max") else np.inf)
    found = np.sort(np.moveaxis(numbers, axis, -1), axis=-1)
    again = np.zeros(found.shape, np.bool_)
    again[..., 1:] = (found[..., 1:] == found[..., :-1]) & (state_of(found[..., 1:]) != NAN)
    found = np.where(again, nothing, found)
    while (extent := found.shape[-1]) > 1:
        half = extent // 2
        both = exact.apply(function, found[..., :half], found[..., half : 2 * half])
        found = both if extent % 2 == 0 else np.concatenate([both, found[..., 2 * half :]], axis=-1)
    return found[..., 0]


def extreme_degree(given: Degree, numbers: Array, extreme: Array, axis: int) -> Degree:
    """Of an extreme of numbers of this degree.

    All comparisons that decide any of them count. Roots and the like do only if the extreme is one of several
    numbers: else it is as good as a new variable, so a difference shows whichever signs they have.
    """
    of_all = given.times(numbers.shape[axis])
    several = (numbers != numbers.take([0], axis)).any(axis=axis)
    known = several & (state_of(extreme) < MAXIMUM)
    return of_all if known.any() else of_all._replace(signs=given.signs, logs=given.logs)


def shifted(exact: Field, given: Places, by: Array) -> Places:
    """With an integer added."""
    wide = by.astype(np.int64)
    total = exact.apply("add", given.total, exact.apply("mul", given.weight, exact.integers(wide)))
    weight = np.broadcast_to(given.weight, total.shape)
    if given.rule is not None:
        ties = _ties(exact, given.rule, wide)
        total, weight = exact.apply("mul", total, ties), exact.apply("mul", weight, ties)
    return replace(given, total=total, weight=weight, low=given.low + wide, high=given.high + wide)


def scaled(exact: Field, given: Places, by: Array) -> Places:
    """Times an integer."""
    wide = by.astype(np.int64)
    ends = given.low * wide, given.high * wide
    total = exact.apply("mul", given.total, exact.integers(wide))
    return Places(total, np.broadcast_to(given.weight, total.shape), np.minimum(*ends), np.maximum(*ends))


def picked(condition: Bools, first: Places, second: Places) -> Places:
    """By a condition that does not choose between numbers."""

    def pick(yes: Array, no: Array) -> Array:
        return np.where(condition, yes, no)

    rules = {one.rule for one in (first, second) if one.rule is not None}
    rule = numbers = None
    if first.numbers is not None and second.numbers is not None and len(rules) < 2:
        rule, numbers = next(iter(rules), None), pick(first.numbers, second.numbers)
    return Places(
        pick(first.total, second.total),
        pick(first.weight, second.weight),
        pick(first.low, second.low),
        pick(first.high, second.high),
        numbers,
        rule,
    )


def as_numbers(exact: Field, places: Places) -> Array:
    known = places.low == places.high
    found = exact.apply("div", places.total, np.where(known, exact.constant(1.0), places.weight))
    return np.where(known, exact.integers(places.low), found)


def as_bits(exact: Field, places: Places, kind: np.dtype[np.signedinteger]) -> Array:
    """Integers to be compared, and nothing else: places that are known as they are, of others a hash."""
    numbers = as_numbers(exact, places)
    known = places.low == places.high
    return np.where(known, places.low, mixed(numbers.view(np.uint64)).view(np.int64)).astype(kind)
