"""Linear systems over the integers: the simplex method with branching on what comes out fractional."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kerncap.sanitizer.symbolic.implications import FactStore
from kerncap.sanitizer.symbolic.interval import is_empty
from kerncap.sanitizer.symbolic.node import Expr, Interval
from kerncap.sanitizer.symbolic.simplex import PivotLimit, Simplex
from kerncap.sanitizer.symbolic.sums import terms_of

BRANCH_LIMIT = 60


@dataclass(frozen=True)
class Infeasible:
    """No integers satisfy the system."""


@dataclass(frozen=True)
class Feasible:
    """Values of all atoms that satisfy the system (and not necessarily what the atoms mean)."""

    values: Mapping[Expr, int]


class System:
    """The forms and atoms of a FactStore, with what divisions, remainders, wraps, minima mean."""

    def __init__(self, facts: FactStore) -> None:
        self.simplex = Simplex()
        self.facts = facts
        self.columns: dict[Expr, int] = {}
        self.integral: list[int] = []
        self.empty = False
        pending: list[Expr] = []
        for form, bounds in facts.bounds.items():
            if is_empty(bounds):
                self.empty = True
            for atom, _ in terms_of(form)[1]:
                pending.append(atom)
        rows: list[tuple[dict[Expr, int], int, Interval]] = []
        quotients: list[tuple[Expr, Expr, int, int, Interval]] = []
        while pending:
            atom = pending.pop()
            if atom in self.columns or atom.sort != "int":
                continue
            self.columns[atom] = self._column(facts.atom(atom))
            for definition in _definitions(atom):
                if isinstance(definition, Quotient):
                    quotients.append(
                        (atom, definition.operand, definition.modulus, definition.low, definition.bounds)
                    )
                    pending.extend(a for a, _ in terms_of(definition.operand)[1])
                else:
                    rows.append((definition.terms, definition.constant, definition.bounds))
                    pending.extend(definition.terms)
        for form, terms in facts.forms.items():
            low, high = facts.bounds.get(form, (form.low, form.high))
            self._row({self.columns[a]: k for a, k in terms}, (low, high))
        # Forms first: a difference that must be whole decides more than either of its parts.
        self.integral = [*self.simplex.rows, *self.integral]
        for terms_, constant, (low, high) in rows:
            self._row(
                {self.columns[a]: k for a, k in terms_.items() if k},
                (None if low is None else low - constant, None if high is None else high - constant),
            )
        for atom, operand, modulus, _, bounds in quotients:
            # atom = operand − modulus · quotient
            constant, items = terms_of(operand)
            form_: dict[int, int] = {self.columns[a]: k for a, k in items}
            form_[self.columns[atom]] = form_.get(self.columns[atom], 0) - 1
            form_[self._column(bounds)] = -modulus
            self._row(form_, (-constant, -constant))

    def _column(self, bounds: Interval) -> int:
        if is_empty(bounds):
            self.empty = True
            bounds = (bounds[0], bounds[0])
        index = self.simplex.column(bounds)
        self.integral.append(index)
        return index

    def _row(self, form: dict[int, int], bounds: Interval) -> None:
        form = {c: k for c, k in form.items() if k}
        if not form:
            low, high = bounds
            self.empty |= (low is not None and low > 0) or (high is not None and high < 0)
            return
        self.simplex.row(form, bounds)

    def solve(self) -> Infeasible | Feasible | None:
        """None: given up at the limit of branches or pivots."""
        if self.empty:
            return Infeasible()
        stack = [self.simplex]
        branches = 0
        gave_up = False
        while stack:
            simplex = stack.pop()
            try:
                if not simplex.feasible():
                    continue
            except PivotLimit:
                gave_up = True
                continue
            for fractional in self.integral:
                below, above = simplex.around(fractional)
                if below != above:
                    break
            else:
                return Feasible({atom: simplex.around(i)[0] for atom, i in self.columns.items()})
            branches += 1
            if branches > BRANCH_LIMIT:
                gave_up = True
                break
            other = simplex.copy()
            if other.narrow(fractional, (above, None)):
                stack.append(other)
            if simplex.narrow(fractional, (None, below)):
                stack.append(simplex)
        return None if gave_up else Infeasible()


@dataclass(frozen=True)
class Row:
    """``low <= constant + Σ coefficient · atom <= high``."""

    terms: dict[Expr, int]
    constant: int
    bounds: Interval


@dataclass(frozen=True)
class Quotient:
    """The atom is the operand less a multiple of the modulus, and at least ``low``."""

    operand: Expr
    modulus: int
    low: int
    bounds: Interval  # of how many times the modulus


def _definitions(atom: Expr) -> list[Row | Quotient]:
    """Linear consequences of what an atom is."""
    kind = atom.kind
    if kind == "div" and atom.args[1].kind == "const":
        divisor = atom.args[1].payload
        constant, items = terms_of(atom.args[0])
        terms = dict(items)
        terms[atom] = terms.get(atom, 0) - divisor
        return [Row(terms, constant, (0, divisor - 1))]
    if kind == "wrap" or (kind == "mod" and atom.args[1].kind == "const"):
        modulus = 1 << atom.payload if kind == "wrap" else atom.args[1].payload
        low = -(modulus >> 1) if kind == "wrap" else 0
        a = atom.args[0]
        turns = (
            None if a.low is None else (a.low - low) // modulus,
            None if a.high is None else (a.high - low) // modulus,
        )
        return [Quotient(a, modulus, low, turns)]
    if kind in ("min", "max"):
        rows: list[Row | Quotient] = []
        for arg in atom.args:
            constant, items = terms_of(arg)
            terms = dict(items)
            terms[atom] = terms.get(atom, 0) - 1
            rows.append(Row(terms, constant, (0, None) if kind == "min" else (None, 0)))
        return rows
    return []
