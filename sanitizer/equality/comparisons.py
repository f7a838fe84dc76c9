"""Comparisons of floats: what comes of them, and how much a result that hangs on one does."""

from __future__ import annotations

from typing import NamedTuple

from kerncap.sanitizer.equality.degrees import Degree, degree_of, widest
from kerncap.sanitizer.equality.numbers import Array, Bools, NotModelled, Numbers


class Compared(NamedTuple):
    """``function``: what a proof that it is part of says of it."""

    holds: Bools
    function: str
    degree: Degree


def compared(
    numbers: Numbers, predicate: str, x: Array, y: Array, given: list[Degree], *, ordered: bool
) -> Compared:
    """``predicate``: of arith.cmpf; ``given``: the degrees of both. Raises NotModelled.

    Of two numbers that differ it is not known that they do, so equality holds at random.
    """
    found = numbers.compare(predicate, x, y)
    if numbers.is_endless(x) or numbers.is_endless(y):
        return Compared(found, "isinf", degree_of("isinf", given, ordered=ordered))
    equality = predicate[1:] in ("eq", "ne")
    exact = equality or predicate in ("ord", "uno", "true", "false")
    function = "equals" if equality else "isnan" if exact else "compare"
    if not any(one.total for one in given):
        if not (exact or numbers.in_order(x) and numbers.in_order(y)):
            raise NotModelled("an order of constants that are computed")
        return Compared(found, function, widest(given))
    if equality:
        equal = numbers.may_equal(x, y)
        found = found | equal if predicate[1:] == "eq" else found & ~equal
    return Compared(found, function, degree_of(function, given, ordered=ordered))
