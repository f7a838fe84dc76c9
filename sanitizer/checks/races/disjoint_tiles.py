"""Disjoint tiles, proved by mixed radix: what two programs must share if their bytes overlap.

Left and right are two copies of all variables. From "the addresses overlap" follow equations between the
two copies: an address ``stride·row + 4·column + byte`` whose lower part stays below ``stride`` has equal rows
on both sides, then equal columns, and so on, digit by digit. Quotient and remainder of one number determine
the number. Where this ends with every program id equal on both sides, no two programs meet, whatever the
grid and however long the loops are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd

from kerncap.sanitizer.checks.races.digit_equations import (
    Equation,
    Terms,
    equality,
    partition,
    with_remainders,
    without_wraps,
)
from kerncap.sanitizer.checks.races.expression_bounds import Ranges
from kerncap.sanitizer.symbolic.expr import Expr, Variable, mod_floor, rem_trunc, var
from kerncap.sanitizer.symbolic.sums import from_terms, terms_of

Differences = dict[tuple[Expr, Expr], "int | None"]  # of left and right copies, as far as one question asked
# Rounds of deriving: each needs an equation from the one before; everyday kernels end after two or three.
MAX_ROUNDS = 24


@dataclass
class Relation:
    """Everything that follows for two points, one on each side, that meet all equations given.

    ``related[a, b]`` is ``m`` where the left copy of ``a`` equals the right copy of ``b`` plus ``m``.
    """

    left_condition: Expr
    right_condition: Expr
    ranges: Ranges
    related: dict[tuple[Expr, Expr], int] = field(default_factory=dict)
    equalities: list[Equation] = field(default_factory=list)
    impossible: bool = False
    contents: bool = False  # something follows from what memory holds
    _stuck: list[Equation] = field(default_factory=list)
    _derived: set[object] = field(default_factory=set)

    # --- what may be asked -------------------------------------------------------------------------

    def equal(self, left: Expr, right: Expr) -> bool:
        """Whether the left copy of ``left`` and the right copy of ``right`` are always the same value."""
        return self.difference(left, right) == 0

    def difference(self, left: Expr, right: Expr) -> int | None:
        """Left copy minus right copy where that is one number (booleans: 0 if equal); None: not known."""
        return self._difference(left, right, {})

    def _difference(self, left: Expr, right: Expr, known: Differences) -> int | None:
        # Expressions share their parts (a sort's network doubles the ways to each one with every step).
        pair = left, right
        if pair not in known:
            known[pair] = self._difference_of_kinds(left, right, known)
        return known[pair]

    def _difference_of_kinds(self, left: Expr, right: Expr, known: Differences) -> int | None:
        if (left, right) in self.related:
            return self.related[left, right]
        if left.kind == "sum" or right.kind == "sum":
            return self._difference_of_terms(left, right, known)
        if left.sort == "int" and right.sort == "int":
            a, b = self._pinned(True, left), self._pinned(False, right)
            if a is not None and b is not None:
                return a - b
        if left.kind == "var" or left.kind != right.kind or left.payload != right.payload:
            return None
        if len(left.args) != len(right.args):
            return None
        arguments = zip(left.args, right.args, strict=True)
        return 0 if all(self._difference(a, b, known) == 0 for a, b in arguments) else None

    def _difference_of_terms(self, left: Expr, right: Expr, known: Differences) -> int | None:
        constant, terms = terms_of(left)
        other_constant, other_terms = terms_of(right)
        mine, theirs = dict(terms), dict(other_terms)
        stated = self._take_stated(mine, theirs)
        if stated.denominator != 1:
            return None
        total = constant - other_constant + int(stated)
        for atom, coefficient in mine.items():
            for other, factor in theirs.items():
                if factor != coefficient:
                    continue
                difference = self._difference(atom, other, known)
                if difference is not None:
                    total += coefficient * difference
                    del theirs[other]
                    break
            else:
                pinned = self._pinned(True, atom)
                if pinned is None:
                    return None
                total += coefficient * pinned
        for other, factor in theirs.items():
            pinned = self._pinned(False, other)
            if pinned is None:
                return None
            total -= factor * pinned
        return total

    def _take_stated(self, left: Terms, right: Terms) -> Fraction:
        """The difference of those terms of two sums of which equations speak; they are removed."""
        total = Fraction(0)
        for equation in (*self.equalities, *self._stuck):
            if not equation.equality or not equation.left or not equation.right:
                continue
            if not (equation.left.keys() <= left.keys() and equation.right.keys() <= right.keys()):
                continue
            ratios = {Fraction(left[atom], c) for atom, c in equation.left.items()}
            ratios |= {Fraction(right[atom], c) for atom, c in equation.right.items()}
            if len(ratios) != 1:
                continue
            total -= equation.constant * ratios.pop()
            for atom in equation.left:
                del left[atom]
            for atom in equation.right:
                del right[atom]
        return total

    def same_programs(self, axes: Iterable[Variable]) -> bool:
        return self.impossible or all(self.equal(var(axis), var(axis)) for axis in axes)

    def excluded_by(self, payload: object, step: int) -> bool:
        """Whether an equation fails if two numbers drawn on the two sides are at least ``step`` apart.

        ``payload``: of the unknown that stands for the number.
        """
        equations = [*self._stuck, *self.equalities]
        equations += [Equation({a: 1}, {b: 1}, -offset) for (a, b), offset in self.related.items()]
        for equation in equations:
            drawn = [e for e in equation.left if e.kind == "unknown" and e.payload == payload]
            other = [e for e in equation.right if e.kind == "unknown" and e.payload == payload]
            if len(drawn) != 1 or len(other) != 1:
                continue
            factor = equation.left[drawn[0]]
            if equation.right[other[0]] != factor:
                continue
            left = self._range(True, {e: c for e, c in equation.left.items() if e is not drawn[0]})
            right = self._range(False, {e: c for e, c in equation.right.items() if e is not other[0]})
            if left[0] is None or left[1] is None or right[0] is None or right[1] is None:
                continue
            least = left[0] - right[1] + equation.constant
            most = left[1] - right[0] + equation.constant
            distance = abs(factor) * step
            if least + distance >= equation.above and most - distance <= -equation.below:
                return True
        return False

    # --- taking equations in -------------------------------------------------------------------------

    def overlap(self, left: Expr, left_width: int, right: Expr, right_width: int) -> None:
        """The bytes at the two addresses overlap."""
        plain = [(constant, dict(terms)) for constant, terms in map(terms_of, (left, right))]
        near = self._apart(*map(without_wraps, (left, right)))
        low, high = self._range_of(near)
        # Places that are less than 2**63 apart but for wraps of 64 bits are as far apart with them.
        small = low is not None and high is not None and max(abs(low), abs(high)) < 1 << 62
        equation = near if small else self._apart(*plain)
        equation.below, equation.above = left_width, right_width
        self._close([equation])

    def _apart(self, left: tuple[int, Terms], right: tuple[int, Terms]) -> Equation:
        """The difference of two sums without what is the same on both sides.

        A base from memory has no range, and need not have one then.
        """
        (constant, mine), (other_constant, theirs) = left, right
        for atom, coefficient in list(mine.items()):
            if theirs.get(atom) == coefficient and self.equal(atom, atom):
                del mine[atom], theirs[atom]
        return Equation(mine, theirs, constant - other_constant)

    def _range_of(self, equation: Equation) -> tuple[int | None, int | None]:
        """Of its left side less its right side."""
        low, high = self._range(True, equation.left)
        other_low, other_high = self._range(False, equation.right)
        least = None if low is None or other_high is None else low - other_high + equation.constant
        most = None if high is None or other_low is None else high - other_low + equation.constant
        return least, most

    def _close(self, equations: list[Equation]) -> None:
        """Split all equations into digits; go on for as long as something new comes of it."""
        for _ in range(MAX_ROUNDS):
            self._settle(equations)
            equations = self._derive()
            if self.impossible or not equations:
                return

    def _settle(self, equations: list[Equation]) -> None:
        pending = [*equations, *self._stuck]
        self._stuck = []
        known = -1
        while pending and not self.impossible:
            while pending and not self.impossible:
                equation = self._reduced(pending.pop())
                parts = self._split(equation)
                if parts is None and (fixed := self._without_fixed(equation)) is not None:
                    parts = self._split(fixed)
                if parts is None:
                    self._stuck.append(equation)
                else:
                    pending.extend(parts)
            if len(self.related) == known:
                return
            known = len(self.related)
            pending, self._stuck = self._stuck, []
        self._stuck.extend(pending)

    def _reduced(self, equation: Equation) -> Equation:
        """Without what is known to be equal on both sides."""
        left, right, constant = dict(equation.left), dict(equation.right), equation.constant
        for (a, b), offset in self.related.items():
            coefficient = left.get(a)
            if coefficient is not None and right.get(b) == coefficient:
                del left[a], right[b]
                constant += coefficient * offset
        return Equation(left, right, constant, equation.below, equation.above)

    def _without_fixed(self, equation: Equation) -> Equation | None:
        """Without the atoms that their condition leaves one value; None if there are none."""
        kept: list[Terms] = [{}, {}]
        constant = equation.constant
        for is_left, terms in ((True, equation.left), (False, equation.right)):
            for atom, coefficient in terms.items():
                value = self._pinned(is_left, atom)
                if value is None:
                    kept[not is_left][atom] = coefficient
                else:
                    constant += coefficient * value * (1 if is_left else -1)
        if len(kept[0]) == len(equation.left) and len(kept[1]) == len(equation.right):
            return None
        return Equation(kept[0], kept[1], constant, equation.below, equation.above)

    def _split(self, equation: Equation) -> list[Equation] | None:
        """The equations of a higher and a lower digit; None if no radix separates them."""
        left, right = equation.left, equation.right
        if not left and not right:
            self.impossible |= not -equation.below < equation.constant < equation.above
            return []
        if equation.equality:
            content = gcd(*left.values(), *right.values())
            if equation.constant % content:
                self.impossible = True
                return []
            if content > 1:
                equation = Equation(
                    {a: c // content for a, c in left.items()},
                    {a: c // content for a, c in right.items()},
                    equation.constant // content,
                )
                left, right = equation.left, equation.right
            self.equalities.append(equation)
            if self._terminal(equation):
                return []
        for radix in sorted({abs(c) for c in (*left.values(), *right.values())}, reverse=True):
            if equation.equality and radix == 1:
                continue
            parts = self._split_at(equation, radix)
            if parts is not None:
                return parts
        return None

    def _split_at(self, equation: Equation, radix: int) -> list[Equation] | None:
        high_left, low_left = partition(equation.left, radix)
        high_right, low_right = partition(equation.right, radix)
        a = self._range(True, low_left)
        b = self._range(False, low_right)
        if a[0] is None or a[1] is None or b[0] is None or b[1] is None:
            return None
        least = a[0] - b[1] + equation.constant
        most = a[1] - b[0] + equation.constant
        # radix · m + v lies in (−below, above) for some v in [least, most]
        first = -((equation.below + most - 1) // radix)
        last = (equation.above - least - 1) // radix
        if first > last:
            self.impossible = True
            return []
        if first != last:
            c = self._range(True, {e: k // radix for e, k in high_left.items()})
            d = self._range(False, {e: k // radix for e, k in high_right.items()})
            if c[0] is not None and d[1] is not None:
                first = max(first, c[0] - d[1])
            if c[1] is not None and d[0] is not None:
                last = min(last, c[1] - d[0])
            if first > last:
                self.impossible = True
                return []
            if first != last:
                return None
        high = Equation(
            {e: k // radix for e, k in high_left.items()},
            {e: k // radix for e, k in high_right.items()},
            -first,
        )
        constant = equation.constant + radix * first
        return [high, Equation(low_left, low_right, constant, equation.below, equation.above)]

    def _terminal(self, equation: Equation) -> bool:
        """An equality of one atom on each side relates them."""
        if len(equation.left) != 1 or len(equation.right) != 1:
            return False
        ((a, c),), ((b, d),) = equation.left.items(), equation.right.items()
        if c != d:
            return False
        self._relate(a, b, -equation.constant // c)
        return True

    def _relate(self, a: Expr, b: Expr, offset: int) -> None:
        known = self.related.setdefault((a, b), offset)
        if known != offset:
            self.impossible = True

    # --- what equal parts say about the whole ----------------------------------------------------------

    def _derive(self) -> list[Equation]:
        found: list[Equation] = []
        for (a, b), offset in list(self.related.items()):
            if offset or a.kind != b.kind:
                continue
            if a.kind in ("div", "tdiv"):
                found += self._from_quotients(a, b)
            if a.kind in ("mod", "trem"):
                found += self._from_remainders(a, b)
            if a.kind == "read" and b.kind == "read" and self._first_time("read", a, b):
                found += self._from_table(a, b)
            if a.kind in ("mod", "wrap") and (a, b) not in self._derived:
                found += self._unwrapped(a, b)
        return found

    def _from_quotients(self, a: Expr, b: Expr) -> list[Equation]:
        """Equal quotients beside equal remainders: equal dividends."""
        if ("whole", a, b) in self._derived or not self.equal(a.args[1], b.args[1]):
            return []
        remainder = mod_floor if a.kind == "div" else rem_trunc
        if not self.equal(remainder(*a.args), remainder(*b.args)):
            return []
        self._derived.add(("whole", a, b))
        return [equality(a.args[0], b.args[0])]

    def _from_remainders(self, a: Expr, b: Expr) -> list[Equation]:
        """An equality with quotients in it, beside equal remainders: one with the dividends in it."""
        quotient = {"mod": "div", "trem": "tdiv"}[a.kind]
        found: list[Equation] = []
        divisor = a.args[1].value
        if divisor is None or b.args[1].value != divisor:
            return found
        for equation in list(self.equalities):
            # Σ… + k·(x / n) on both sides: n times it, plus k·(x % n), has k·x in its place.
            for left_atom, k in equation.left.items():
                if left_atom.kind != quotient or left_atom.args != a.args:
                    continue
                if any(r.kind == quotient and r.args == b.args and n == k for r, n in equation.right.items()):
                    key = ("sum", a, b, tuple(equation.left.items()), tuple(equation.right.items()))
                    if self._first_time(*key):
                        found.append(with_remainders(equation, divisor, k, a, b))
        return found

    def _from_table(self, a: Expr, b: Expr) -> list[Equation]:
        """One value that stands in one place only: that place was read on both sides."""
        if not self.ranges.distinct(a, self.left_condition, b, self.right_condition):
            return []
        self.contents = True
        return [equality(a.args[0], b.args[0])]

    def _unwrapped(self, a: Expr, b: Expr) -> list[Equation]:
        """Numbers that agree modulo ``n`` and are less than ``n`` apart are equal."""
        modulus = 1 << a.payload if a.kind == "wrap" else a.args[1].value
        other = 1 << b.payload if b.kind == "wrap" else b.args[1].value
        if modulus is None or modulus != other:
            return []
        low, high = self._bound(True, a.args[0])
        other_low, other_high = self._bound(False, b.args[0])
        if low is None or high is None or other_low is None or other_high is None:
            return []
        if max(high - other_low, other_high - low) >= modulus or not self._first_time("near", a, b):
            return []
        return [equality(a.args[0], b.args[0])]

    def _first_time(self, *key: object) -> bool:
        if key in self._derived:
            return False
        self._derived.add(key)
        return True

    # --- ranges ------------------------------------------------------------------------------------

    def _range(self, is_left: bool, terms: Terms) -> tuple[int | None, int | None]:
        """Of a sum under its side's condition. The common factor goes first: masks speak of the plain sum."""
        if not terms:
            return 0, 0
        content = gcd(*terms.values())
        if next(iter(terms.values())) < 0:
            content = -content
        low, high = self._bound(is_left, from_terms(0, {e: c // content for e, c in terms.items()}))
        bounds = (None if low is None else low * content), (None if high is None else high * content)
        return bounds if content > 0 else (bounds[1], bounds[0])

    def _bound(self, is_left: bool, e: Expr) -> tuple[int | None, int | None]:
        return self.ranges.of(e, self.left_condition if is_left else self.right_condition)

    def _pinned(self, is_left: bool, e: Expr) -> int | None:
        low, high = self._bound(is_left, e) if e.sort == "int" else (None, None)
        return low if low is not None and low == high else None
