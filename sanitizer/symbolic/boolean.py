"""Comparisons, connectives and choices.

A comparison is one node ``form ⋈ number``: the form has no constant, its coefficients share no factor and
the first is positive. So ``a < b`` and ``b > a`` are one node, and whatever is known of a form is found
by the form.
"""

from __future__ import annotations

from math import gcd

from kerncap.sanitizer.symbolic.node import FALSE, TRUE, Congruence, Expr, Interval, boolean, const, make
from kerncap.sanitizer.symbolic.sums import from_terms, join_congruences, maximum, minimum, sub, terms_of

COMPARISONS = ("le", "ge", "eq", "ne")
_MIRRORED = {"le": "ge", "ge": "le"}
_OPPOSITE = {"eq": "ne", "ne": "eq"}


def le(a: Expr, b: Expr) -> Expr:
    return _compare_difference("le", a, b, 0)


def lt(a: Expr, b: Expr) -> Expr:
    return _compare_difference("le", a, b, -1)


def ge(a: Expr, b: Expr) -> Expr:
    return _compare_difference("ge", a, b, 0)


def gt(a: Expr, b: Expr) -> Expr:
    return _compare_difference("ge", a, b, 1)


def eq(a: Expr, b: Expr | int) -> Expr:
    b = b if isinstance(b, Expr) else const(b)
    if a.sort == "bool":
        return _equal_booleans(a, b)
    return _compare_difference("eq", a, b, 0)


def ne(a: Expr, b: Expr | int) -> Expr:
    b = b if isinstance(b, Expr) else const(b)
    if a.sort == "bool":
        return lnot(_equal_booleans(a, b))
    return _compare_difference("ne", a, b, 0)


def _compare_difference(kind: str, a: Expr, b: Expr, number: int) -> Expr:
    """``a - b ⋈ number``; the difference itself need not become a node on the way."""
    if b.kind == "const":
        return compare(kind, a, number + b.payload)
    if a.kind == "const":
        return compare(_MIRRORED.get(kind, kind), b, a.payload - number)
    return compare(kind, sub(a, b), number)


def compare(kind: str, e: Expr, number: int) -> Expr:
    """``e ⋈ number`` in its canonical form; ``kind`` is one of COMPARISONS."""
    kind, form, number = _canonical(kind, e, number)
    known = decide(kind, (form.low, form.high), (form.modulus, form.remainder), number)
    if known is not None:
        return boolean(known)
    if kind in ("eq", "ne") and (number == form.low or number == form.high):
        # At the edge of the range an (in)equality is a bound, which is more of a fact.
        if kind == "ne":
            kind, number = ("ge", number + 1) if number == form.low else ("le", number - 1)
        elif number == form.low:
            kind = "le"
        else:
            kind = "ge"
    if form.kind == "ite":
        chosen = _compare_choice(kind, form, number)
        if chosen is not None:
            return chosen
    return make(kind, (form,), number, "bool")


