"""Equations between two copies of all variables, as `disjoint_tiles` splits them into digits."""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.sanitizer.symbolic.expr import Expr
from kerncap.sanitizer.symbolic.sums import from_terms, terms_of

Terms = dict[Expr, int]


@dataclass
class Equation:
    """``Σ left − Σ right + constant`` lies in ``(−below, above)``, both exclusive; (1, 1) is an equality."""

    left: Terms
    right: Terms
    constant: int
    below: int = 1
    above: int = 1

    @property
    def equality(self) -> bool:
        return self.below == self.above == 1


def without_wraps(e: Expr) -> tuple[int, Terms]:
    """A sum that equals ``e`` modulo 2**64."""
    constant, terms = terms_of(e)
    found: Terms = {}
    pending = list(terms)
    while pending:
        atom, coefficient = pending.pop()
        if atom.kind == "wrap" and atom.payload == 64:
            more, inner = terms_of(atom.args[0])
            constant += coefficient * more
            pending += [(one, coefficient * factor) for one, factor in inner]
        else:
            found[atom] = found.get(atom, 0) + coefficient
    return constant, {atom: coefficient for atom, coefficient in found.items() if coefficient}


def partition(terms: Terms, radix: int) -> tuple[Terms, Terms]:
    high = {e: c for e, c in terms.items() if c % radix == 0}
    return high, {e: c for e, c in terms.items() if c % radix}


def equality(left: Expr, right: Expr) -> Equation:
    left_constant, left_terms = terms_of(left)
    right_constant, right_terms = terms_of(right)
    return Equation(dict(left_terms), dict(right_terms), left_constant - right_constant)


def with_remainders(equation: Equation, divisor: int, k: int, a: Expr, b: Expr) -> Equation:
    """``divisor · equation + k · (a − b)``; making the sum puts dividends in the place of their parts."""

    def side(terms: Terms, remainder: Expr) -> tuple[int, Terms]:
        scaled = {e: c * divisor for e, c in terms.items()}
        scaled[remainder] = scaled.get(remainder, 0) + k
        constant, items = terms_of(from_terms(0, scaled))
        return constant, dict(items)

    left_constant, left = side(equation.left, a)
    right_constant, right = side(equation.right, b)
    return Equation(left, right, equation.constant * divisor + left_constant - right_constant)
