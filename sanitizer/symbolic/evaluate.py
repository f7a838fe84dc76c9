"""Values of expressions at given points, many at a time.

64-bit integers as long as no intermediate result can leave them; where one could, Python's integers in
object arrays. A point at which the value is not known (an unknown, memory that is unavailable, a
division by zero) is marked and not computed with: a mark reaches the result only where the result
depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.symbolic.division import fits, signed_range
from kerncap.sanitizer.symbolic.node import Buffer, Expr, Interval, Variable
from kerncap.sanitizer.symbolic.traversal import nodes_of

Array = npt.NDArray[Any]
Point = Mapping[Variable, int | Array]

WORD = signed_range(64)


class ReadSource(Protocol):
    """What memory held before the launch."""

    def values(self, buffer: Buffer, offsets: npt.NDArray[np.int64]) -> Array | None:
        """The elements at byte offsets from the start of the storage, in their shape; outside: clipped."""

    def bounds(self, buffer: Buffer, offsets: Interval = (None, None)) -> tuple[int, int] | None:
        """The smallest and the largest element of the storage, or of what begins at these offsets at least.

        None where contents are not available, and of too many elements.
        """


class Unevaluable(Exception):
    """The value depends on something that is not known; the message says on what."""


@dataclass(frozen=True)
class Evaluated:
    """``known`` is None if all of ``value`` is known, else a mask that broadcasts to it."""

    value: Array
    known: Array | None
    reason: str


def evaluate(exprs: Sequence[Expr], point: Point, memory: ReadSource | None = None) -> list[Array]:
    """The values of expressions where the variables have the given values, which broadcast together.

    Integers come as int64, or as object where 64 bits do not do; booleans as bool. Each array has the
    shape that its own variables give it. Raises Unevaluable where a value is not known, and KeyError for
    a variable that has none.
    """
    results = evaluate_partially(exprs, point, memory)
    for result in results:
        if result.known is not None and not np.all(result.known):
            raise Unevaluable(result.reason)
    return [r.value for r in results]


def evaluate_partially(
    exprs: Sequence[Expr], point: Point, memory: ReadSource | None = None
) -> list[Evaluated]:
    """As `evaluate`, with a mask of the points where the value is known instead of the exception."""
    order = nodes_of(exprs)
    uses: dict[Expr, int] = {}
    for node in order:
        for arg in node.args:
            uses[arg] = uses.get(arg, 0) + 1
    for root in exprs:
        uses[root] = uses.get(root, 0) + 1
    state = _Evaluation(point, memory)
    for node in order:
        state.compute(node)
        for arg in node.args:
            uses[arg] -= 1
            if not uses[arg]:
                del state.results[arg]
    return [state.results[e] for e in exprs]


class _Evaluation:
    def __init__(self, point: Point, memory: ReadSource | None) -> None:
        self.point = point
        self.memory = memory
        self.results: dict[Expr, Evaluated] = {}
        self.ranges: dict[Expr, tuple[int, int]] = {}

    def compute(self, node: Expr) -> None:
        args = [self.results[a] for a in node.args]
        known: Array | None = None
        reason = ""
        if node.kind not in ("and", "or", "ite"):
            for a in args:
                known = _both(known, a.known)
                reason = reason or a.reason
        if node.kind in ("and", "or"):
            result = _connect(node, args)
        elif node.kind == "ite":
            result = self._choose(node, args)
        elif node.kind == "unknown":
            value = np.zeros((), np.bool_ if node.sort == "bool" else np.int64)
            result = Evaluated(value, np.zeros((), np.bool_), node.payload[0])
        elif node.kind == "read":
            result = self._read(node, args[0])
        elif node.kind in _DIVISIONS:
            result = self._divide(node, args, known, reason)
        elif node.kind in ("shl", "lshr", "ashr"):
            result = self._shift(node, args, known, reason)
        elif node.sort == "bool":
            result = Evaluated(_truth(node, [a.value for a in args]), known, reason)
        else:
            result = Evaluated(self._integer(node, [a.value for a in args]), known, reason)
        if node.sort == "int" and node not in self.ranges:
            # Where the range of the node itself says less than its values do: those.
            self.ranges[node] = self._range(node, result.value)
        self.results[node] = result

    def _range(self, node: Expr, value: Array) -> tuple[int, int]:
        if node.low is not None and node.high is not None and node.kind != "var":
            low, high = node.low, node.high
            if value.dtype != object or fits((low, high), WORD):
                return low, high
        if value.size == 0:
            return 0, 0
        return int(value.min()), int(value.max())

    def _operands(self, node: Expr, values: list[Array], results: list[tuple[int, int]]) -> list[Array]:
        """The operands as int64 if they and the given ranges of results fit, else as objects."""
        ranges = results + [self.ranges[a] for a in node.args if a.sort == "int"]
        if all(fits(r, WORD) for r in ranges):
            return [_to_words(v) for v in values]
        return [_to_objects(v) for v in values]

    def _integer(self, node: Expr, values: list[Array]) -> Array:
        kind = node.kind
        if kind == "const":
            return np.array(node.payload, np.int64 if fits((node.low, node.high), WORD) else object)
        if kind == "var":
            value = _array(self.point[node.payload])
            if value.dtype == object:
                return value
            return value.astype(np.int64) if value.dtype != np.uint64 else _to_words(value)
        if kind == "sum":
            return self._sum(node, values)
        if kind == "mul":
            return self._product(node, values)
        if kind in ("min", "max"):
            values = self._operands(node, values, [])
            extreme = np.minimum if kind == "min" else np.maximum
            result = values[0]
            for value in values[1:]:
                result = _array(extreme(result, value))
            return result
        if kind == "wrap":
            return _wrap(self._operands(node, values, [])[0], node.payload)
        a, b = self._operands(node, values, [])
        operation: Callable[[Array, Array], Array] = _BITWISE[kind]
        return _array(operation(a, b))

    def _sum(self, node: Expr, values: list[Array]) -> Array:
        constant, coefficients = node.payload
        ranges = [(constant, constant)]
        low = high = constant
        for arg, c in zip(node.args, coefficients, strict=True):
            a, b = self.ranges[arg]
            scaled = (c * a, c * b) if c > 0 else (c * b, c * a)
            low, high = low + min(0, scaled[0]), high + max(0, scaled[1])
            ranges.extend((scaled, (c, c), (low, high)))
        values = self._operands(node, values, ranges)
        total: Array = _array(values[0] * coefficients[0])
        for value, c in zip(values[1:], coefficients[1:], strict=True):
            # A product alone may be a Python integer, which an array of 64-bit numbers does not take.
            total = _array(total + _array(value * c))
        return _array(total + _array(constant)) if constant else total

    def _product(self, node: Expr, values: list[Array]) -> Array:
        size = 1
        for arg in node.args:
            a, b = self.ranges[arg]
            size *= max(abs(a), abs(b), 1)
        values = self._operands(node, values, [(-size, size)])
        result = values[0]
        for value in values[1:]:
            result = _array(result * value)
        return result

    def _choose(self, node: Expr, args: list[Evaluated]) -> Evaluated:
        condition, a, b = args
        first, second = self._operands(node, [a.value, b.value], [])
        value = _array(np.where(condition.value, first, second))
        known = condition.known
        if a.known is not None or b.known is not None:
            yes = np.True_ if a.known is None else a.known
            no = np.True_ if b.known is None else b.known
            known = _both(known, _array(np.where(condition.value, yes, no)))
        return Evaluated(value, known, condition.reason or a.reason or b.reason)

    def _read(self, node: Expr, offset: Evaluated) -> Evaluated:
        offsets = offset.value
        if offsets.dtype == object:
            offsets = np.clip(offsets, *WORD).astype(np.int64)
        values = None
        # Nothing is known of the offset: nothing to look up.
        if self.memory is not None and (offset.known is None or np.any(offset.known)):
            values = self.memory.values(node.payload, offsets)
        if values is None:
            missing = np.zeros(np.shape(offsets), np.bool_)
            zeros = np.zeros(np.shape(offsets), np.bool_ if node.sort == "bool" else np.int64)
            reason = offset.reason or f"contents of storage {node.payload.storage} are not available"
            return Evaluated(zeros, missing, reason)
        values = _array(values)
        value = values.astype(np.bool_) if node.sort == "bool" else _to_words(values)
        return Evaluated(value, offset.known, offset.reason)

    def _divide(self, node: Expr, args: list[Evaluated], known: Array | None, reason: str) -> Evaluated:
        extent = max(abs(x) for x in self.ranges[node.args[0]])  # -2**63 // -1
        a, b = self._operands(node, [x.value for x in args], [(-extent, extent)])
        zero = _array(b == 0)
        if zero.any():
            known = _both(known, ~zero)
            reason = reason or "division by zero"
            b = _array(np.where(zero, 1, b))
        return Evaluated(_array(_DIVISIONS[node.kind](a, b)), known, reason)

    def _shift(self, node: Expr, args: list[Evaluated], known: Array | None, reason: str) -> Evaluated:
        bits: int = node.payload
        amount = args[1].value
        bad = _array((amount < 0) | (amount >= bits))
        if bad.any():
            known = _both(known, ~bad)
            reason = reason or "shift by no less than the width"
            amount = np.where(bad, 0, amount)
        amount = amount.astype(np.int64)
        value = _to_words(args[0].value) if fits(self.ranges[node.args[0]], WORD) else args[0].value
        if node.kind == "ashr":
            return Evaluated(_array(value >> amount), known, reason)
        if node.kind == "lshr":
            pattern = _array(_to_objects(value) % (1 << bits) if bits > 62 else value % (1 << bits))
            return Evaluated(_wrap(_array(pattern >> _like(pattern, amount)), bits), known, reason)
        wide = _to_objects(value)
        return Evaluated(_wrap(_array(wide << _to_objects(amount)), bits), known, reason)


def _array(value: Any) -> Array:
    """As an array; a Python integer, which arrays of no dimension give, never as unsigned or float."""
    if isinstance(value, int) and not isinstance(value, bool):
        return np.array(value, np.int64 if WORD[0] <= value <= WORD[1] else object)
    return np.asarray(value)


def _like(pattern: Array, amount: Array) -> Array:
    return _to_objects(amount) if pattern.dtype == object else amount


def _to_words(value: Array) -> Array:
    if value.dtype == np.int64:
        return value
    if value.dtype == np.uint64:
        if value.size and int(value.max()) > WORD[1]:
            return _to_objects(value)
        return value.astype(np.int64)
    if value.dtype == object:
        return value.astype(np.int64)
    return value.astype(np.int64)


def _to_objects(value: Array) -> Array:
    if value.dtype == object:
        return value
    result = np.empty(value.shape, object)
    result[...] = value.tolist() if value.ndim else int(value)
    return result


def _both(a: Array | None, b: Array | None) -> Array | None:
    if a is None:
        return b
    return a if b is None else _array(a & b)


def _connect(node: Expr, args: list[Evaluated]) -> Evaluated:
    conjunction = node.kind == "and"
    value: Array = np.asarray(conjunction)
    possible: Array | None = None  # where an operand that is not known leaves the result open
    reason = ""
    for arg in args:
        decided = (
            arg.value
            if arg.known is None
            else (arg.value | ~arg.known if conjunction else arg.value & arg.known)
        )
        value = _array(value & decided) if conjunction else _array(value | decided)
        if arg.known is not None:
            possible = ~arg.known if possible is None else _array(possible | ~arg.known)
            reason = reason or arg.reason
    if possible is None:
        return Evaluated(value, None, "")
    # An operand that is known to be false decides a conjunction, one that is true a disjunction.
    known = ~(possible & value) if conjunction else ~(possible & ~value)
    return Evaluated(value, _array(known), reason)


def _truth(node: Expr, values: list[Array]) -> Array:
    kind = node.kind
    if kind == "boolean":
        return np.asarray(node.payload, np.bool_)
    if kind == "not":
        return _array(~values[0])
    if kind == "iff":
        return _array(values[0] == values[1])
    number = node.payload
    value = values[0]
    if value.dtype == np.int64 and not fits((number, number), WORD):
        value = _to_objects(value)
    return _array(_COMPARE[kind](value, number)).astype(np.bool_)


def _wrap(value: Array, bits: int) -> Array:
    if bits == 64 and value.dtype == np.int64:
        return value
    half = 1 << (bits - 1)
    if value.dtype == np.int64 and bits < 64:
        low = value & ((1 << bits) - 1) if bits < 63 else None
        if low is not None:
            return _array((low ^ half) - half)
        value = _to_objects(value)
    wrapped = _array((value + half) % (1 << bits) - half)
    return wrapped.astype(np.int64) if bits <= 64 else wrapped


def _truncated_quotient(a: Array, b: Array) -> Array:
    quotient = _array(abs(a) // abs(b))
    return _array(np.where((a < 0) == (b < 0), quotient, _array(-quotient)))


def _truncated_remainder(a: Array, b: Array) -> Array:
    rest = _array(abs(a) % abs(b))
    return _array(np.where(a < 0, _array(-rest), rest))


_DIVISIONS: dict[str, Callable[[Array, Array], Any]] = {
    "div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "tdiv": _truncated_quotient,
    "trem": _truncated_remainder,
}
_BITWISE: dict[str, Callable[[Array, Array], Any]] = {
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
}
_COMPARE: dict[str, Callable[[Array, int], Any]] = {
    "le": lambda a, n: a <= n,
    "ge": lambda a, n: a >= n,
    "eq": lambda a, n: a == n,
    "ne": lambda a, n: a != n,
}
