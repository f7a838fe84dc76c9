"""Evaluates a parsed `--where` expression against one launch; never Python's eval."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, Mapping

_COMPARE: Dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "in": lambda a, b: a in b,
}  # fmt: skip
_ARITHMETIC: Dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
_PLAIN = (bool, int, float, str, tuple, type(None))


class Unanswerable(Exception):
    """The expression has no answer for this launch: a name that it lacks, a value that can't be compared."""


def holds(expression: Any, names: Mapping[str, Any]) -> bool:
    """Whether a launch with these values is chosen. Raises Unanswerable with the reason to count."""
    try:
        return bool(_evaluate(expression, names))
    except Unanswerable:
        raise
    except Exception as error:
        raise Unanswerable(f"{type(error).__name__}: {error}") from None


def _evaluate(node: Any, names: Mapping[str, Any]) -> Any:
    kind = node[0]
    if kind == "and":
        return _evaluate(node[1], names) and _evaluate(node[2], names)
    if kind == "or":
        return _evaluate(node[1], names) or _evaluate(node[2], names)
    if kind == "not":
        return not _evaluate(node[1], names)
    if kind == "const":
        return tuple(node[1]) if isinstance(node[1], list) else node[1]
    if kind in ("name", "attr", "item"):
        return _plain(_refer(node, names))
    apply = _COMPARE.get(kind) or _ARITHMETIC.get(kind)
    if apply is None:
        raise Unanswerable(f"unknown operation {kind}")
    left, right = _evaluate(node[1], names), _evaluate(node[2], names)
    if kind in ("*", "//", "%") and not (_is_number(left) and _is_number(right)):
        raise Unanswerable(f"{kind} needs numbers")  # also keeps "x" * 10**9 out
    return apply(left, right)


def _refer(node: Any, names: Mapping[str, Any]) -> Any:
    kind = node[0]
    if kind == "name":
        if node[1] not in names:
            raise Unanswerable(f"no name {node[1]}")
        return names[node[1]]
    if kind == "attr":
        return _attribute(_refer(node[1], names), node[2])
    if kind == "item":
        index = _evaluate(node[2], names) if isinstance(node[2], list) else node[2]
        return _plain(_refer(node[1], names))[index]
    return _evaluate(node, names)


def _attribute(value: Any, name: str) -> Any:
    if name == "shape":
        return tuple(int(extent) for extent in value.shape)
    if name == "dtype":
        return str(value.dtype).replace("torch.", "", 1)
    if name == "device":
        return str(value.device)
    if name == "ndim":
        return len(value.shape)
    if name == "numel":
        total = 1
        for extent in value.shape:
            total *= int(extent)
        return total
    if name == "stride":
        stride = value.stride if hasattr(value, "stride") else value.strides
        return tuple(int(step) for step in (stride() if callable(stride) else stride))
    raise Unanswerable(f"no attribute {name}")


def _plain(value: Any) -> Any:
    if type(value).__name__ == "constexpr":
        value = value.value
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list):
        return tuple(value)
    if type(value).__name__ == "dtype":
        return str(value).replace("torch.", "", 1)
    raise Unanswerable(f"a {type(value).__name__} can't be compared")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))
