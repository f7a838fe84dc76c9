"""Linear sums, products, minimum and maximum: the arithmetic that everything is normalised to.

A sum is one node, ``constant + Σ coefficient · atom``, its atoms in order of their numbers: two sums that
are equal as linear forms are the same node. Atoms are variables and whatever is not linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd
from operator import attrgetter

from kerncap.sanitizer.symbolic.node import ZERO, Bound, Congruence, Expr, Interval, const, known, make

Terms = dict[Expr, int]


def terms_of(e: Expr) -> tuple[int, tuple[tuple[Expr, int], ...]]:
    """``(constant, ((atom, coefficient), …))`` of an integer expression; a non-linear one is its own atom."""
    if e.kind == "sum":
        constant, coefficients = e.payload
        return constant, tuple(zip(e.args, coefficients, strict=True))
    if e.kind == "const":
        return e.payload, ()
    return 0, ((e, 1),)


def add_scaled(terms: Terms, e: Expr, factor: int) -> int:
    """Adds ``factor · e`` to the terms; returns what it contributes to the constant."""
    if e.kind == "sum":
        constant, coefficients = e.payload
        for atom, coefficient in zip(e.args, coefficients, strict=True):
            terms[atom] = terms.get(atom, 0) + factor * coefficient
        return int(constant) * factor
    if e.kind == "const":
        return int(e.payload) * factor
    terms[e] = terms.get(e, 0) + factor
    return 0


def add(*xs: Expr) -> Expr:
    terms: Terms = {}
    constant = 0
    last: Expr | None = None
    for x in xs:
        if x.kind == "const":
            constant += x.payload
        elif last is None:
            last = x  # a single one that is not a number stays as it is
        else:
            if not terms:
                constant += add_scaled(terms, last, 1)
            constant += add_scaled(terms, x, 1)
    if last is None:
        return const(constant)
    return from_terms(constant, terms) if terms else _shifted(last, constant)


def sub(a: Expr, b: Expr) -> Expr:
    if b.kind == "const":
        return _shifted(a, -b.payload)
    if a is b:
        return ZERO
    terms: Terms = {}
    constant = add_scaled(terms, a, 1) + add_scaled(terms, b, -1)
    return from_terms(constant, terms)


def neg(a: Expr) -> Expr:
    return scale(a, -1)


def scale(a: Expr, factor: int) -> Expr:
    if factor == 1:
        return a
    if not factor:
        return ZERO
    if a.kind == "const":
        return const(a.payload * factor)
    if a.kind != "sum":
        return _sum(0, (a,), (factor,))
    constant, coefficients = a.payload
    scaled = tuple([c * factor for c in coefficients])
    if any(atom.kind == "div" for atom in a.args):
        return from_terms(constant * factor, dict(zip(a.args, scaled, strict=True)))
    return _sum(constant * factor, a.args, scaled)


def _shifted(a: Expr, number: int) -> Expr:
    """``a + number``: the terms stay as they are."""
    if not number:
        return a
    if a.kind == "sum":
        constant, coefficients = a.payload
        constant += number
        if not constant and len(coefficients) == 1 and coefficients[0] == 1:
            return a.args[0]
        return _sum(constant, a.args, coefficients)
    return const(a.payload + number) if a.kind == "const" else _sum(number, (a,), (1,))


_recombine: Callable[[Terms], int]  # there are no quotients before `division` is loaded


def recombine_by(recombine: Callable[[Terms], int]) -> None:
    """Let this put a sum's quotients and remainders together; `division`, which is made of sums, calls it."""
    global _recombine
    _recombine = recombine


def from_terms(constant: int, terms: Terms) -> Expr:
    """The node of a sum. The dictionary is used up."""
    quotients = False
    for atom, c in terms.items():
        if not c:
            return from_terms(constant, {a: c for a, c in terms.items() if c})
        quotients = quotients or atom.kind == "div"
    if quotients and len(terms) > 1:
        constant += _recombine(terms)
    if not terms:
        return const(constant)
    if len(terms) == 1:
        ((atom, coefficient),) = terms.items()
        if coefficient == 1 and not constant:
            return atom
        return _sum(constant, (atom,), (coefficient,))
    args = tuple(sorted(terms, key=_NUMBER))
    return _sum(constant, args, tuple([terms[a] for a in args]))


_NUMBER = attrgetter("number")


def _sum(constant: int, args: tuple[Expr, ...], coefficients: tuple[int, ...]) -> Expr:
    """The node of a sum whose terms are in order, none of them zero."""
    payload = (constant, coefficients)
    node = known("sum", args, payload)
    if node is not None:
        return node
    low: Bound = constant
    high: Bound = constant
    modulus, remainder = 0, constant
    for atom, c in zip(args, coefficients, strict=True):
        a, b = (atom.low, atom.high) if c > 0 else (atom.high, atom.low)
        low = None if low is None or a is None else low + c * a
        high = None if high is None or b is None else high + c * b
        modulus = gcd(modulus, c * atom.modulus)
        remainder += c * atom.remainder
    if low is not None and low == high:
        return const(low)
    congruence = (modulus, remainder % modulus) if modulus else (0, remainder)
    return make("sum", args, payload, "int", (low, high), congruence)


