"""What `--for-all` says: sizes with their intervals, what follows from them, what memory holds.

``n=1..8192``, ``K=16..4096:16``: every integer of the interval, in that step. ``stride_m=N``: a number that
follows. ``idx=0..n-1``, of a pointer: every value in its memory is in that interval.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kerncap.errors import UsageError
from kerncap.sanitizer.all_sizes.size_formula import formula
from kerncap.sanitizer.symbolic.expr import Expr, Variable, const, var

MOST_SIZES = 12
_NAME = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Interval:
    """``low``, ``low + step``, …, up to ``high``."""

    low: int
    high: int
    step: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "high", self.high - (self.high - self.low) % self.step)

    def __str__(self) -> str:
        return f"{self.low}..{self.high}" + ("" if self.step == 1 else f":{self.step}")

    def expression(self, name: str) -> Expr:
        """Any of the numbers, over a variable of its own."""
        if self.low == self.high:
            return const(self.low)
        if self.step == 1:
            return var(Variable(name, "free", self.low, self.high))
        turns = Variable(name, "free", 0, (self.high - self.low) // self.step)
        return self.low + self.step * var(turns)


@dataclass(frozen=True)
class Statement:
    """By name: intervals of sizes; as text what follows from them; the two ends of what memory holds."""

    sizes: Mapping[str, Interval]
    relations: Mapping[str, str]
    contents: Mapping[str, tuple[str, str]]


def parse(texts: Iterable[str], integers: Collection[str], pointers: Collection[str]) -> Statement:
    """The statement that the options make, about the kernel's parameters. Raises UsageError."""
    sizes: dict[str, Interval] = {}
    relations: dict[str, str] = {}
    contents: dict[str, tuple[str, str]] = {}
    for text in (one for each in texts for one in split(each)):
        name, equals, value = (part.strip() for part in text.partition("="))
        what = f"--for-all {text}"
        if not equals or not value or not _NAME.fullmatch(name):
            raise UsageError(f"{what}: expected NAME=LOW..HIGH or NAME=EXPRESSION, as in n=1..8192")
        if name in sizes or name in relations or name in contents:
            raise UsageError(f"{what}: {name} is stated already; state each name once")
        if name not in integers and name not in pointers:
            known = ", ".join((*integers, *pointers)) or "none"
            raise UsageError(
                f"{what}: {name} is not an integer or pointer of the compiled kernel; it has {known}"
            )
        low, dots, high = value.partition("..")
        if name in pointers:
            if not dots:
                raise UsageError(f"{what}: {name} is a pointer; state what its memory holds, as in 0..n-1")
            contents[name] = low, high
        elif dots:
            sizes[name] = _interval(what, low, high)
        else:
            relations[name] = value
    if not sizes:
        raise UsageError("--for-all: no size has an interval; expected one at least, as in n=1..8192")
    if len(sizes) > MOST_SIZES:
        raise UsageError(f"--for-all: {len(sizes)} sizes; at most {MOST_SIZES}, the others by relation")
    return Statement(sizes, relations, contents)


def numbers_over(
    statement: Statement, sizes: Mapping[str, Expr], values: Mapping[str, int]
) -> dict[str, Expr]:
    """All names that arithmetic may use: ``sizes``, what follows from them, and ``values`` that stay."""
    names: dict[str, Expr] = {**{name: const(value) for name, value in values.items()}, **sizes}
    for name, text in statement.relations.items():
        names[name] = formula(text, {k: v for k, v in names.items() if k != name}, f"--for-all {name}={text}")
    return names


def split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _interval(what: str, low: str, rest: str) -> Interval:
    high, colon, step = rest.partition(":")
    numbers = [formula(one, {}, what).value for one in (low, high, step if colon else "1")]
    first, last, distance = numbers
    if first is None or last is None or distance is None or distance < 1:
        raise UsageError(f"{what}: expected numbers, as in 16..4096:16")
    if first > last:
        raise UsageError(f"{what}: {first} is above {last}; give the smaller number first")
    return Interval(first, last, distance)
