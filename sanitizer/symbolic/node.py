"""The nodes of symbolic expressions: immutable, hash-consed, with their ranges kept beside them.

Two sorts: mathematical integers and booleans. A node is made once per (kind, payload, arguments), so
that ``is`` is equality and every algorithm can remember its results by node. The table holds nodes
weakly: a long run keeps only what somebody still uses.

Every integer node carries an interval and a congruence that hold wherever its variables are in
their ranges. They are computed when it is made, from those of its arguments: no later traversal is
needed, however deep an expression is.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

Sort = Literal["int", "bool"]
Bound = int | None  # None: no bound on this side
Interval = tuple[Bound, Bound]
Congruence = tuple[int, int]  # (modulus, remainder); modulus 1: any integer; modulus 0: exactly the remainder

ANYTHING: Interval = (None, None)
ANY_INTEGER: Congruence = (1, 0)


@dataclass(frozen=True, eq=False)
class Variable:
    """A symbol with inclusive constant bounds. Two variables are equal only if they are the same object."""

    name: str
    kind: Literal["program", "lane", "loop", "free"]
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"variable {self.name}: empty range [{self.low}, {self.high}]")

    @property
    def points(self) -> int:
        return self.high - self.low + 1


@dataclass(frozen=True)
class Buffer:
    """How a read interprets memory: ``storage`` is an index into Launch.storages; ``bits`` 1 is a boolean."""

    storage: int
    bits: int
    signed: bool = True
    itemsize: int = 0  # bytes; 0: from bits

    def __post_init__(self) -> None:
        if self.bits < 1:
            raise ValueError(f"buffer of {self.bits} bits")
        if not self.itemsize:
            object.__setattr__(self, "itemsize", max(1, self.bits // 8))

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest value that the type holds."""
        if self.signed and self.bits > 1:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


NO_VARIABLES: frozenset[Variable] = frozenset()
_NO_REASONS: frozenset[str] = frozenset()
_NO_READS: frozenset[Expr] = frozenset()


class Expr:
    """One node. Made by the constructors of `expr` alone; compared by identity."""

    __slots__ = (
        "__weakref__",
        "args",
        "high",
        "kind",
        "low",
        "modulus",
        "number",
        "payload",
        "reads",
        "remainder",
        "sort",
        "unknown_reasons",
        "variables",
    )

    kind: str
    args: tuple[Expr, ...]
    payload: Any  # of the kind: a number, a Variable, the coefficients of a sum
    sort: Sort
    number: int  # in order of making: a stable order of arguments
    low: Bound
    high: Bound
    modulus: int
    remainder: int
    variables: frozenset[Variable]
    unknown_reasons: frozenset[str]
    reads: frozenset[Expr]

    @property
    def value(self) -> int | None:
        """The number, where this is an integer constant."""
        return self.low if self.kind == "const" else None

    def __repr__(self) -> str:
        from kerncap.sanitizer.symbolic.render import render

        return f"<{render(self)}>"

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: compare with `is TRUE`")


_table: weakref.WeakValueDictionary[tuple[str, Hashable, tuple[Expr, ...]], Expr] = (
    weakref.WeakValueDictionary()
)
_small: dict[int, Expr] = {}  # constants that every kernel has: kept, not made again and again
SMALL = 4096
_numbers = itertools.count()
# Re-entrant: making a node may run the garbage collector, and that anything at all.
_lock = threading.RLock()


def make(
    kind: str,
    args: tuple[Expr, ...] = (),
    payload: Hashable = None,
    sort: Sort = "int",
    interval: Interval = ANYTHING,
    congruence: Congruence = ANY_INTEGER,
) -> Expr:
    """The node of this kind, payload and arguments, which is made if it does not exist yet.

    Canonical forms are the caller's business: only the constructors of this package call it.
    """
    key = (kind, payload, args)
    with _lock:
        node = _table.get(key)
        if node is not None:
            return node
        node = Expr()
        node.kind = kind
        node.args = args
        node.payload = payload
        node.sort = sort
        node.number = next(_numbers)
        node.low, node.high = _to_congruence(interval, congruence)
        node.modulus, node.remainder = congruence
        node.variables = _union_variables(args)
        node.unknown_reasons = _NO_REASONS
        node.reads = _NO_READS
        for arg in args:
            if arg.unknown_reasons is not node.unknown_reasons and arg.unknown_reasons:
                node.unknown_reasons = node.unknown_reasons | arg.unknown_reasons
            if arg.reads is not node.reads and arg.reads:
                node.reads = node.reads | arg.reads
        if kind == "var":
            assert isinstance(payload, Variable)
            node.variables = frozenset((payload,))
        elif kind == "read":
            node.reads = node.reads | {node}
        elif kind == "unknown":
            assert isinstance(payload, tuple)
            node.unknown_reasons = node.unknown_reasons | {payload[0]}
        _table[key] = node
        return node


def table_size() -> int:
    """How many nodes are alive (for tests)."""
    return len(_table)


def _union_variables(args: tuple[Expr, ...]) -> frozenset[Variable]:
    result = NO_VARIABLES
    for arg in args:
        other = arg.variables
        if other is result or not other:
            continue
        if not result:
            result = other
        elif not other <= result:
            result = other if result <= other else result | other
    return result


def _to_congruence(interval: Interval, congruence: Congruence) -> Interval:
    """The interval, narrowed to the nearest members of the residue class."""
    low, high = interval
    modulus, remainder = congruence
    if modulus > 1:
        if low is not None:
            low += (remainder - low) % modulus
        if high is not None:
            high -= (high - remainder) % modulus
    return low, high


def const(number: int) -> Expr:
    node = _small.get(number)
    if node is None:
        number = int(number)
        node = make("const", (), number, "int", (number, number), (0, number))
        if -SMALL <= number <= SMALL:
            _small[number] = node
    return node


def known(kind: str, args: tuple[Expr, ...], payload: Hashable) -> Expr | None:
    """The node, if it exists: its interval and congruence need not be worked out again."""
    return _table.get((kind, payload, args))


def boolean(truth: bool) -> Expr:
    return TRUE if truth else FALSE


TRUE = make("boolean", (), True, "bool")
FALSE = make("boolean", (), False, "bool")
ZERO = const(0)
ONE = const(1)


def var(variable: Variable) -> Expr:
    """The variable as an expression.

    What is simplified later relies on the variable's range: replace it only by what stays within.
    """
    return make("var", (), variable, "int", (variable.low, variable.high))


def read(buffer: Buffer, offset: Expr) -> Expr:
    """The value in memory before the launch, ``offset`` bytes from the start of the buffer's storage."""
    if buffer.bits == 1:
        return make("read", (offset,), buffer, "bool")
    return make("read", (offset,), buffer, "int", buffer.range)


def unknown(
    reason: str,
    key: Hashable,
    args: tuple[Expr, ...] = (),
    low: int | None = None,
    high: int | None = None,
    sort: Sort = "int",
) -> Expr:
    """A value of which nothing but its range is known. Equal key and arguments: the same value."""
    return make("unknown", args, (reason, key, low, high, sort), sort, (low, high))
