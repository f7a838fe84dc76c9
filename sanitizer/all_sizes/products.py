"""What a condition on factors implies for their products.

The solver's linear systems take a product of two unknowns for one more unknown. Multiplied out, and with each
bound of a factor multiplied by the other factor, they know what a tile needs: ``row < M`` and ``K >= 0`` give
``row * K + K <= M * K``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kerncap.sanitizer.symbolic.expr import (
    Expr,
    add,
    compare,
    conjuncts,
    const,
    eq,
    land,
    linear,
    nodes_of,
    transform,
)

MOST_TERMS = 64  # of one product, multiplied out
MOST_CONSEQUENCES = 160
_MOST_FACTORS = 4


def multiplied_out(e: Expr) -> Expr:
    """The same with products of sums as sums of products."""
    return transform(e, _distributed)


def _distributed(node: Expr) -> Expr | None:
    if node.kind != "mul" or all(factor.kind != "sum" for factor in node.args):
        return None
    terms: list[tuple[tuple[Expr, ...], int]] = [((), 1)]
    for factor in node.args:
        form = linear(factor)
        assert form is not None
        parts: list[tuple[tuple[Expr, ...], int]] = [((atom,), c) for atom, c in form.terms]
        if form.constant:
            parts.append(((), form.constant))
        terms = [(a + b, c * d) for a, c in terms for b, d in parts]
        if len(terms) > MOST_TERMS:
            return None
    return add(*(_product(factors, c) for factors, c in terms))


def _product(factors: Iterable[Expr], coefficient: int = 1) -> Expr:
    result = const(coefficient)
    for factor in factors:
        result = result * factor
    return result


def with_consequences(condition: Expr) -> Expr:
    """The condition multiplied out, with conjuncts that follow from it: the same points satisfy both."""
    parts = list(conjuncts(multiplied_out(condition)))
    known = dict.fromkeys(parts)
    for part in _definitions(parts):
        known[multiplied_out(part)] = None
    for _ in range(2):  # of a product of three, a bound of one factor needs one of the other two
        for part in list(_consequences(list(known))):
            if len(known) > len(parts) + MOST_CONSEQUENCES:
                break
            known.setdefault(part)
    return land(*known)


def _definitions(parts: list[Expr]) -> Iterator[Expr]:
    """Quotients and remainders of two unknowns, both not negative."""
    quotients: dict[tuple[Expr, ...], Expr] = {}
    remainders: dict[tuple[Expr, ...], Expr] = {}
    for node in nodes_of(parts):
        if node.kind not in ("div", "tdiv", "mod", "trem") or node.args[1].kind == "const":
            continue
        dividend, divisor = node.args
        if dividend.low is None or dividend.low < 0 or divisor.low is None or divisor.low < 1:
            continue
        if node.kind in ("div", "tdiv"):
            quotients[node.args] = node
            rest = dividend - node * divisor
            yield rest >= 0
            yield rest <= divisor - 1
        else:
            remainders[node.args] = node
            yield node >= 0
            yield node <= divisor - 1
            yield node <= dividend
    for both in quotients.keys() & remainders.keys():
        yield eq(quotients[both] * both[1] + remainders[both], both[0])


def _consequences(parts: list[Expr]) -> Iterator[Expr]:
    products = [node for node in nodes_of(parts) if node.kind == "mul" and len(node.args) <= _MOST_FACTORS]
    by_atom: dict[Expr, list[Expr]] = {}
    for part in parts:
        if part.kind in ("le", "ge", "eq"):
            form = linear(part.args[0])
            for atom, _ in form.terms if form is not None else ():
                by_atom.setdefault(atom, []).append(part)
    for product in products:
        for atom, other in _splits(product, by_atom):
            if other.low is None or other.low < 0:
                continue
            for bound in by_atom.get(atom, ()):
                scaled = multiplied_out((bound.args[0] - bound.payload) * other)
                yield compare(bound.kind, scaled, 0)
            if atom.low is not None:
                yield multiplied_out((atom - atom.low) * other) >= 0
            if atom.high is not None:
                yield multiplied_out((atom - atom.high) * other) <= 0


def _splits(product: Expr, bounded: Iterable[Expr]) -> Iterator[tuple[Expr, Expr]]:
    """The product as a factor of which a bound is known, and the rest."""
    factors = Counter(product.args)
    candidates = dict.fromkeys((*factors, *(one for one in bounded if one.kind == "mul")))
    for atom in candidates:
        own = Counter(atom.args if atom.kind == "mul" else (atom,))
        if own <= factors and own != factors:
            yield atom, _product((factors - own).elements())
