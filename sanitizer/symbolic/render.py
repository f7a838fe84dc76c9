"""Expressions as text, for messages and for debugging."""

from __future__ import annotations

from kerncap.sanitizer.symbolic.node import Expr, show_by
from kerncap.sanitizer.symbolic.traversal import postorder

_SIGNS = {"le": "<=", "ge": ">=", "eq": "==", "ne": "!=", "and": " and ", "or": " or ", "iff": " == "}
_INFIX = {"div": "//", "mod": "%", "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "ashr": ">>"}
_CALLS = {"min": "min", "max": "max", "tdiv": "div_trunc", "trem": "rem_trunc", "lshr": "shift_right_logical"}


def render(e: Expr, limit: int = 4000) -> str:
    """One line in Python's syntax; what would be longer than ``limit`` characters is cut."""
    done: dict[Expr, str] = {}
    for node in postorder((e,), done):
        text = _render(node, [done[a] for a in node.args])
        # A shared node is written as often as it is used: without a limit the text may be exponential.
        done[node] = text if len(text) <= limit else text[: limit // 2] + " … " + text[-limit // 4 :]
    return done[e]


def _render(e: Expr, args: list[str]) -> str:
    kind = e.kind
    if kind in ("const", "boolean"):
        return str(e.payload)
    if kind == "var":
        return str(e.payload.name)
    if kind == "sum":
        return _sum(e, args)
    wrapped = [_parenthesised(a, t) for a, t in zip(e.args, args, strict=True)]
    if kind == "mul":
        return "*".join(wrapped)
    if kind in ("le", "ge", "eq", "ne"):
        return f"{args[0]} {_SIGNS[kind]} {e.payload}"
    if kind in ("and", "or", "iff"):
        return _SIGNS[kind].join(wrapped)
    if kind == "not":
        return f"not {wrapped[0]}"
    if kind in _INFIX:
        return f"{wrapped[0]} {_INFIX[kind]} {wrapped[1]}"
    if kind in _CALLS:
        return f"{_CALLS[kind]}({', '.join(args)})"
    if kind == "wrap":
        return f"int{e.payload}({args[0]})"
    if kind == "ite":
        return f"({args[1]} if {args[0]} else {args[2]})"
    if kind == "read":
        return f"memory{e.payload.storage}[{args[0]}]"
    reason = e.payload[0]
    return f"unknown({', '.join([repr(reason), *args])})"


def _sum(e: Expr, args: list[str]) -> str:
    constant, coefficients = e.payload
    parts: list[str] = []
    for atom, coefficient, text in zip(e.args, coefficients, args, strict=True):
        sign = "-" if coefficient < 0 else "+"
        factor = "" if abs(coefficient) == 1 else f"{abs(coefficient)}*"
        body = factor + (_parenthesised(atom, text) if factor or atom.kind not in ("mul", "div") else text)
        parts.append(f"{sign} {body}" if parts else (f"-{body}" if sign == "-" else body))
    if constant:
        parts.append(f"{'-' if constant < 0 else '+'} {abs(constant)}")
    return " ".join(parts)


def _parenthesised(e: Expr, text: str) -> str:
    simple = e.kind in ("const", "boolean", "var", "wrap", "read", "unknown", "ite", *_CALLS)
    return text if simple else f"({text})"


show_by(render)
