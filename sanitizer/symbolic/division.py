"""Division, remainder and wrap-around.

With a constant divisor, whatever is a multiple of it leaves the operand first, so that the blocks and
offsets that kernels make of a program id come out as the linear forms they are.
"""

from __future__ import annotations

from math import gcd

from kerncap.sanitizer.symbolic.node import ONE, ZERO, Bound, Congruence, Expr, Interval, const, make, unknown
from kerncap.sanitizer.symbolic.sums import (
    Terms,
    add,
    add_scaled,
    from_terms,
    interval_of_terms,
    neg,
    recombine_by,
    scale,
    sub,
    terms_of,
)


def div_floor(a: Expr, b: Expr) -> Expr:
    """a // b as Python has it."""
    if b.kind == "const":
        return _div_constant(a, int(b.payload))
    if a is b and never_zero(b):
        return ONE
    if _between(a, b):
        return ZERO
    return _make_division("div", a, b, divide_intervals((a.low, a.high), (b.low, b.high)))


def mod_floor(a: Expr, b: Expr) -> Expr:
    """a % b as Python has it: the sign is that of b."""
    if b.kind == "const":
        return _mod_constant(a, int(b.payload))
    if a is b and never_zero(b):
        return ZERO
    if _between(a, b):
        return a
    return _make_division("mod", a, b, modulo_interval((a.low, a.high), (b.low, b.high)))


def div_trunc(a: Expr, b: Expr) -> Expr:
    """a / b as C has it: rounded towards zero."""
    if b.kind == "const" and b.payload < 0:
        return neg(div_trunc(a, const(-b.payload)))
    if b.low is not None and b.low > 0:
        if a.low is not None and a.low >= 0:
            return div_floor(a, b)
        if a.high is not None and a.high <= 0:
            return neg(div_floor(neg(a), b))
    if b.kind == "const":
        if not b.payload:
            return _by_zero("div", a)
        if b.payload == 1:
            return a
        if a.kind == "sum" and all(not c % b.payload for c in (a.payload[0], *a.payload[1])):
            return div_floor(a, b)  # exact
    if a is b and never_zero(b):
        return ONE
    return _make_division("tdiv", a, b, truncated_quotient_interval((a.low, a.high), (b.low, b.high)))


def rem_trunc(a: Expr, b: Expr) -> Expr:
    """a % b as C has it: the sign is that of a."""
    if b.kind == "const" and b.payload < 0:
        return rem_trunc(a, const(-b.payload))
    if b.low is not None and b.low > 0:
        if a.low is not None and a.low >= 0:
            return mod_floor(a, b)
        if a.high is not None and a.high <= 0:
            return neg(mod_floor(neg(a), b))
    if b.kind == "const":
        if not b.payload:
            return _by_zero("rem", a)
        if a.modulus % b.payload == 0 and a.remainder % b.payload == 0:
            return ZERO
    if a is b and never_zero(b):
        return ZERO
    return _make_division("trem", a, b, truncated_remainder_interval((a.low, a.high), (b.low, b.high)))


def wrap(a: Expr, bits: int) -> Expr:
    """To signed two's complement of so many bits; ``a`` itself where its interval fits."""
    low, high = signed_range(bits)
    if fits((a.low, a.high), (low, high)):
        return a
    if a.kind == "const":
        return const(wrap_number(a.payload, bits))
    return make("wrap", (a,), bits, "int", (low, high), _reduced_congruence(a, 1 << bits))


def unsigned(a: Expr, bits: int) -> Expr:
    """a modulo 2**bits: a signed value read as an unsigned one."""
    return _mod_constant(a, 1 << bits)


