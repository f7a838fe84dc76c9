"""Evaluates a parsed `--where` expression against one launch; never Python's eval."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, List, Mapping, Sequence

from .contract import word

_COMPARE: Dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, word.step.within: lambda a, b: a in b,
}  # fmt: skip
_ARITHMETIC: Dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
_PLAIN = (bool, int, float, str, tuple, type(None))


class Unanswerable(Exception):
    """The expression has no answer for this launch: a name that it lacks, a value that can't be compared."""


def holds(steps: List[List[Any]], names: Mapping[str, Any]) -> bool:
    """Whether a launch with these values is chosen. Raises Unanswerable with the reason to count."""
    stack: List[Any] = []  # values, and the Unanswerable in place of one that this launch does not have
    for step in steps:
        try:
            stack.append(_result(stack, step, names))
        except Unanswerable as error:
            stack.append(error)
        except Exception as error:
            stack.append(Unanswerable(f"{type(error).__name__}: {error}"))
    return bool(_plain(stack.pop()))


def _result(stack: List[Any], step: List[Any], names: Mapping[str, Any]) -> Any:
    """One step of the expression, which is in postfix order (docs/session.md). It takes its operands."""
    kind = step[0]
    if kind == word.step.constant:
        return step[1]
    if kind == word.step.name:
        if step[1] not in names:
            raise Unanswerable(f"no name {step[1]}")
        return names[step[1]]
    if kind == word.step.list:
        first = len(stack) - step[1]
        items = tuple(stack[first:])
        del stack[first:]
        return items
    last = stack.pop()
    if kind == word.step.attribute:
        return _attribute(_answered(last), step[1])
    if kind == word.step.item:
        return _plain(last)[step[1]]
    if kind == word.step.negated:
        return not _plain(last)
    left = _plain(stack.pop())
    if kind in (word.step.both, word.step.either):
        # As Python has it: the second side counts only if the first leaves it open.
        return last if bool(left) is (kind == word.step.both) else left
    return _combined(kind, left, _plain(last))


def _combined(kind: str, left: Any, right: Any) -> Any:
    apply = _COMPARE.get(kind) or _ARITHMETIC.get(kind)
    if apply is None:
        raise Unanswerable(f"unknown operation {kind}")
    if kind in ("*", "//", "%") and not (_is_number(left) and _is_number(right)):
        raise Unanswerable(f"{kind} needs numbers")  # also keeps "x" * 10**9 out
    return apply(left, right)


def _answered(value: Any) -> Any:
    if isinstance(value, Unanswerable):
        raise value
    return value


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
        stride: Callable[[], Sequence[int]] | Sequence[int]
        stride = value.stride if hasattr(value, "stride") else value.strides
        return tuple(int(step) for step in (stride() if callable(stride) else stride))
    raise Unanswerable(f"no attribute {name}")


def _plain(value: Any) -> Any:
    """An operand. Raises Unanswerable for a value that only has attributes."""
    _answered(value)
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
