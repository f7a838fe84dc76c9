"""What a conjunction says about integer nodes and linear forms.

``i + 32·k <= K − 1`` bounds the form ``i + 32·k`` wherever a multiple of it is a part of a linear sum, and
``R < M`` bounds the node R wherever it occurs.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from kerncap.sanitizer.symbolic.boolean import COMPARISONS, ge, le
from kerncap.sanitizer.symbolic.interval import intersect, is_empty
from kerncap.sanitizer.symbolic.node import ANYTHING, ZERO, Expr, Interval, const
from kerncap.sanitizer.symbolic.sums import from_terms, terms_of

_ROUNDS = 3  # of propagation


class FactStore:
    """Bounds of atoms and forms, and truths of booleans. Bounds only ever get narrower."""

    def __init__(self) -> None:
        self.bounds: dict[Expr, Interval] = {}  # of atoms and of forms (see `boolean.compare`)
        self.truths: dict[Expr, bool] = {}
        self.forms: dict[Expr, tuple[tuple[Expr, int], ...]] = {}  # with two atoms or more
        self.contradiction = False

    def copy(self) -> FactStore:
        other = FactStore()
        other.bounds = dict(self.bounds)
        other.truths = dict(self.truths)
        other.forms = dict(self.forms)
        other.contradiction = self.contradiction
        return other

    def get(self, node: Expr) -> Interval | None:
        if node.sort == "bool":
            truth = self.truths.get(node)
            return None if truth is None else (int(truth), int(truth))
        if node.kind == "sum":
            return self.bound(*terms_of(node)) if self.bounds else None
        return self.bounds.get(node)

    def atom(self, atom: Expr) -> Interval:
        known = self.bounds.get(atom)
        return (atom.low, atom.high) if known is None else known

    def narrow(self, form: Expr, bounds: Interval) -> bool:
        """Takes note of bounds of a form or atom; True if that is news."""
        old = self.bounds.get(form)
        if old is None:
            old = (form.low, form.high)
            if form.kind == "sum" and form not in self.forms:
                self.forms[form] = terms_of(form)[1]
        new = intersect(old, bounds)
        if new == old:
            return False
        self.bounds[form] = new
        if is_empty(new):
            self.contradiction = True
        return True

    def add(self, literals: Iterable[Expr]) -> bool:
        """Takes note of conjuncts; True if one was news."""
        news = False
        literals = list(literals)
        for literal in literals:
            kind = literal.kind
            if kind in COMPARISONS:
                if kind != "ne":
                    number = literal.payload
                    low = number if kind != "le" else None
                    high = number if kind != "ge" else None
                    news |= self._narrow_deeply(literal.args[0], (low, high))
            elif kind != "or":
                node, truth = (literal.args[0], False) if kind == "not" else (literal, True)
                old = self.truths.get(node)
                self.truths[node] = truth
                news |= old is None
                self.contradiction |= old is not None and old != truth
        for literal in literals:
            if literal.kind == "ne":
                news |= self._hole(literal.args[0], literal.payload)
        return news

    def _hole(self, form: Expr, number: int) -> bool:
        """``form != number`` is a bound where the number is at the edge of what is known."""
        low, high = self.atom(form)
        if low == number:
            return self._narrow_deeply(form, (number + 1, None))
        if high == number:
            return self._narrow_deeply(form, (None, number - 1))
        return False

    def _narrow_deeply(self, form: Expr, bounds: Interval) -> bool:
        """Every operand of a minimum is at least as large as it, of a maximum at most."""
        news = self.narrow(form, bounds)
        pending = [(form, bounds)]
        while pending:
            node, (low, high) = pending.pop()
            if node.kind not in ("min", "max"):
                continue
            passed: Interval = (low, None) if node.kind == "min" else (None, high)
            if passed == (None, None):
                continue
            for arg in node.args:
                constant, items = terms_of(arg)
                if len(items) == 1 and items[0][1] == 1:
                    inner = items[0][0]
                    moved = tuple(None if x is None else x - constant for x in passed)
                    news |= self.narrow(inner, moved)  # type: ignore[arg-type]
                    pending.append((inner, moved))  # type: ignore[arg-type]
                elif items:
                    news |= self.narrow_sum(arg, passed)
        return news

    def narrow_sum(self, e: Expr, bounds: Interval) -> bool:
        news = False
        if bounds[0] is not None:
            news |= self._literal(ge(e, const(bounds[0])))
        if bounds[1] is not None:
            news |= self._literal(le(e, const(bounds[1])))
        return news

    def _literal(self, literal: Expr) -> bool:
        if literal.kind == "boolean":
            self.contradiction |= not literal.payload
            return False
        if literal.kind not in ("le", "ge", "eq"):
            return False
        low = literal.payload if literal.kind != "le" else None
        high = literal.payload if literal.kind != "ge" else None
        return self.narrow(literal.args[0], (low, high))

    def bound(
        self, constant: int, items: tuple[tuple[Expr, int], ...], without: Expr | None = None
    ) -> Interval:
        """Bounds of a sum: from its atoms, and from known forms whose multiples it is made of."""
        plain = interval_of_bounded(constant, [(k, self.atom(a)) for a, k in items])
        if not self.forms or len(items) < 2:
            return plain
        rest = dict(items)
        parts: list[tuple[int, Interval]] = []
        for form, terms in self.forms.items():
            if form is without:
                continue
            ratio = _ratio(rest, terms)
            if ratio:
                own = interval_of_bounded(0, [(k, self.atom(a)) for a, k in terms])
                parts.append((ratio, intersect(self.bounds.get(form, (form.low, form.high)), own)))
                for atom, _ in terms:
                    del rest[atom]
                if len(rest) < 2:
                    break
        if not parts:
            return plain
        parts.extend((k, self.atom(a)) for a, k in rest.items())
        return intersect(plain, interval_of_bounded(constant, parts))

    def propagate(self) -> None:
        """Narrows the atoms of known forms by the bounds of the form and of its other atoms."""
        for _ in range(_ROUNDS):
            news = False
            for form, terms in list(self.forms.items()):
                low, high = self.bounds.get(form, (form.low, form.high))
                news |= self._propagate_form(low, high, terms)
                if self.contradiction:
                    return
            if not news:
                return

    def _propagate_form(self, low: int | None, high: int | None, terms: tuple[tuple[Expr, int], ...]) -> bool:
        news = False
        spread = _Spread([_scaled(k, self.atom(atom)) for atom, k in terms])
        for index, (atom, k) in enumerate(terms):
            rest_low, rest_high = spread.without(index)
            # low − rest_high <= k·atom <= high − rest_low
            below = None if low is None or rest_high is None else low - rest_high
            above = None if high is None or rest_low is None else high - rest_low
            if k < 0:
                below, above = above, below
            new_low = None if below is None else _ceil_div(below, k)
            new_high = None if above is None else above // k
            if (new_low is not None or new_high is not None) and self.narrow(atom, (new_low, new_high)):
                news = True
                spread.change(index, _scaled(k, self.atom(atom)))
        return news

    def decompose(self) -> bool:
        """Takes sums apart by their strides, as digits of a number; True if that is news.

        ``low <= g·Q + rest <= high`` bounds the form Q where the coefficients of the leading terms share a
        factor g. With a rest that is smaller than g, Q is one number, and its digits come next.
        """
        news = False
        pending = list(self.forms)
        looked_at = set()
        while pending and not self.contradiction:
            form = pending.pop()
            if form in looked_at:
                continue
            looked_at.add(form)
            low, high = self.bounds.get(form, (form.low, form.high))
            ordered = sorted(self.forms[form], key=lambda term: -abs(term[1]))
            g = 0
            for count in range(1, len(ordered)):
                g = gcd(g, ordered[count - 1][1])
                if g == 1:
                    break
                if count < 2 or ordered[count][1] % g == 0:
                    continue
                rest = self.bound(0, tuple(ordered[count:]))
                below = None if low is None or rest[1] is None else _ceil_div(low - rest[1], g)
                above = None if high is None or rest[0] is None else (high - rest[0]) // g
                news |= self._digits([(a, k // g) for a, k in ordered[:count]], (below, above), pending)
                digits = self.bound(0, tuple((a, k // g) for a, k in ordered[:count]))
                low_rest = None if low is None or digits[1] is None else low - g * digits[1]
                high_rest = None if high is None or digits[0] is None else high - g * digits[0]
                news |= self._digits(ordered[count:], (low_rest, high_rest), pending)
        return news

    def _digits(self, terms: list[tuple[Expr, int]], bounds: Interval, pending: list[Expr]) -> bool:
        """Takes note of bounds of a part of a form, which is then a form itself."""
        if bounds == ANYTHING:
            return False
        old = self.bound(0, tuple(terms))
        if intersect(old, bounds) == old:
            return False
        digits = from_terms(0, dict(terms))
        news = self.narrow_sum(digits, bounds)
        form = le(digits, ZERO)
        if form.args and form.args[0] in self.forms:
            pending.append(form.args[0])
        return news

    def refuted_form(self) -> bool:
        """Whether the bounds of a form exclude what its parts allow."""
        for form, terms in self.forms.items():
            if is_empty(intersect(self.bounds.get(form, (form.low, form.high)), self.bound(0, terms, form))):
                return True
        return False


class _Spread:
    """The bounds of a sum's terms, and those of the sum without any one of them."""

    def __init__(self, terms: list[Interval]) -> None:
        self._terms = terms
        self._low = self._high = 0  # of the terms that have a bound on that side
        self._no_low = self._no_high = 0  # how many have none
        for term in terms:
            self._count(term, 1)

    def _count(self, term: Interval, times: int) -> None:
        low, high = term
        if low is None:
            self._no_low += times
        else:
            self._low += times * low
        if high is None:
            self._no_high += times
        else:
            self._high += times * high

    def without(self, index: int) -> Interval:
        low, high = self._terms[index]
        rest_low: int | None
        rest_high: int | None
        if low is None:
            rest_low = None if self._no_low > 1 else self._low
        else:
            rest_low = None if self._no_low else self._low - low
        if high is None:
            rest_high = None if self._no_high > 1 else self._high
        else:
            rest_high = None if self._no_high else self._high - high
        return rest_low, rest_high

    def change(self, index: int, term: Interval) -> None:
        self._count(self._terms[index], -1)
        self._terms[index] = term
        self._count(term, 1)


def _scaled(k: int, bounds: Interval) -> Interval:
    a, b = bounds
    if k < 0:
        a, b = b, a
    return None if a is None else k * a, None if b is None else k * b


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _ratio(rest: dict[Expr, int], terms: tuple[tuple[Expr, int], ...]) -> int:
    """By what the form is a part of the rest; 0: it is none."""
    first = rest.get(terms[0][0])
    if first is None or first % terms[0][1]:
        return 0
    ratio = first // terms[0][1]
    for atom, k in terms:
        if rest.get(atom) != ratio * k:
            return 0
    return ratio


def interval_of_bounded(constant: int, parts: list[tuple[int, Interval]]) -> Interval:
    """Of ``constant + Σ k · x`` where each x has an interval."""
    low: int | None = constant
    high: int | None = constant
    for k, (a, b) in parts:
        if k < 0:
            a, b = b, a
        low = None if low is None or a is None else low + k * a
        high = None if high is None or b is None else high + k * b
    return low, high