def signed_range(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def wrap_number(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def fits(inner: Interval, outer: tuple[int, int]) -> bool:
    return inner[0] is not None and inner[1] is not None and outer[0] <= inner[0] and inner[1] <= outer[1]


def never_zero(b: Expr) -> bool:
    if (b.low is not None and b.low > 0) or (b.high is not None and b.high < 0):
        return True
    return b.modulus != 1 and b.remainder != 0


def _by_zero(kind: str, a: Expr) -> Expr:
    return unknown("division by zero", kind, (a,))


def _between(a: Expr, b: Expr) -> bool:
    """0 <= a < b at every point."""
    if a.low is None or a.low < 0:
        return False
    if a.high is not None and b.low is not None and a.high < b.low:
        return True
    difference = sub(b, a).low
    return difference is not None and difference > 0


def _make_division(kind: str, a: Expr, b: Expr, interval: Interval) -> Expr:
    if interval[0] is not None and interval[0] == interval[1] and never_zero(b):
        return const(interval[0])
    congruence: Congruence = (1, 0)
    if kind in ("mod", "trem") and b.kind == "const":
        congruence = _reduced_congruence(a, int(b.payload))
    return make(kind, (a, b), None, "int", interval, congruence)


def _reduced_congruence(a: Expr, modulus: int) -> Congruence:
    m = gcd(a.modulus, modulus)
    return m, a.remainder % m


def _div_constant(a: Expr, c: int) -> Expr:
    if c == 0:
        return _by_zero("div", a)
    if c < 0:
        return _div_constant(neg(a), -c)
    if c == 1:
        return a
    constant, items = terms_of(a)
    quotient: Terms = {}
    rest: list[tuple[Expr, int]] = []
    for atom, k in items:
        whole = k // c if k >= 0 else -(-k // c)
        if whole:
            quotient[atom] = whole
        if k - whole * c:
            rest.append((atom, k - whole * c))
    outside = constant // c
    constant -= outside * c
    base = from_terms(outside, quotient)
    split = _split_blocks(constant, rest, c)
    if split is not None:
        g, blocks, _ = split
        return add(base, _div_constant(blocks, c // g))
    low, high = interval_of_terms(constant, rest)
    if low is not None and high is not None and low // c == high // c:
        return add(base, const(low // c))
    if len(rest) == 1 and not constant and rest[0][1] == 1 and rest[0][0].kind == "div":
        inner, divisor = rest[0][0].args
        if divisor.kind == "const":
            return add(base, _div_constant(inner, int(divisor.payload) * c))
    body = from_terms(constant, dict(rest))
    interval = (None if low is None else low // c), (None if high is None else high // c)
    return add(base, make("div", (body, const(c)), None, "int", interval))


def _split_blocks(constant: int, items: list[tuple[Expr, int]], c: int) -> tuple[int, Expr, Expr] | None:
    """``(g, s, r)`` with ``g·s + r`` the sum, ``g > 1`` a divisor of ``c``, and ``0 <= r < g``.

    Then ``(g·s + r) // c`` is ``s // (c/g)`` and ``(g·s + r) % c`` is ``g·(s % (c/g)) + r``.
    """
    ordered = sorted(items, key=lambda item: gcd(item[1], c), reverse=True)
    g = c
    for taken, (_, k) in enumerate(ordered, 1):
        g = gcd(g, k)
        if g == 1:
            return None
        if taken < len(ordered) and ordered[taken][1] % g == 0:
            continue
        low, high = interval_of_terms(constant, ordered[taken:])
        if low is None or high is None or low // g != high // g:
            continue
        shift = low // g
        blocks = from_terms(shift, {a: k // g for a, k in ordered[:taken]})
        return g, blocks, from_terms(constant - shift * g, dict(ordered[taken:]))
    return None


def _mod_constant(a: Expr, c: int) -> Expr:
    if c == 0:
        return _by_zero("mod", a)
    if c < 0:
        return neg(_mod_constant(neg(a), -c))
    if c == 1:
        return ZERO
    constant, items = terms_of(a)
    terms: Terms = {}
    stripped = False
    pending = [(atom, k % c if k >= 0 else -(-k % c)) for atom, k in items]
    while pending:
        atom, k = pending.pop()
        if not k:
            continue
        inner = _congruent_operand(atom, k, c)
        if inner is None:
            terms[atom] = terms.get(atom, 0) + k
            continue
        stripped = stripped or (atom.kind == "wrap" and c == 1 << atom.payload)
        more: Terms = {}
        constant += add_scaled(more, inner, k)
        pending.extend((x, n % c if n >= 0 else -(-n % c)) for x, n in more.items())
    constant %= c
    rest = [(atom, n % c if n >= 0 else -(-n % c)) for atom, n in terms.items() if n % c]
    split = None if stripped else _split_blocks(constant, rest, c)
    if split is not None:
        g, blocks, remainder = split
        return add(scale(_mod_constant(blocks, c // g), g), remainder)
    low, high = interval_of_terms(constant, rest)
    body = from_terms(constant, dict(rest))
    if low is not None and high is not None and low // c == high // c:
        return sub(body, const(low // c * c))
    m, r = _reduced_congruence(body, c)
    if m == c:
        return const(r)
    # A wrap that went away here still has its say about overflow: see `wraps_of`.
    payload = c.bit_length() - 1 if stripped else None
    return make("mod", (body, const(c)), payload, "int", (0, c - 1), (m, r))


def _congruent_operand(atom: Expr, k: int, c: int) -> Expr | None:
    """What may stand for ``atom`` in ``k · atom`` modulo ``c``."""
    if atom.kind == "mod" and atom.args[1].kind == "const" and (k * atom.args[1].payload) % c == 0:
        return atom.args[0]
    if atom.kind == "wrap" and (k << atom.payload) % c == 0:
        return atom.args[0]
    return None


def divide_intervals(a: Interval, b: Interval) -> Interval:
    """Of a // b. A divisor that may be zero gives no bound."""
    if b[0] is None or b[1] is None or b[0] <= 0 <= b[1]:
        if b[0] is not None and b[0] > 0:
            low: Bound = None if a[0] is None else min(0, a[0] // b[0]) if a[0] < 0 else 0
            high: Bound = None if a[1] is None else max(a[1] // b[0], -1)
            return low, high
        return None, None
    if b[1] < 0:
        a, b = _negated(a), (-b[1], -b[0])
    low_b, high_b = b[0], b[1]
    assert low_b is not None and high_b is not None
    low = None if a[0] is None else (a[0] // high_b if a[0] >= 0 else a[0] // low_b)
    high = None if a[1] is None else (a[1] // low_b if a[1] >= 0 else a[1] // high_b)
    return low, high


def modulo_interval(a: Interval, b: Interval) -> Interval:
    """Of a % b (floor)."""
    if b[0] is not None and b[0] > 0:
        high = None if b[1] is None else b[1] - 1
        if a[0] is not None and a[0] >= 0:
            if a[1] is not None and a[1] < b[0]:
                return a
            if a[1] is not None:
                high = a[1] if high is None else min(high, a[1])
        return 0, high
    if b[1] is not None and b[1] < 0:
        low = None if b[0] is None else b[0] + 1
        return low, 0
    return None, None


def truncated_quotient_interval(a: Interval, b: Interval) -> Interval:
    if a[0] is None or a[1] is None or not (_positive(b) or _positive(_negated(b))):
        return None, None
    if b[0] is None or b[1] is None:
        largest = max(abs(a[0]), abs(a[1]))
        return -largest, largest
    corners = [_truncate(x, y) for x in (a[0], a[1]) for y in (b[0], b[1])]
    low, high = min(corners), max(corners)
    if a[0] <= 0 <= a[1]:
        low, high = min(low, 0), max(high, 0)
    return low, high


def truncated_remainder_interval(a: Interval, b: Interval) -> Interval:
    if b[0] is not None and b[0] > 0:
        largest = None if b[1] is None else b[1] - 1
    elif b[1] is not None and b[1] < 0:
        largest = None if b[0] is None else -b[0] - 1
    else:
        return None, None
    low: Bound = None if largest is None else -largest
    high: Bound = largest
    if a[0] is not None:
        below = min(a[0], 0)
        low = below if low is None else max(low, below)
    if a[1] is not None:
        above = max(a[1], 0)
        high = above if high is None else min(high, above)
    return low, high


def _truncate(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _positive(a: Interval) -> bool:
    return a[0] is not None and a[0] > 0


def _negated(a: Interval) -> Interval:
    return (None if a[1] is None else -a[1]), (None if a[0] is None else -a[0])


def _recombine(terms: Terms) -> int:
    """Undoes a division where its remainder is beside it; returns what that adds to the constant.

    ``c·(x // c) + x % c`` is ``x``, and ``x − c·(x // c)`` is ``x % c`` (each times a common factor).
    """
    extra = 0
    remainders = any(a.kind == "mod" for a in terms)
    for atom in [a for a in terms if a.kind == "div"]:
        coefficient = terms.get(atom, 0)
        dividend, divisor = atom.args
        if divisor.kind != "const" or not coefficient:
            continue
        c = int(divisor.payload)
        if coefficient % c:
            continue
        factor = coefficient // c
        rest = make_mod_key(dividend, divisor) if remainders else None
        if rest is not None and terms.get(rest) == factor:
            del terms[atom], terms[rest]
            extra += add_scaled(terms, dividend, factor)
            remainders = True  # the dividend may bring some
        else:
            _, parts = terms_of(dividend)
            if not parts or any(terms.get(a) != -factor * k for a, k in parts):
                continue
            del terms[atom]
            extra += add_scaled(terms, dividend, factor)
            extra += add_scaled(terms, mod_floor(dividend, divisor), -factor)
            remainders = True
    for atom in [a for a, k in terms.items() if not k]:
        del terms[atom]
    return extra


def make_mod_key(dividend: Expr, divisor: Expr) -> Expr | None:
    """The node ``dividend % divisor`` if the constructor would give one plain node for it."""
    rest = mod_floor(dividend, divisor)
    return rest if rest.kind == "mod" else None


recombine_by(_recombine)
