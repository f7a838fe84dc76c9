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
    """Of the numerator, of the denominator; and what has to come out in one way for a difference to show.

    ``choices``: comparisons; ``signs``: roots and sizes, which have either sign in a field; ``logs``:
    logarithms of numbers of either sign, which only an exponential brings to light.
    """

    above: int = 0
    below: int = 0
    choices: int = 0
    signs: int = 0
    logs: int = 0

    @property
    def total(self) -> int:
        return self.above + self.below

    def after(self, decided: Iterable[Degree]) -> Degree:
        """Of a value that is where it is, or what it is, by these."""
        decided = [*decided]
        if not decided:
            return self
        return self._replace(
            choices=self.choices + sum(one.choices for one in decided),
            signs=self.signs + sum(one.signs + one.logs for one in decided),
        )

    def times(self, count: int) -> Degree:
        """Of a value that is made of ``count`` of these."""
        return self._replace(choices=self.choices * count, signs=self.signs * count, logs=self.logs * count)


VARIABLE = Degree(1)
_MOVES = frozenset(("neg", "cast", "isnan", "isinf", "isfinite"))
# How many comparisons each is; of the first, only if an order decides them.
_EXTREMES = {"maxnum": 1, "minnum": 1, "maximum": 1, "minimum": 1, "clamp": 2}
_COMPARISONS = frozenset(("compare", "equals"))
_ROOTS = frozenset(("sqrt", "rsqrt", "pow"))
LARGEST_POWER = 4  # of a constant exponent that is products; of another, any function
_LOGARITHMS = frozenset(("log", "log2", "log10", "log1p"))


def widest(given: Iterable[Degree]) -> Degree:
    above = below = choices = signs = logs = 0  # max() of each would take twice as long: it is asked often
    for one in given:
        above = one[0] if one[0] > above else above
        below = one[1] if one[1] > below else below
        choices = one[2] if one[2] > choices else choices
        signs = one[3] if one[3] > signs else signs
        logs = one[4] if one[4] > logs else logs
    return Degree(above, below, choices, signs, logs)


def summed(given: Iterable[Degree]) -> Degree:
    """Of something that all of these decide."""
    given = [*given]
    return widest(given)._replace(
        choices=sum(one.choices for one in given),
        signs=sum(one.signs for one in given),
        logs=sum(one.logs for one in given),
    )


def degree_of(function: str, given: list[Degree], *, terms: int = 1, ordered: bool = True) -> Degree:
    """Of a function's result. ``terms``: how many are summed; ``ordered``: by comparisons, if of maxima."""
    all_of = summed(given)
    if function == "sum":
        [one] = given
        return one.times(terms)._replace(above=one.above + (terms - 1) * one.below, below=terms * one.below)
    if function in ("add", "sub"):
        over = sum(one.below for one in given)
        return all_of._replace(above=max(one.above + over - one.below for one in given), below=over)
    if function in ("mul", "product"):
        above, over = sum(one.above for one in given), sum(one.below for one in given)
        return all_of.times(terms)._replace(above=above + (terms - 1) * over, below=terms * over)
    if function == "fma":
        return degree_of("add", [degree_of("mul", given[:2]), given[2]])
    if function == "div":
        left, right = given
        return all_of._replace(above=left.above + right.below, below=left.below + right.above)
    if function == "reciprocal":
        return all_of._replace(above=all_of.below, below=all_of.above)
    if function in _EXTREMES or function in _COMPARISONS:
        made = 1 if function in _COMPARISONS else _EXTREMES[function] * ordered
        return all_of._replace(choices=all_of.choices + made)
    if function in ("abs", "copysign"):
        made = int(ordered) + (function == "copysign")
        return all_of._replace(choices=all_of.choices + made, signs=all_of.signs + (not ordered))
    if function in _MOVES:
        return all_of
    # A new variable, which is wrong where its argument is.
    above = max(1, *(one.total for one in given))
    new = all_of._replace(above=above, below=int(function in ("rsqrt", "tanh")))
    if function == "pow":  # of it, or of its argument
        new = new._replace(above=LARGEST_POWER * above, below=LARGEST_POWER * above)
    if function in _LOGARITHMS:
        return new._replace(logs=new.logs + 1)
    # An exponential, and what is not interpreted: of |x|, if of a logarithm.
    return new._replace(signs=new.signs + new.logs + (function in _ROOTS), logs=0)


class Degrees:
    """Of the values of one kernel as it runs."""

    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow
        self._of: dict[Value, Degree] = {}
        self.stored: dict[int, Degree] = {}  # by storage
        self.steered: dict[int, Degree] = {}  # the same, only of what decided where a store went
        self.extremes: set[Value] = set()  # results of choices that no comparison decides

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
        return found.after(self._found(one, seen) for one in self.flow.steering(value))

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
        found = self.flow.forwarded(value)
        if found or not isinstance(owner, Operation) or owner.regions:
            return found or []
        return [*owner.operands[value in self.extremes :]]