def _canonical(kind: str, e: Expr, number: int) -> tuple[str, Expr, int]:
    constant, items = terms_of(e)
    if not items:
        return kind, e, number
    number -= constant
    if len(items) == 1 and items[0][1] == 1:
        return kind, items[0][0], number
    content = gcd(*[c for _, c in items])
    negative = items[0][1] < 0
    if negative:
        number = -number
        kind = _MIRRORED.get(kind, kind)
    if content > 1:
        if kind == "le":
            number //= content
        elif kind == "ge":
            number = -(-number // content)
        elif number % content:
            return kind, const(0), 1
        else:
            number //= content
    if negative:
        content = -content
    if constant or content != 1:
        e = from_terms(0, {a: c // content for a, c in items})
    return kind, e, number


def decide(kind: str, interval: Interval, congruence: Congruence, number: int) -> bool | None:
    """Whether ``form ⋈ number`` holds for every form of this interval and congruence; None: it depends."""
    low, high = interval
    if kind == "le":
        if high is not None and high <= number:
            return True
        return False if low is not None and low > number else None
    if kind == "ge":
        if low is not None and low >= number:
            return True
        return False if high is not None and high < number else None
    modulus, remainder = congruence
    outside = (low is not None and low > number) or (high is not None and high < number)
    if not outside:
        outside = number != remainder if modulus == 0 else (number - remainder) % modulus != 0
    if outside:
        return kind == "ne"
    if low is not None and low == high:
        return kind == "eq"
    return None


def _compare_choice(kind: str, choice: Expr, number: int) -> Expr | None:
    """``ite(c, a, b) ⋈ number`` where one of the two is decided."""
    condition, a, b = choice.args
    first, second = compare(kind, a, number), compare(kind, b, number)
    if first.kind == "boolean" or second.kind == "boolean":
        return choose(condition, first, second)
    return None


def _equal_booleans(a: Expr, b: Expr) -> Expr:
    if a is b:
        return TRUE
    for x, y in ((a, b), (b, a)):
        if x is TRUE:
            return y
        if x is FALSE:
            return lnot(y)
    if lnot(a) is b:
        return FALSE
    if a.kind == "not" and b.kind == "not":
        a, b = a.args[0], b.args[0]
    elif a.kind == "not":
        return lnot(_equal_booleans(a.args[0], b))
    elif b.kind == "not":
        return lnot(_equal_booleans(a, b.args[0]))
    if a.number > b.number:
        a, b = b, a
    return make("iff", (a, b), None, "bool")


def lnot(c: Expr) -> Expr:
    """The negation, pushed through conjunctions and disjunctions down to comparisons."""
    done: dict[Expr, Expr] = {}
    stack = [c]
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        if e.kind in ("and", "or"):
            missing = [a for a in e.args if a not in done]
            if missing:
                stack.extend(missing)
                continue
            parts = [done[a] for a in e.args]
            done[e] = lor(*parts) if e.kind == "and" else land(*parts)
        else:
            done[e] = _not_leaf(e)
        stack.pop()
    return done[c]


def _not_leaf(e: Expr) -> Expr:
    if e.kind == "boolean":
        return boolean(not e.payload)
    if e.kind == "le":
        return make("ge", e.args, e.payload + 1, "bool")
    if e.kind == "ge":
        return make("le", e.args, e.payload - 1, "bool")
    if e.kind in _OPPOSITE:
        return make(_OPPOSITE[e.kind], e.args, e.payload, "bool")
    if e.kind == "not":
        return e.args[0]
    return make("not", (e,), None, "bool")


def land(*cs: Expr) -> Expr:
    return _connect("and", cs)


def lor(*cs: Expr) -> Expr:
    return _connect("or", cs)


def _connect(kind: str, cs: tuple[Expr, ...]) -> Expr:
    """A flat conjunction or disjunction: no doubles, comparisons of one form merged, complements found."""
    neutral, absorbing = (TRUE, FALSE) if kind == "and" else (FALSE, TRUE)
    only: Expr | None = None
    for c in cs:
        if c is not neutral and c is not only:
            if only is not None:
                break
            only = c
    else:
        return neutral if only is None else only
    parts: dict[Expr, None] = {}
    for c in cs:
        if c is absorbing:
            return absorbing
        if c is neutral:
            continue
        for part in c.args if c.kind == kind else (c,):
            parts[part] = None
    while len(parts) > 1:
        if not _merge_comparisons(kind, parts):
            return absorbing
        if not _absorb("or" if kind == "and" else "and", parts):
            break
    for part in parts:
        if part is absorbing or (part.kind == "not" and part.args[0] in parts):
            return absorbing
    if not parts:
        return neutral
    if len(parts) == 1:
        return next(iter(parts))
    return make(kind, tuple(sorted(parts, key=lambda e: e.number)), None, "bool")


def _absorb(dual: str, parts: dict[Expr, None]) -> bool:
    """a ∧ (a ∨ b) is a, and a ∧ (¬a ∨ b) is a ∧ b; the same with the signs exchanged. True: look again."""
    again = False
    for part in [p for p in parts if p.kind == dual]:
        if any(x in parts for x in part.args):
            del parts[part]
            continue
        kept = [x for x in part.args if x.kind in ("and", "or") or _not_leaf(x) not in parts]
        if len(kept) != len(part.args):
            del parts[part]
            reduced = _connect(dual, tuple(kept))
            kind = "and" if dual == "or" else "or"
            if reduced.kind == "boolean" and reduced.payload == (kind == "and"):
                continue  # neutral
            for x in reduced.args if reduced.kind == kind else (reduced,):
                parts[x] = None
            again = True
    return again


def _merge_comparisons(kind: str, parts: dict[Expr, None]) -> bool:
    """Leaves one lower and one upper bound per form; False if two of them exclude (exhaust) each other."""
    forms: dict[Expr, list[Expr]] = {}
    for part in parts:
        if part.kind in COMPARISONS:
            form = part.args[0]
            if form in forms:
                forms[form].append(part)
            else:
                forms[form] = [part]
    for form, found in forms.items():
        if len(found) < 2:
            continue
        if kind == "or":  # by its negation, a conjunction
            merged = _merge_bounds(form, [_not_leaf(c) for c in found])
            if merged is not None:
                merged = [_not_leaf(c) for c in merged]
        else:
            merged = _merge_bounds(form, found)
        if merged is None:
            return False
        for c in found:
            parts.pop(c, None)
        for c in merged:
            parts[c] = None
    return True


def _merge_bounds(form: Expr, found: list[Expr]) -> list[Expr] | None:
    low, high = form.low, form.high
    holes = set()
    for c in found:
        number = c.payload
        if c.kind == "ne":
            holes.add(number)
            continue
        if c.kind in ("le", "eq") and (high is None or number < high):
            high = number
        if c.kind in ("ge", "eq") and (low is None or number > low):
            low = number
        if c.kind == "eq" and not (low == number and high == number):
            return None
    while low in holes:
        holes.discard(low)
        low = low + 1  # type: ignore[operator]
    while high in holes:
        holes.discard(high)
        high = high - 1  # type: ignore[operator]
    if low is not None and high is not None and low > high:
        return None
    result: list[Expr] = []
    if low is not None and low == high:
        single = compare("eq", form, low)
        return None if single is FALSE else [] if single is TRUE else [single]
    if low is not None and low != form.low:
        result.append(make("ge", (form,), low, "bool"))
    if high is not None and high != form.high:
        result.append(make("le", (form,), high, "bool"))
    for hole in holes:
        if (low is None or hole > low) and (high is None or hole < high):
            result.append(make("ne", (form,), hole, "bool"))
    return result


def ite(c: Expr, a: Expr, b: Expr) -> Expr:
    """``a`` where ``c`` holds, else ``b``; both of one sort."""
    if a.sort != b.sort:
        raise TypeError(f"ite of {a.sort} and {b.sort}")
    if c.kind == "boolean":
        return a if c.payload else b
    if a is b:
        return a
    if c.kind == "not":
        c, a, b = c.args[0], b, a
    if a.sort == "bool":
        return choose(c, a, b)
    if a.kind == "ite" and a.args[0] is c:
        a = a.args[1]
    if b.kind == "ite" and b.args[0] is c:
        b = b.args[2]
    if a is b:
        return a
    if c.kind in ("le", "ge"):
        extreme = _as_extreme(c, a, b)
        if extreme is not None:
            return extreme
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    high = None if a.high is None or b.high is None else max(a.high, b.high)
    congruence = join_congruences((a.modulus, a.remainder), (b.modulus, b.remainder))
    return make("ite", (c, a, b), None, "int", (low, high), congruence)


def _as_extreme(c: Expr, a: Expr, b: Expr) -> Expr | None:
    """``a if a <= b else b`` is a minimum, and so on, also where ``<`` stands for ``<=``."""
    for x, y, kind in ((a, b, minimum), (b, a, maximum)):
        # c says x <= y: the minimum where x is what is chosen, else the maximum.
        if c is le(x, y) or c is lt(x, y):
            return kind(a, b)
    return None


def choose(c: Expr, a: Expr, b: Expr) -> Expr:
    """The boolean ``a if c else b``."""
    return lor(land(c, a), land(lnot(c), b))
