"""What a choice by a comparison of two floats is: a maximum or minimum, or the place of one.

A condition is read by all outcomes that its comparisons have for finite numbers, however it is written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kerncap.sanitizer.concrete.ops_arith import float_predicate, integer_predicate
from kerncap.sanitizer.concrete.ops_reduce import known_combiner
from kerncap.sanitizer.concrete.values import element_of, shape_of
from kerncap.sanitizer.ttir.any_order import users
from kerncap.sanitizer.ttir.ir import Dense, FloatType, IntType, Operation, Value

Pair = tuple[Value, Value]
_LOGIC: dict[str, Callable[[bool, bool], bool]] = {
    "arith.andi": operator.and_, "arith.ori": operator.or_, "arith.xori": operator.ne,
}  # fmt: skip
# Of a number's sign, which is that of a difference.
_BY_ORDER: dict[str, Callable[[int], bool]] = {
    "eq": lambda order: order == 0, "ne": lambda order: order != 0,
    "gt": lambda order: order > 0, "ge": lambda order: order >= 0,
    "lt": lambda order: order < 0, "le": lambda order: order <= 0,
    "ord": lambda order: True, "uno": lambda order: False,
    "true": lambda order: True, "false": lambda order: False,
}  # fmt: skip
EXTREMES = {
    "arith.maximumf": "maximum", "arith.maxnumf": "maxnum",
    "arith.minimumf": "minimum", "arith.minnumf": "minnum",
}  # fmt: skip
_KINDS = {"maximum": "maximum", "maxnum": "maximum", "minimum": "minimum", "minnum": "minimum"}
_OTHER = {"maximum": "minimum", "minimum": "maximum"}


@dataclass(frozen=True)
class NumberChoice:
    """``kinds``: what it gives, of "maximum", "minimum", "first" and "second"; two if ``decided``, which is
    not a comparison of the two, is false and if it is true.
    """

    kinds: tuple[str, ...]
    decided: Value | None


@dataclass(frozen=True)
class PlaceChoice:
    """The first place is that of the first of ``numbers``, if the extreme is of this ``kind``.

    ``tie``: whose place it is if both are equal: that to the "left", to the "right", the "first" or "second".
    """

    numbers: Pair
    kind: str
    tie: str

    def of(self, kind: str) -> Pair:
        """The numbers of the two places, for an extreme of a kind."""
        first, second = self.numbers
        return (first, second) if kind == self.kind else (second, first)


def number_choice(select: Operation) -> NumberChoice | None:
    """What arith.select gives of two floats; None if no comparison of both decides it. NaN apart."""
    condition, first, second = select.operands
    outcomes = _Outcomes((first, second), None)
    try:
        kinds = [outcomes.kind(condition, other) for other in (False, True)]
    except _Unreadable:
        return None
    if not _OTHER.keys() & {*kinds}:
        return None
    if kinds[0] == kinds[1]:
        return NumberChoice((kinds[0],), None)
    return NumberChoice(tuple(kinds), outcomes.other)


def place_choice(select: Operation) -> PlaceChoice | None:
    """What arith.select gives of two integers, if nothing but the order of two floats and theirs decides."""
    condition, first, second = select.operands
    numbers = next(_compared(condition), None)
    if numbers is None:
        return None
    outcomes = _Outcomes(numbers, (first, second))
    try:
        above, below, equal = (
            [outcomes.holds(condition, order, of_places, False) for of_places in (-1, 1)]
            for order in (1, -1, 0)
        )
    except _Unreadable:
        return None
    if outcomes.other is not None or len({*above}) > 1 or len({*below}) > 1 or above == below:
        return None
    ties = {(True, False): "left", (False, True): "right", (True, True): "first", (False, False): "second"}
    return PlaceChoice(numbers, "maximum" if above[0] else "minimum", ties[equal[0], equal[1]])


def kind_beside(select: Operation) -> str | None:
    """The extreme that the condition of a choice of places also chooses the number of."""
    owner = select.operands[0].owner
    for other in users(owner) if isinstance(owner, Operation) else ():
        if other.name == "arith.select" and isinstance(element_of(other.results[0].type), FloatType):
            found = number_choice(other)
            if found is not None and found.decided is None:
                return found.kinds[0]
    return None


def reduced_places(reduction: Operation) -> tuple[str, str] | None:
    """The kind and tie of a tt.reduce to an extreme and its place, if the order of lanes decides nothing."""
    region = reduction.regions[0]
    if len(reduction.operands) != 2 or len(region.blocks) != 1 or len(region.entry.arguments) != 4:
        return None
    a, place_a, b, place_b = region.entry.arguments
    value, place = region.entry.operations[-1].operands
    if not isinstance(element_of(a.type), FloatType) or not isinstance(element_of(place_a.type), IntType):
        return None
    kind = _kind_of(value, (a, b))
    select = place.owner
    if kind is None or not isinstance(select, Operation) or select.name != "arith.select":
        return None
    found = place_choice(select)
    if found is None or {*select.operands[1:]} != {place_a, place_b}:
        return None
    if found.of(kind) != ((a, b) if select.operands[1] is place_a else (b, a)):
        return None
    return (kind, found.tie) if found.tie in ("left", "right") else None


def _kind_of(value: Value, numbers: Pair) -> str | None:
    owner = value.owner
    if not isinstance(owner, Operation) or {*owner.operands[-2:]} != {*numbers}:
        return None
    if owner.name != "arith.select":
        return _KINDS.get(EXTREMES.get(owner.name, ""))
    found = number_choice(owner)
    return found.kinds[0] if found is not None and found.decided is None else None


def swapped_axis(cast: Operation) -> tuple[Value, int] | None:
    """Floats, and an axis of two lanes that are exchanged, as tl.sort does it by the bits: x ^ (x ^ y)."""
    bits = cast.operands[0].owner
    if not isinstance(bits, Operation) or bits.name != "arith.xori":
        return None
    for own, both in (bits.operands, bits.operands[::-1]):
        source, found = own.owner, _both_lanes(both, own)
        if isinstance(source, Operation) and source.name == "tt.bitcast" and found is not None:
            [floats] = source.operands
            if floats.type == cast.results[0].type:
                return floats, found
    return None


def _both_lanes(value: Value, own: Value) -> int | None:
    """The axis along which a value is x ^ y of two lanes of ``own``, in both."""
    expansion = _made_by(value, "tt.broadcast")
    expansion = expansion if expansion is None else _made_by(expansion.operands[0], "tt.expand_dims")
    reduction = expansion if expansion is None else _made_by(expansion.operands[0], "tt.reduce")
    if expansion is None or reduction is None or reduction.operands != (own,) or value.type != own.type:
        return None
    axis, combiner = int(reduction.attributes["axis"]), known_combiner(reduction)
    if combiner is None or combiner[1] != "arith.xori" or expansion.attributes["axis"] != axis:
        return None
    return axis if shape_of(own.type)[axis] == 2 else None


def _made_by(value: Value, name: str) -> Operation | None:
    owner = value.owner
    return owner if isinstance(owner, Operation) and owner.name == name else None


class _Unreadable(Exception):
    """A condition that hangs on more than this reads."""


class _Outcomes:
    """Of a condition. ``other``: what it hangs on beside the order of two numbers and of two places."""

    def __init__(self, numbers: Pair, places: Pair | None) -> None:
        self._numbers, self._places = numbers, places
        self.other: Value | None = None

    def kind(self, condition: Value, other: bool) -> str:
        above, below = (self.holds(condition, order, 0, other) for order in (1, -1))
        if above == below:
            return "first" if above else "second"
        return "maximum" if above else "minimum"

    def holds(self, value: Value, order: int, of_places: int, other: bool) -> bool:
        owner = value.owner
        if isinstance(owner, Operation):
            known = self._known(owner, order, of_places, other)
            if known is not None:
                return known
        if self.other is not None and self.other is not value:
            raise _Unreadable
        self.other = value
        return other

    def _known(self, owner: Operation, order: int, of_places: int, other: bool) -> bool | None:
        if owner.name == "arith.constant":
            given = owner.attributes["value"]
            values = given.values if isinstance(given, Dense) else (given,)
            return bool(values[0]) if len(values) == 1 else None
        if owner.name == "arith.cmpf":
            sign = _sign(owner, self._numbers, order)
            predicate = float_predicate(owner)
            held = _BY_ORDER[predicate if predicate in _BY_ORDER else predicate[1:]]
            return None if sign is None else held(sign)
        if owner.name not in (*_LOGIC, "arith.cmpi"):
            return None
        equal = False
        if owner.name == "arith.cmpi":
            predicate = integer_predicate(owner)
            sign = None if self._places is None else _sign(owner, self._places, of_places)
            if sign is not None and predicate[0] != "u":
                return _BY_ORDER[predicate.removeprefix("s")](sign)
            if predicate not in ("eq", "ne"):
                return None
            equal = predicate == "eq"
        if element_of(owner.operands[0].type) != IntType(1):
            return None
        left, right = (self.holds(one, order, of_places, other) for one in owner.operands)
        if owner.name == "arith.cmpi":
            return (left == right) == equal
        return _LOGIC[owner.name](left, right)


def _sign(comparison: Operation, pair: Pair, order: int) -> int | None:
    left, right = comparison.operands
    first, second = pair
    if _same(left, right) and (_same(left, first) or _same(left, second)):
        return 0
    if _same(left, first) and _same(right, second):
        return order
    return -order if _same(left, second) and _same(right, first) else None


def _compared(condition: Value) -> Iterator[Pair]:
    """The pairs of different floats that a condition compares."""
    owner = condition.owner
    if not isinstance(owner, Operation):
        return
    if owner.name == "arith.cmpf" and not _same(*owner.operands):
        yield owner.operands[0], owner.operands[1]
    elif owner.name in (*_LOGIC, "arith.cmpi"):
        for one in owner.operands:
            yield from _compared(one)


def _same(one: Value, other: Value) -> bool:
    """One value, or two constants of one number."""
    if one is other:
        return True
    owners = [value.owner for value in (one, other)]
    if not all(isinstance(owner, Operation) and owner.name == "arith.constant" for owner in owners):
        return False
    values = [owner.attributes["value"] for owner in owners if isinstance(owner, Operation)]
    return one.type == other.type and values[0] == values[1]
