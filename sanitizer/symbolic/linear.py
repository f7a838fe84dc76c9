"""Expressions as linear forms, and what their strides say about two of them."""

from __future__ import annotations

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
