"""`where(a > b, a, b)`: a maximum or minimum that is written as a choice, as PyTorch's reductions have it."""

from __future__ import annotations

from kerncap.sanitizer.concrete.ops_arith import float_predicate
from kerncap.sanitizer.ttir.ir import Operation, Value

_LARGER, _SMALLER = ("gt", "ge"), ("lt", "le")


def extreme_of(select: Operation) -> str | None:
    """``maximum`` or ``minimum`` if that is what arith.select gives of its two values; NaN apart."""
    condition, first, second = select.operands
    compared = _comparison(condition, (first, second))
    if compared is None:
        return None
    predicate = float_predicate(compared)[1:]
    if predicate not in (*_LARGER, *_SMALLER):
        return None
    left, right = compared.operands
    if _same(left, first) and _same(right, second):
        return "maximum" if predicate in _LARGER else "minimum"
    if _same(left, second) and _same(right, first):
        return "minimum" if predicate in _LARGER else "maximum"
    return None


def _comparison(condition: Value, both: tuple[Value, Value]) -> Operation | None:
    """What compares two numbers, or says that one of ``both`` is NaN."""
    owner = condition.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name == "arith.cmpf":
        return owner
    if owner.name != "arith.ori":
        return None
    first, second = owner.operands
    for one, other in ((first, second), (second, first)):
        found = other.owner
        if isinstance(found, Operation) and found.name == "arith.cmpf":
            left, right = found.operands
            asks_for_nan = float_predicate(found) in ("une", "uno") and _same(left, right)
            if asks_for_nan and any(_same(left, value) for value in both):
                return _comparison(one, both)
    return None


def _same(one: Value, other: Value) -> bool:
    """One value, or two constants of one number."""
    if one is other:
        return True
    owners = [value.owner for value in (one, other)]
    if not all(isinstance(owner, Operation) and owner.name == "arith.constant" for owner in owners):
        return False
    values = [owner.attributes["value"] for owner in owners if isinstance(owner, Operation)]
    return one.type == other.type and values[0] == values[1]
