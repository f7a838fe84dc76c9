"""What bounds the chance that a result is wrong: its degree, and the comparisons that it hangs on.

One bound for all elements of a value, which is a quotient of polynomials in the inputs and in exponentials.
Two quotients that are not the same agree at a random point with a probability of at most their degrees over
the size of the field.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kerncap.sanitizer.concrete.dataflow import Dataflow
from kerncap.sanitizer.ttir.ir import Block, Operation, Value


class Degree(NamedTuple):
    """Of the numerator, of the denominator; and how many comparisons decided the value."""

    above: int = 0
    below: int = 0
    choices: int = 0

    @property
    def total(self) -> int:
        return self.above + self.below

    def after(self, decided: Iterable[Degree]) -> Degree:
        """Of a value that is where it is, or what it is, by these."""
        return self._replace(choices=self.choices + sum(one.choices for one in decided))


VARIABLE = Degree(1)
_MOVES = frozenset(("neg", "abs", "cast", "isnan", "isinf", "isfinite", "equals"))
# How many comparisons each is; of the first, only if an order decides them.
_EXTREMES = {"maxnum": 1, "minnum": 1, "maximum": 1, "minimum": 1, "clamp": 2}
_COMPARISONS = frozenset(("compare", "copysign"))


def widest(given: Iterable[Degree]) -> Degree:
    above, below, choices = 0, 0, 0
    for one in given:
        above, below, choices = max(above, one.above), max(below, one.below), max(choices, one.choices)
    return Degree(above, below, choices)


def degree_of(function: str, given: list[Degree], *, terms: int = 1, ordered: bool = True) -> Degree:
    """Of a function's result. ``terms``: how many are summed; ``ordered``: by comparisons, if of maxima."""
    choices = sum(one.choices for one in given)
    if function == "sum":
        [one] = given
        return Degree(one.above + (terms - 1) * one.below, terms * one.below, terms * choices)
    if function in ("add", "sub"):
        over = sum(one.below for one in given)
        return Degree(max(one.above + over - one.below for one in given), over, choices)
    if function in ("mul", "product"):
        above, over = sum(one.above for one in given), sum(one.below for one in given)
        return Degree(above + (terms - 1) * over, terms * over, terms * choices)
    if function == "fma":
        return degree_of("add", [degree_of("mul", given[:2]), given[2]])
    if function == "div":
        left, right = given
        return Degree(left.above + right.below, left.below + right.above, choices)
    if function == "reciprocal":
        return Degree(given[0].below, given[0].above, choices)
    if function in _EXTREMES or function in _COMPARISONS:
        made = 1 if function in _COMPARISONS else _EXTREMES[function] * ordered
        return widest(given)._replace(choices=choices + made)
    if function in _MOVES:
        return widest(given)._replace(choices=choices)
    # exp, log, roots, what is not interpreted: a new variable, which is wrong where its argument is.
    return Degree(max(1, *(one.total for one in given)), int(function in ("rsqrt", "tanh")), choices)


class Degrees:
    """Of the values of one kernel as it runs."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._of: dict[Value, Degree] = {}
        self.stored: dict[int, Degree] = {}  # by storage

    def start(self) -> None:
        self._of.clear()

    def put(self, value: Value, degree: Degree) -> None:
        self._of[value] = degree

    def forget(self, operation: Operation) -> None:
        """The values in the regions of a reduction that is about to run."""
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    for result in inner.results:
                        self._of.pop(result, None)

    def of(self, value: Value) -> Degree:
        return self._found(value, set())

    def _found(self, value: Value, seen: set[Value]) -> Degree:
        known = self._of.get(value)
        if known is not None:
            return known
        if value in seen:
            return Degree()
        seen.add(value)
        found = widest([self._found(one, seen) for one in self._before(value)])
        return found.after(self._found(one, seen) for one in self._flow.steering(value))

    def _before(self, value: Value) -> list[Value]:
        owner = value.owner
        region = owner.parent.parent if isinstance(owner, Block) and owner.parent is not None else None
        if isinstance(owner, Operation) and owner.regions:
            region = owner
        if isinstance(region, Operation) and region.name in ("tt.reduce", "tt.scan", "tt.map_elementwise"):
            # What goes in, and what earlier turns came to.
            place = value.index % len(region.operands)
            ends = [b.operations[-1].operands for r in region.regions for b in r.blocks if b.operations]
            return [region.operands[place], *(end[place] for end in ends if place < len(end))]
        found = self._flow.forwarded(value)
        return found or ([*owner.operands] if isinstance(owner, Operation) and not owner.regions else [])
