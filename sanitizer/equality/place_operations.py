"""TTIR's operations on `Places`: what the place of a largest number becomes until it is stored."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.concrete.dataflow import MEMORY, STORES
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.values import (
    Tile,
    Unknown,
    Value,
    element_of,
    full,
    numpy_type,
    shape_of,
    where,
)
from kerncap.sanitizer.equality.choices import PlaceChoice, kind_beside, place_choice, reduced_places
from kerncap.sanitizer.equality.degrees import Degree, degree_of, summed, widest
from kerncap.sanitizer.equality.field_draw import Field
from kerncap.sanitizer.equality.memory_operations import MemoryPlan
from kerncap.sanitizer.equality.numbers import NotModelled
from kerncap.sanitizer.equality.places import (
    LARGEST_PLACE,
    Places,
    Rule,
    along,
    as_bits,
    as_numbers,
    extreme_degree,
    of_integers,
    of_one,
    picked,
    rule_of_ties,
    scaled,
    shifted,
)
from kerncap.sanitizer.equality.plan_values import check_values, why_unknown
from kerncap.sanitizer.ttir.ir import IntType, Operation
from kerncap.sanitizer.ttir.ir import Value as Name

_MOVES = frozenset(
    (
        *("tt.splat", "tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.view", "tt.unsplat", "tt.trans"),
        "ttg.convert_layout",
    )
)
_SUMS = {"arith.addi": 1, "arith.subi": -1}
_CASTS = frozenset(("arith.extsi", "arith.extui", "arith.trunci"))
_TO_FLOATS = frozenset(("arith.sitofp", "arith.uitofp"))
_UNSIGNED = frozenset(("arith.extui", "arith.uitofp"))
_OF_A_PLACE = "of the place of a largest or smallest number"
_HASHED_BITS = 32  # of an integer at least, so that the hashes of two seldom meet


class PlacePlan(MemoryPlan):
    """Of a launch over a `Field` in which no order decides maxima."""

    def _with_places(self, operation: Operation, inner: Step) -> Step:
        """A step that may get places."""
        exact = self.numbers
        if not (isinstance(exact, Field) and exact.free):
            return inner
        if operation.name == "tt.reduce" and reduced_places(operation) is not None:
            return inner
        if operation.name == "arith.select":
            return self._choice(exact, operation, inner)
        if operation.name in STORES and operation.name != "tt.descriptor_reduce":
            return self._stored(exact, operation, inner)

        def step(m: Machine) -> None:
            if any(isinstance(m.env.get(one), Places) for one in operation.operands):
                self._on_places(exact, m, operation, inner)
            else:
                inner(m)

        return step

    def _on_places(self, exact: Field, m: Machine, operation: Operation, inner: Step) -> None:
        name, values = operation.name, [m.env[one] for one in operation.operands]
        given = [_places(exact, one) for one in values]
        places = [one for one in given if one is not None]
        if len(places) < len(given) or not operation.results:
            self._not_modelled(m, operation, values)
            return
        result = operation.results[0]
        if name in _MOVES:
            found = self._moved_places(m, operation, inner)
        elif name in _CASTS:
            [found] = places
        elif name in _SUMS and isinstance(values[1], Tile):
            found = shifted(exact, places[0], _SUMS[name] * places[1].low)
        elif name == "arith.addi" and isinstance(values[0], Tile):
            found = shifted(exact, places[1], places[0].low)
        elif name == "arith.muli" and any(isinstance(one, Tile) for one in values):
            by = isinstance(values[1], Tile)
            found = scaled(exact, places[not by], places[by].low)
        elif name in _TO_FLOATS:
            _check_range(places[0], operation.operands[0], name)
            m.env[result] = Tile(as_numbers(exact, places[0]))
            self.degrees.put(result, self.degrees.of(operation.operands[0]))
            return
        else:
            self._not_modelled(m, operation, values)
            return
        _check_range(found, result, name)
        m.env[result] = found
        degree = summed([self.degrees.of(one) for one in operation.operands])
        more = found.spread * (name in _SUMS)
        self.degrees.put(result, degree._replace(above=degree.above + more, below=degree.below + more))

    def _place_degree(self, numbers: list[Degree], places: list[Degree], found: Places) -> Degree:
        """Of all places together: they and their powers have the numbers in common."""
        new = degree_of("place", numbers)
        most = max(new.above + found.spread, *(max(one.above, one.below) for one in places))
        return new._replace(above=most, below=most).after(places)

    def _moved_places(self, m: Machine, operation: Operation, inner: Step) -> Places:
        source, result = operation.operands[0], operation.results[0]
        places = m.env[source]
        assert isinstance(places, Places)

        def move(array: np.ndarray) -> np.ndarray:
            m.env[source] = Tile(array)
            inner(m)
            moved = m.env[result]
            if not isinstance(moved, Tile):
                raise NotModelled(why_unknown(moved, operation))
            return moved.data

        try:
            return places.each(move)
        finally:
            m.env[source] = places

    @staticmethod
    def _not_modelled(m: Machine, operation: Operation, values: list[Value]) -> None:
        if not operation.results or operation.name in MEMORY:
            raise NotModelled(_OF_A_PLACE)
        reason = next((one.reason for one in values if isinstance(one, Unknown)), None)
        found = Unknown(reason or f"{where(operation)}: not modelled, {_OF_A_PLACE}")
        for result in operation.results:
            m.env[result] = found

    # --- choices --------------------------------------------------------------------------------------------

    def _choice(self, exact: Field, operation: Operation, inner: Step) -> Step:
        choice = kind = None
        chosen_type = element_of(operation.results[0].type)
        if isinstance(chosen_type, IntType) and chosen_type.width > 1:
            choice, kind = place_choice(operation), kind_beside(operation)
        condition, *both = operation.operands
        result = operation.results[0]
        if choice is not None and kind is not None:
            self.degrees.extremes.add(result)

        def step(m: Machine) -> None:
            chosen = [isinstance(m.env[one], Places) for one in both]
            if choice is not None and (kind is not None or any(chosen)):
                found = self._place_of_one(exact, m, both, choice, kind)
                if found is not None:
                    m.env[result] = found
                    given = [self.degrees.of(one) for one in choice.numbers]
                    places_of = [self.degrees.of(one) for one in both]
                    self.degrees.put(result, self._place_degree(given, places_of, found))
                    self.functions.add("place")
                    return
            if not any(chosen):
                inner(m)
                return
            decided = m.env[condition]
            places = [_places(exact, m.env[one]) for one in both]
            first, second = places
            if not isinstance(decided, Tile) or first is None or second is None:
                self._not_modelled(m, operation, [decided, *(m.env[one] for one in both)])
                return
            check_values(decided)
            m.env[result] = picked(decided.data, first, second)
            degree = widest([self.degrees.of(one) for one in both])
            self.degrees.put(result, degree.after([self.degrees.of(condition)]))

        return step

    def _place_of_one(
        self, exact: Field, m: Machine, both: list[Name], choice: PlaceChoice, kind: str | None
    ) -> Places | None:
        """None: the two are not the places of the numbers that are compared, by one rule."""
        given = [m.env[one] for one in both]
        if any(isinstance(one, Places) and one.numbers is None for one in given):
            return None
        rules = {one.rule for one in given if isinstance(one, Places) and one.rule is not None}
        kind = next((one.kind for one in rules), kind)
        if kind is None:
            return None
        numbers = [m.env[one] for one in choice.of(kind)]
        places = [_places(exact, one) for one in given]
        tiles = [one for one in numbers if isinstance(one, Tile)]
        both_places = [one for one in places if one is not None]
        if len(tiles) < 2 or len(both_places) < 2:
            return None
        check_values(*tiles)

        def placed(rule: Rule) -> list[Places]:
            return [
                one.completed(exact, tile.data, rule) for one, tile in zip(both_places, tiles, strict=True)
            ]

        some = Rule(kind, "left")
        first, second = placed(some)
        tie = rule_of_ties(first, second, some, choice.tie)
        if tie is None or rules - {Rule(kind, tie)}:
            return None
        first, second = placed(Rule(kind, tie))
        if not all(
            one.are_of(tile.data, Rule(kind, tie)) for one, tile in zip((first, second), tiles, strict=True)
        ):
            return None
        return of_one(exact, first, second, choice.tie)

    # --- reductions -----------------------------------------------------------------------------------------

    def _reduced_places(self, operation: Operation, inner: Step) -> Step:
        """A reduction to an extreme and its place; any other is ``inner``."""
        exact, found = self.numbers, reduced_places(operation)
        if found is None or not (isinstance(exact, Field) and exact.free):
            return inner
        rule = Rule(*found)
        axis = int(operation.attributes["axis"]) + 1
        shape = shape_of(operation.operands[0].type)

        def step(m: Machine) -> None:
            numbers, places = m.env[operation.operands[0]], _places(exact, m.env[operation.operands[1]])
            if not isinstance(numbers, Tile) or places is None:
                inner(m)
                return
            check_values(numbers)
            programs = max(len(numbers.data), len(places.low))

            def spread(array: np.ndarray) -> np.ndarray:
                return np.broadcast_to(full(array, shape), (programs, *shape))

            words = spread(numbers.data)
            given = places.each(spread)
            given = given if given.numbers is None else given.completed(exact, words, rule)
            if not given.are_of(words, rule):
                raise NotModelled("places of other numbers")
            degrees = [self.degrees.of(one) for one in operation.operands]
            self.degrees.forget(operation)
            chosen = along(exact, given, axis)
            largest, place = operation.results
            assert chosen.numbers is not None
            m.env[largest], m.env[place] = Tile(chosen.numbers), chosen
            of_numbers = extreme_degree(degrees[0], words, chosen.numbers, axis)
            self.degrees.put(largest, of_numbers)
            of_places = degrees[1].times(words.shape[axis])
            self.degrees.put(place, self._place_degree([of_numbers], [of_places], chosen))
            self.functions |= {rule.kind, "place"}
            _check_range(chosen, place, operation.name)

        return step

    # --- memory ---------------------------------------------------------------------------------------------

    def _stored(self, exact: Field, operation: Operation, inner: Step) -> Step:
        values = operation.operands

        def step(m: Machine) -> None:
            given = {one: value for one in values if isinstance(value := m.env.get(one), Places)}
            for name, places in given.items():
                kind = element_of(name.type)
                if not isinstance(kind, IntType) or kind.width < _HASHED_BITS:
                    raise NotModelled("the place of a largest or smallest number in few bits")
                m.env[name] = Tile(as_bits(exact, places, numpy_type(kind)))
            self.stores_places = bool(given)
            inner(m)
            self.stores_places = False
            m.env.update(given)

        return step


def _places(exact: Field, value: Value) -> Places | None:
    if isinstance(value, Places):
        return value
    if not isinstance(value, Tile) or value.data.dtype.kind != "i":
        return None
    check_values(value)
    return of_integers(exact, value.data)


def _check_range(places: Places, name: Name, operation: str) -> None:
    """Raise NotModelled if an integer may not be what it is in exact arithmetic."""
    kind = element_of(name.type)
    assert isinstance(kind, IntType)
    end = 1 << (kind.width - 1)
    low, high = int(places.low.min(initial=0)), int(places.high.max(initial=0))
    if low < -end or high >= end or low < 0 and operation in _UNSIGNED:
        raise NotModelled("a place that its type does not hold")
    if places.spread > LARGEST_PLACE:
        raise NotModelled("a place that is too far away")
