"""Operations on bit patterns, as arithmetic wherever they are arithmetic.

Operands and results are signed numbers that stand for patterns of ``bits`` bits.
"""

from __future__ import annotations

from kerncap.sanitizer.symbolic.division import (
    div_floor,
    mod_floor,
    signed_range,
    unsigned,
    wrap,
    wrap_number,
)
from kerncap.sanitizer.symbolic.node import ZERO, Expr, Interval, const, make, unknown
from kerncap.sanitizer.symbolic.sums import add, mul, scale, sub

_MINUS_ONE = const(-1)


def bit_and(a: Expr, b: Expr, bits: int) -> Expr:
    a, b = _constant_last(a, b)
    if a is b:
        return a
    if b.kind == "const":
        pattern = wrap_number(b.payload, bits)
        if a.kind == "const":
            return const(wrap_number(a.payload & pattern, bits))
        masked = _mask(a, pattern, bits)
        if masked is not None:
            return masked
    return _make("bitand", a, b, bits)


def _mask(a: Expr, pattern: int, bits: int) -> Expr | None:
    """``a & pattern`` where the ones of the pattern are one run."""
    if pattern in (0, -1):
        return ZERO if pattern == 0 else a
    unsigned_pattern = pattern % (1 << bits)
    lowest = (unsigned_pattern & -unsigned_pattern).bit_length() - 1
    run = unsigned_pattern >> lowest
    if run & (run + 1):
        return None
    top = lowest + run.bit_length()
    kept = a if top == bits else mod_floor(a, const(1 << top))
    return kept if lowest == 0 else sub(kept, mod_floor(a, const(1 << lowest)))


def bit_or(a: Expr, b: Expr, bits: int) -> Expr:
    a, b = _constant_last(a, b)
    if a is b:
        return a
    if b.kind == "const":
        pattern = wrap_number(b.payload, bits)
        if a.kind == "const":
            return const(wrap_number(a.payload | pattern, bits))
        if pattern in (0, -1):
            return a if pattern == 0 else _MINUS_ONE
        # a | m is a − (a & m) + m
        masked = _mask(a, pattern, bits)
        if masked is not None:
            return add(sub(a, masked), const(pattern))
    if _disjoint(a, b) or _disjoint(b, a):
        return add(a, b)
    return _make("bitor", a, b, bits)


def bit_xor(a: Expr, b: Expr, bits: int) -> Expr:
    a, b = _constant_last(a, b)
    if a is b:
        return ZERO
    if b.kind == "const":
        pattern = wrap_number(b.payload, bits)
        if a.kind == "const":
            return const(wrap_number(a.payload ^ pattern, bits))
        if pattern in (0, -1):
            return a if pattern == 0 else sub(_MINUS_ONE, a)
    if _disjoint(a, b) or _disjoint(b, a):
        return add(a, b)
    return _make("bitxor", a, b, bits)


def shift_left(a: Expr, b: Expr, bits: int) -> Expr:
    if b.kind == "const":
        amount = b.payload
        return wrap(scale(a, 1 << amount), bits) if 0 <= amount < bits else _bad_shift(a, b)
    if (
        b.low is not None
        and b.high is not None
        and b.low >= 0
        and b.high < min(bits, 63)
        and a.kind == "const"
    ):
        powers = make("shl", (const(1), b), 64, "int", (1 << b.low, 1 << b.high))
        return wrap(mul(a, powers), bits)
    return make("shl", (a, b), bits, "int", signed_range(bits))


def shift_right_logical(a: Expr, b: Expr, bits: int) -> Expr:
    if b.kind == "const":
        amount = b.payload
        if not 0 <= amount < bits:
            return _bad_shift(a, b)
        return wrap(div_floor(unsigned(a, bits), const(1 << amount)), bits)
    return make("lshr", (a, b), bits, "int", _shifted_right(a, b, bits))


def shift_right_arithmetic(a: Expr, b: Expr, bits: int) -> Expr:
    if b.kind == "const":
        amount = b.payload
        return div_floor(a, const(1 << amount)) if 0 <= amount < bits else _bad_shift(a, b)
    return make("ashr", (a, b), bits, "int", _shifted_right(a, b, bits))


def _bad_shift(a: Expr, b: Expr) -> Expr:
    return unknown("shift by no less than the width", "shift", (a, b))


def _shifted_right(a: Expr, b: Expr, bits: int) -> Interval:
    if b.low is None or b.high is None or b.low < 0 or b.high >= bits:
        return signed_range(bits)  # a shift that is too wide gives any pattern
    if a.low is not None and a.low >= 0 and a.high is not None:
        return a.low >> b.high, a.high >> b.low
    return signed_range(bits)


def _constant_last(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    return (b, a) if a.kind == "const" else (a, b)


def _disjoint(a: Expr, b: Expr) -> bool:
    """``b`` has ones only below the lowest that ``a`` may have."""
    if b.low is None or b.low < 0 or b.high is None:
        return False
    width = b.high.bit_length()
    return a.modulus % (1 << width) == 0 and a.remainder % (1 << width) == 0


def _make(kind: str, a: Expr, b: Expr, bits: int) -> Expr:
    if a.number > b.number:
        a, b = b, a
    return make(kind, (a, b), bits, "int", bitwise_interval(kind, (a.low, a.high), (b.low, b.high), bits))


def bitwise_interval(kind: str, a: Interval, b: Interval, bits: int) -> Interval:
    low, high = signed_range(bits)
    non_negative = [i for i in (a, b) if i[0] is not None and i[0] >= 0]
    if kind == "bitand":
        if non_negative:
            low = 0
            high = min((i[1] for i in non_negative if i[1] is not None), default=high)
    elif len(non_negative) == 2 and a[1] is not None and b[1] is not None:
        low = max(a[0] or 0, b[0] or 0) if kind == "bitor" else 0
        high = (1 << max(a[1].bit_length(), b[1].bit_length())) - 1
    return low, high
