"""The nodes of symbolic expressions: immutable, hash-consed, each with its range.

Two sorts: mathematical integers and booleans. A node is made once per (kind, payload, arguments), so
that ``is`` is equality and every algorithm can remember its results by node. The table is swept of nodes
that nobody uses after each analysis, and when it has grown: a long run keeps only what somebody still uses.

Every integer node carries an interval and a congruence that hold wherever its variables are in
their ranges. They are computed when it is made, from those of its arguments: no later traversal is
needed, however deep an expression is.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
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


_OPERATORS: dict[str, Callable[..., Expr]] = {}


def compute_by(operators: Mapping[str, Callable[..., Expr]]) -> None:
    """Let Python's operators make these nodes; `expr`, whose constructors are made of nodes, calls it."""
    _OPERATORS.update(operators)


def _operator(sign: str) -> Callable[[Expr, Expr | int], Expr]:
    def apply(left: Expr, right: Expr | int) -> Expr:
        return _OPERATORS[sign](left, right if isinstance(right, Expr) else const(right))

    return apply


def _reflected(sign: str) -> Callable[[Expr, int], Expr]:
    def apply(right: Expr, left: int) -> Expr:
        return _OPERATORS[sign](const(left), right)

    return apply


class Expr:
    """One node. Made by the constructors of `expr` and by operators; compared by identity.

    Operators are those of mathematical integers (``//`` and ``%`` round down) and of booleans (``&``, ``|``,
    ``~``); one of the two may be a Python integer. For equality as a condition there are `eq` and `ne`.
    """

    __slots__ = (
        "__weakref__",
        "_reads",
        "args",
        "high",
        "kind",
        "low",
        "modulus",
        "number",
        "payload",
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
    _reads: frozenset[Expr]  # without the node itself: a cycle would keep it in the table for good

    @property
    def reads(self) -> frozenset[Expr]:
        """The reads in it, itself too if it is one."""
        return self._reads | {self} if self.kind == "read" else self._reads

    @property
    def value(self) -> int | None:
        """The number, where this is an integer constant."""
        return self.low if self.kind == "const" else None

    __add__, __radd__ = _operator("+"), _reflected("+")
    __sub__, __rsub__ = _operator("-"), _reflected("-")
    __mul__, __rmul__ = _operator("*"), _reflected("*")
    __floordiv__, __rfloordiv__ = _operator("//"), _reflected("//")
    __mod__, __rmod__ = _operator("%"), _reflected("%")
    __lt__, __le__, __gt__, __ge__ = _operator("<"), _operator("<="), _operator(">"), _operator(">=")
    __and__, __or__ = _operator("&"), _operator("|")

    def __neg__(self) -> Expr:
        return _OPERATORS["negative"](self)

    def __invert__(self) -> Expr:
        return _OPERATORS["~"](self)

    def __repr__(self) -> str:
        return f"<{_as_text(self)}>"

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: compare with `is TRUE`")


def show_by(as_text: Callable[[Expr], str]) -> None:
    """Let `repr` of an expression be this text; `render`, which is made of nodes, calls it."""
    global _as_text
    _as_text = as_text


_as_text: Callable[[Expr], str] = attrgetter("kind")
_table: dict[tuple[str, Hashable, tuple[Expr, ...]], Expr] = {}
_small: dict[int, Expr] = {}  # constants that every kernel has: kept, not made again and again
SMALL = 4096
MANY = 1 << 17  # nodes made since the table was last swept, from where it is swept again
_numbers = itertools.count()
# Re-entrant: making a node may run the garbage collector, and that anything at all.
_lock = threading.RLock()
_sweep_at = MANY
_users = 0  # that have entered `forgetting`


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
    known = _table.get(key)
    if known is not None:
        return known
    node = Expr()
    node.kind = kind
    node.args = args
    node.payload = payload
    node.sort = sort
    node.modulus, node.remainder = congruence
    node.low, node.high = interval if congruence[0] <= 1 else _to_congruence(interval, congruence)
    if len(args) == 1:
        arg = args[0]
        node.variables = arg.variables
        node.unknown_reasons = arg.unknown_reasons
        node._reads = arg.reads
    else:
        _join_arguments(node, args)
    if kind == "var":
        assert isinstance(payload, Variable)
        node.variables = frozenset((payload,))
    elif kind == "unknown":
        assert isinstance(payload, tuple)
        node.unknown_reasons = node.unknown_reasons | {payload[0]}
    with _lock:
        # Another thread may have made it meanwhile, or have had the table empty while it swept.
        known = _table.get(key)
        if known is not None:
            return known
        node.number = next(_numbers)
        _table[key] = node
        if len(_table) > _sweep_at:
            _sweep()
    return node


def _sweep() -> None:
    """Takes the nodes out of the table that nothing else uses. Those that stay keep their place."""
    global _sweep_at
    references = [weakref.ref(node) for node in _table.values()]
    _table.clear()
    for reference in references:
        node = reference()
        if node is not None:
            _table[node.kind, node.payload, node.args] = node
    _sweep_at = len(_table) + MANY


@contextmanager
def forgetting() -> Iterator[None]:
    """Around one analysis: at its end, nodes that nothing uses any more are let go.

    So the order of nodes does not hang on what was analysed before. Where analyses overlap, at the
    end of the last.
    """
    global _users
    with _lock:
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _sweep()


def table_size() -> int:
    """How many nodes are in use (for tests)."""
    with _lock:
        _sweep()
        return len(_table)


def _join_arguments(node: Expr, args: tuple[Expr, ...]) -> None:
    """What the arguments' variables, unknown values and reads come to, sharing sets where one has all."""
    variables, reasons, reads = NO_VARIABLES, _NO_REASONS, _NO_READS
    for arg in args:
        other = arg.variables
        if other is not variables and other:
            if not variables:
                variables = other
            elif not other <= variables:
                variables = other if variables <= other else variables | other
        if arg.unknown_reasons is not reasons and arg.unknown_reasons:
            reasons = reasons | arg.unknown_reasons if reasons else arg.unknown_reasons
        below = arg.reads
        if below is not reads and below:
            reads = reads | below if reads else below
    node.variables, node.unknown_reasons, node._reads = variables, reasons, reads


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
    node = _table.get(("var", variable, ()))
    return make("var", (), variable, "int", (variable.low, variable.high)) if node is None else node


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