def interval_of_terms(constant: int, items: Iterable[tuple[Expr, int]]) -> Interval:
    low: Bound = constant
    high: Bound = constant
    for atom, c in items:
        a, b = (atom.low, atom.high) if c > 0 else (atom.high, atom.low)
        low = None if low is None or a is None else low + c * a
        high = None if high is None or b is None else high + c * b
    return low, high


def mul(a: Expr, b: Expr) -> Expr:
    if a.kind == "const":
        return scale(b, int(a.payload))
    if b.kind == "const":
        return scale(a, int(b.payload))
    content_a, a = _split_content(a)
    content_b, b = _split_content(b)
    factors = sorted(
        (a.args if a.kind == "mul" else (a,)) + (b.args if b.kind == "mul" else (b,)), key=lambda e: e.number
    )
    interval: Interval = (1, 1)
    modulus, remainder = 0, 1
    position = 0
    while position < len(factors):
        factor = factors[position]
        count = 1
        while position + count < len(factors) and factors[position + count] is factor:
            count += 1
        interval = multiply_intervals(interval, power_interval((factor.low, factor.high), count))
        for _ in range(count):
            m, r = factor.modulus, factor.remainder
            modulus, remainder = gcd(gcd(modulus * m, modulus * r), m * remainder), remainder * r
        position += count
    if interval[0] is not None and interval[0] == interval[1]:
        product = const(interval[0])
    else:
        congruence = (modulus, remainder % modulus) if modulus else (0, remainder)
        product = make("mul", tuple(factors), None, "int", interval, congruence)
    return scale(product, content_a * content_b)


def _split_content(e: Expr) -> tuple[int, Expr]:
    """``(g, e / g)`` for a sum whose coefficients share ``g``, with the sign of the first of them."""
    if e.kind != "sum":
        return 1, e
    constant, coefficients = e.payload
    content = gcd(constant, *coefficients)
    if coefficients[0] < 0:
        content = -content
    if content == 1:
        return 1, e
    return content, from_terms(
        constant // content, {a: c // content for a, c in zip(e.args, coefficients, strict=True)}
    )


def multiply_intervals(a: Interval, b: Interval) -> Interval:
    if a == (0, 0) or b == (0, 0):
        return 0, 0
    if a[0] is None or a[1] is None or b[0] is None or b[1] is None:
        # Only the case that occurs: both of one sign.
        if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
            return a[0] * b[0], None
        return None, None
    corners = [x * y for x in (a[0], a[1]) for y in (b[0], b[1])]
    return min(corners), max(corners)


def power_interval(a: Interval, exponent: int) -> Interval:
    result: Interval = a
    for _ in range(exponent - 1):
        result = multiply_intervals(result, a)
    if exponent % 2 == 0:
        low, high = result
        smallest = 0
        if a[0] is not None and a[0] > 0:
            smallest = a[0] ** exponent
        elif a[1] is not None and a[1] < 0:
            smallest = a[1] ** exponent
        result = (smallest if low is None else max(low, smallest)), high
    return result


def minimum(a: Expr, b: Expr) -> Expr:
    return _extreme("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    return _extreme("max", a, b)


def _extreme(kind: str, a: Expr, b: Expr) -> Expr:
    parts: list[Expr] = []
    for e in (a, b):
        for part in e.args if e.kind == kind else (e,):
            _keep_extreme(kind, parts, part)
    if len(parts) == 1:
        return parts[0]
    parts.sort(key=lambda e: e.number)
    interval = extreme_interval(kind, [(p.low, p.high) for p in parts])
    if interval[0] is not None and interval[0] == interval[1]:
        return const(interval[0])
    congruence = parts[0].modulus, parts[0].remainder
    for p in parts[1:]:
        congruence = join_congruences(congruence, (p.modulus, p.remainder))
    return make(kind, tuple(parts), None, "int", interval, congruence)


def _keep_extreme(kind: str, parts: list[Expr], new: Expr) -> None:
    """Adds an operand, unless another is always the better; drops those that it is better than."""
    for old in list(parts):
        difference = sub(new, old)
        low, high = difference.low, difference.high
        if kind == "max":
            low, high = (None if high is None else -high), (None if low is None else -low)
        if low is not None and low >= 0:
            return
        if high is not None and high <= 0:
            parts.remove(old)
    parts.append(new)


def extreme_interval(kind: str, intervals: list[Interval]) -> Interval:
    lows = [i[0] for i in intervals]
    highs = [i[1] for i in intervals]
    if kind == "min":
        known = [h for h in highs if h is not None]
        return (
            None if None in lows else min(x for x in lows if x is not None),
            min(known) if known else None,
        )
    known = [x for x in lows if x is not None]
    return max(known) if known else None, None if None in highs else max(h for h in highs if h is not None)


def join_congruences(a: Congruence, b: Congruence) -> Congruence:
    """The finest residue class that has both."""
    modulus = gcd(a[0], b[0], a[1] - b[1])
    return (modulus, a[1] % modulus) if modulus else (0, a[1])
