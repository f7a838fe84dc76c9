"""Symbolic expressions: every constructor, and what goes through whole expressions.

The one module that the rest of the sanitizer imports expressions from. Integers are mathematical;
TTIR's iN values are their signed values, and wrap-around is a node of its own (`wrap`). An i1 is a
boolean. Whatever goes through an expression does it without recursion and once per node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from kerncap.sanitizer.symbolic.bits import (
    bit_and,
    bit_or,
    bit_xor,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
)
from kerncap.sanitizer.symbolic.boolean import compare, eq, ge, gt, ite, land, le, lnot, lor, lt, ne
from kerncap.sanitizer.symbolic.congruence import congruence
from kerncap.sanitizer.symbolic.division import (
    div_floor,
    div_trunc,
    mod_floor,
    rem_trunc,
    signed_range,
    unsigned,
    wrap,
)
from kerncap.sanitizer.symbolic.evaluate import ReadSource, Unevaluable, evaluate
from kerncap.sanitizer.symbolic.interval import interval
from kerncap.sanitizer.symbolic.linear import Linear, linear
from kerncap.sanitizer.symbolic.node import (
    FALSE,
    TRUE,
    Buffer,
    Expr,
    Variable,
    boolean,
    compute_by,
    const,
    forgetting,
    make,
    read,
    unknown,
    var,
)
from kerncap.sanitizer.symbolic.render import render
from kerncap.sanitizer.symbolic.sums import add, from_terms, maximum, minimum, mul, neg, sub
from kerncap.sanitizer.symbolic.traversal import nodes_of, postorder

__all__ = [
    "FALSE",
    "TRUE",
    "Buffer",
    "Expr",
    "Linear",
    "ReadSource",
    "Unevaluable",
    "Variable",
    "add",
    "bit_and",
    "bit_or",
    "bit_xor",
    "boolean",
    "compare",
    "congruence",
    "conjuncts",
    "const",
    "disjuncts",
    "div_floor",
    "div_trunc",
    "eq",
    "evaluate",
    "forgetting",
    "ge",
    "gt",
    "interval",
    "ite",
    "land",
    "le",
    "leaves",
    "linear",
    "lnot",
    "lor",
    "lt",
    "maximum",
    "minimum",
    "mod_floor",
    "mul",
    "ne",
    "neg",
    "nodes_of",
    "postorder",
    "read",
    "rebuild",
    "rem_trunc",
    "render",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sub",
    "substitute",
    "transform",
    "unknown",
    "unsigned",
    "var",
    "wrap",
    "wraps_of",
]


compute_by({
    "+": add, "-": sub, "*": mul, "//": div_floor, "%": mod_floor, "negative": neg,
    "<": lt, "<=": le, ">": gt, ">=": ge, "&": land, "|": lor, "~": lnot,
})  # fmt: skip


def conjuncts(c: Expr) -> tuple[Expr, ...]:
    """The parts of a conjunction; the condition itself if it is not one; () for TRUE."""
    if c is TRUE:
        return ()
    return c.args if c.kind == "and" else (c,)


def disjuncts(c: Expr) -> tuple[Expr, ...]:
    """The parts of a disjunction; the condition itself if it is not one; () for FALSE."""
    if c is FALSE:
        return ()
    return c.args if c.kind == "or" else (c,)


def rebuild(e: Expr, args: tuple[Expr, ...]) -> Expr:
    """The node with other arguments, simplified again."""
    kind, payload = e.kind, e.payload
    if not args:
        return e
    if kind == "sum":
        constant, coefficients = payload
        terms: dict[Expr, int] = {}
        for arg, coefficient in zip(args, coefficients, strict=True):
            constant += _add_scaled(terms, arg, coefficient)
        return from_terms(constant, terms)
    if kind in ("le", "ge", "eq", "ne"):
        return compare(kind, args[0], payload)
    if kind in _NARY:
        return _NARY[kind](*args)
    if kind in ("mul", "min", "max"):
        operation = _BINARY[kind]
        result = args[0]
        for arg in args[1:]:
            result = operation(result, arg)
        return result
    if kind == "mod" and e.payload is not None:
        result = unsigned(args[0], e.payload)
        if result.kind == "mod" and result.payload is None:
            # Still the place of a wrap that `unsigned` made superfluous.
            result = make("mod", result.args, payload, "int", (result.low, result.high), congruence(result))
        return result
    if kind in _BINARY:
        return _BINARY[kind](args[0], args[1])
    if kind in _SIZED:
        return _SIZED[kind](args[0], args[1], payload)
    if kind == "wrap":
        return wrap(args[0], payload)
    if kind == "read":
        return read(payload, args[0])
    if kind == "unknown":
        reason, key, low, high, sort = payload
        return unknown(reason, key, args, low, high, sort)
    raise AssertionError(f"no node of kind {kind!r} has arguments")


def _add_scaled(terms: dict[Expr, int], e: Expr, factor: int) -> int:
    from kerncap.sanitizer.symbolic.sums import add_scaled

    return add_scaled(terms, e, factor)


_NARY: dict[str, Callable[..., Expr]] = {"and": land, "or": lor, "not": lnot, "iff": eq, "ite": ite}
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "mul": mul,
    "min": minimum,
    "max": maximum,
    "div": div_floor,
    "mod": mod_floor,
    "tdiv": div_trunc,
    "trem": rem_trunc,
}
_SIZED: dict[str, Callable[[Expr, Expr, int], Expr]] = {
    "bitand": bit_and,
    "bitor": bit_or,
    "bitxor": bit_xor,
    "shl": shift_left,
    "lshr": shift_right_logical,
    "ashr": shift_right_arithmetic,
}


def transform(e: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuilds from the leaves up; ``replace`` may give a substitute for a rebuilt node (None: keep it)."""
    done: dict[Expr, Expr] = {}
    for node in postorder((e,), done):
        args = tuple(done[a] for a in node.args)
        # Identity, arg by arg: tuples of expressions compare so.
        new = node if args == node.args else rebuild(node, args)
        replaced = replace(new)
        done[node] = new if replaced is None else replaced
    return done[e]


