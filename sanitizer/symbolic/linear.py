"""Expressions as linear forms, and what strides alone say about two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kerncap.sanitizer.symbolic.node import Expr
from kerncap.sanitizer.symbolic.sums import terms_of


@dataclass(frozen=True)
class Linear:
    """``constant + Σ coefficient · atom``; atoms are variables or nodes that are not linear themselves."""

    constant: int
    terms: tuple[tuple[Expr, int], ...]

    def coefficient(self, atom: Expr) -> int:
        return dict(self.terms).get(atom, 0)


def linear(e: Expr) -> Linear | None:
    """The linear form of an integer expression; None for a boolean."""
    if e.sort != "int":
        return None
    constant, terms = terms_of(e)
    return Linear(constant, terms)


def disjoint_strides(terms: Sequence[tuple[int, int]], slack: int = 0) -> int:
    """How many terms of a sum are zero wherever the sum is small: those of dominating strides.

    ``terms`` are ``(coefficient, largest absolute value)``; looks at ``|Σ coefficient · x| <= slack``.
    In order of falling ``|coefficient|``, the leading ones, each larger than all that may follow together
    with the slack, are zero. Returns how many of that order are (all of them: the sum is small only
    where every x is 0).
    """
    ordered = sorted(((abs(c), extent) for c, extent in terms), reverse=True)
    rest = slack + sum(c * extent for c, extent in ordered)
    count = 0
    for c, extent in ordered:
        rest -= c * extent
        if c <= rest:
            break
        count += 1
    return count


def residual_is_zero(terms: Sequence[tuple[Expr, int, int]], slack: int = 0) -> list[Expr]:
    """The atoms that must be zero where ``|Σ coefficient · atom| <= slack``.

    ``terms`` are ``(atom, coefficient, largest absolute value of the atom)``. For two copies of an address,
    the atoms are the differences of their variables, and the slack is the width of the accesses less one.
    """
    ordered = sorted(terms, key=lambda t: abs(t[1]), reverse=True)
    return [atom for atom, _, _ in ordered[: disjoint_strides([(c, n) for _, c, n in terms], slack)]]
