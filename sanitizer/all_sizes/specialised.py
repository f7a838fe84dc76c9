"""What Triton's compiler takes for known of an integer: that it is 1, a multiple of 16, and its width.

Each class of sizes has a compiled kernel of its own. A kernel that differs in nothing but the promise of a
multiple is checked once, for both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Literal

from kerncap.errors import UsageError
from kerncap.sanitizer.all_sizes.smallest_sizes import value_of
from kerncap.sanitizer.all_sizes.stated_sizes import Interval, Statement, numbers_over
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, eq, land, lor, ne
from kerncap.sanitizer.symbolic.solve import Solver, Unknown, Unsat

Kind = Literal["one", "multiple", "other", "wide multiple", "wide other"]
KINDS: tuple[Kind, ...] = ("one", "multiple", "other", "wide multiple", "wide other")
MOST_CLASSES = 128
_LARGEST = 2**31 - 1
_WORDS: dict[Kind, str] = {
    "one": "1",
    "multiple": "a multiple of 16",
    "other": "another 32-bit number",
    "wide multiple": "a multiple of 16 above 32 bits",
    "wide other": "another number above 32 bits",
}
_PROMISE = re.compile(r"\btt\.(?:divisibility|pointer_range) = \d+ : i32(?:, )?")


def condition(kind: Kind, number: Expr) -> Expr:
    """That an argument is of this kind."""
    if kind == "one":
        return eq(number, 1)
    narrow = (number >= -_LARGEST - 1) & (number <= _LARGEST)
    width = number > _LARGEST if kind.startswith("wide") else narrow
    rest = number % 16
    if kind.endswith("multiple"):
        return width & eq(rest, 0)
    return land(width, ne(rest, 0), ne(number, 1))


def without_promises(ttir: str) -> str:
    """The text as it would be for numbers of which nothing is known."""
    return re.sub(r" \{\s*\}", "", re.sub(r", \}", "}", _PROMISE.sub("", ttir)))


@dataclass(frozen=True)
class Compiled:
    """One text and the classes of arguments, by name, that it was compiled for."""

    ttir: str
    classes: tuple[Mapping[str, Kind], ...]
    others: tuple[Mapping[str, Kind], ...] = ()  # that have another text
    error: str = ""  # why there is no text

    def kinds(self, name: str) -> set[Kind]:
        return {one[name] for one in self.classes}

    def named(self) -> str:
        """``n is 1``: what tells these classes from the others."""
        parts = []
        for name in self.classes[0]:
            kinds = self.kinds(name)
            if not kinds.issuperset(one[name] for one in self.others):
                parts.append(f"{name} is {' or '.join(_WORDS[kind] for kind in KINDS if kind in kinds)}")
        return ", ".join(parts)

    def holds(self, numbers: Mapping[str, Expr]) -> Expr:
        """That the arguments are of one of the classes."""
        allowed = {name: self.kinds(name) for name in numbers}
        if any(all(one[name] in kinds for name, kinds in allowed.items()) for one in self.others):
            # What each of them may be does not tell these classes from the others.
            return lor(
                *(land(*(condition(one[name], numbers[name]) for name in numbers)) for one in self.classes)
            )
        return land(*(_one_of(kinds, numbers[name]) for name, kinds in allowed.items()))


def narrowed(interval: Interval, kinds: Collection[Kind]) -> Interval:
    """The least interval that has all numbers of these kinds that are in it; there is one at least."""
    numbers = range(interval.low, interval.high + 1, interval.step)
    if set(kinds) == {"one"}:
        return Interval(1, 1)
    if all(kind.startswith("wide") for kind in kinds):
        numbers = numbers[max(0, -(-(_LARGEST + 1 - numbers.start) // numbers.step)) :]
    elif not any(kind.startswith("wide") for kind in kinds):
        numbers = numbers[: max(0, (_LARGEST - numbers.start) // numbers.step + 1)]
    if "one" not in kinds and numbers[0] == 1:
        numbers = numbers[1:]
    if all(kind.endswith("multiple") for kind in kinds):
        first = next(at for at in range(16) if numbers[at] % 16 == 0)
        numbers = numbers[first :: 16 // gcd(16, numbers.step)]
    return Interval(numbers[0], numbers[-1], numbers.step)


def classes_of(
    statement: Statement, values: Mapping[str, int]
) -> list[tuple[Mapping[str, Kind], dict[str, int]]]:
    """Every class that the numbers can be of together, with numbers of it. Raises UsageError for too many."""
    sizes = {name: interval.expression(name) for name, interval in statement.sizes.items()}
    names = numbers_over(statement, sizes, values)
    numbers = {name: names[name] for name in (*sizes, *statement.relations)}
    for name, number in numbers.items():
        if number.low is None or number.low < -_LARGEST - 1:
            raise UsageError(
                f"--for-all: {name} may be {number.low}; state sizes that keep it in 32 bits below 0"
            )
    solver = Solver()
    found: list[tuple[Mapping[str, Kind], dict[str, int]]] = []
    waiting: list[tuple[dict[str, Kind], Expr]] = [({}, TRUE)]
    while waiting:
        kinds, holds = waiting.pop()
        answer = solver.satisfiable(holds)
        if isinstance(answer, Unsat):
            continue
        if len(kinds) < len(numbers):
            name = list(numbers)[len(kinds)]
            for kind in reversed(KINDS):
                waiting.append(({**kinds, name: kind}, holds & condition(kind, numbers[name])))
            continue
        if isinstance(answer, Unknown):
            raise UsageError(
                f"--for-all: sizes of one class are not found ({answer.reason}); state fewer relations"
            )
        at = answer.assignment
        found.append((kinds, {name: value_of(one, at) for name, one in numbers.items()}))
        if len(found) > MOST_CLASSES:
            raise UsageError(
                f"--for-all: more than {MOST_CLASSES} ways to compile the kernel for these sizes; "
                "state some in steps of 16, or fewer of them"
            )
    return found


def _one_of(kinds: set[Kind], number: Expr) -> Expr:
    narrow: set[Kind] = {"multiple", "other"}
    if kinds >= narrow:  # all of 32 bits but 1: one condition in place of two
        rest = kinds - narrow
        plain = (number >= -_LARGEST - 1) & (number <= _LARGEST)
        all_but_one = plain if "one" in rest else plain & ne(number, 1)
        return lor(all_but_one, *(condition(kind, number) for kind in rest - {"one"}))
    return lor(*(condition(kind, number) for kind in kinds))