def substitute(e: Expr, replacements: Mapping[Variable, Expr]) -> Expr:
    """The expression with variables replaced, simplified again; also in offsets of reads and under unknowns.

    A replacement stays within the range of its variable: simplifications have relied on that.
    """
    if e.variables.isdisjoint(replacements):
        return e
    done: dict[Expr, Expr] = {}
    for node in postorder((e,), done, skip=lambda n: n.variables.isdisjoint(replacements)):
        if node.kind == "var":
            done[node] = replacements.get(node.payload, node)
        else:
            done[node] = rebuild(node, tuple(done.get(a, a) for a in node.args))
    return done[e]


def wraps_of(e: Expr | Iterable[Expr]) -> list[Expr]:
    """Every wrap and shift, also inside offsets of reads, whose operand may leave its range.

    Also `unsigned` of a wrapped value, for which both readings of the pattern are in range.
    """
    roots = (e,) if isinstance(e, Expr) else tuple(e)
    return [
        n for n in nodes_of(roots) if n.kind in ("wrap", "shl") or (n.kind == "mod" and n.payload is not None)
    ]


def leaves(node: Expr) -> Expr:
    """Of a node of `wraps_of`: the condition that the wrap changes its operand."""
    if node.kind == "wrap":
        low, high = signed_range(node.payload)
        operand = node.args[0]
    elif node.kind == "mod":
        low, high = signed_range(node.payload)[0], (1 << node.payload) - 1
        operand = node.args[0]
    else:
        value, amount = node.args
        low, high = signed_range(node.payload)
        if amount.low is None or amount.high is None or amount.low < 0 or amount.high >= node.payload:
            return ne(node, unknown("shift by no less than the width", "shift", node.args))
        # value · 2**amount leaves the range for some amount from which on it stays outside.
        return lor(
            *(
                eq(amount, k) & ((value < -(-low >> k)) | (value > high >> k))
                for k in range(amount.low, amount.high + 1)
            )
        )
    return (operand < low) | (operand > high)


def walk(e: Expr) -> Iterator[Expr]:
    """Every node once, arguments first."""
    yield from nodes_of((e,))
