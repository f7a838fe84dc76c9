"""An address as integers of unlimited width would give it, from the operations that make it.

Needed where two numbers that are the same for the whole launch overflow (``rows * stride`` of two
arguments), or if all that could differ is lost (``(row * 65536).to(tl.int16)``): an expression has only
the wrapped result then, as one more number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.diagnose.value_names import Lane, leaf, reshaped
from kerncap.sanitizer.launch import TensorArgument
from kerncap.sanitizer.symbolic.expr import (
    Expr,
    add,
    const,
    div_floor,
    div_trunc,
    eq,
    ge,
    gt,
    ite,
    land,
    le,
    lor,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    rem_trunc,
    sub,
    var,
    wrap,
)
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, PointerType, TensorType, Type, Value
from kerncap.sanitizer.walk.access import Access


def _shift_right(number: Expr, amount: Expr) -> Expr | None:
    """A division by a power of two, if the power is known."""
    known = amount.kind == "const" and 0 <= amount.payload < 64
    return div_floor(number, const(1 << amount.payload)) if known else None


_ARITHMETIC: dict[str, Callable[..., Expr | None]] = {
    "arith.trunci": lambda number: number,
    "arith.addi": add,
    "arith.subi": sub,
    "arith.muli": mul,
    "arith.divsi": div_trunc,
    "arith.remsi": rem_trunc,
    "arith.shrsi": _shift_right,
    "arith.minsi": minimum,
    "arith.maxsi": maximum,
}
_PREDICATES: dict[str, Callable[[Expr, Expr], Expr]] = {
    "eq": eq, "ne": ne, "slt": lt, "sle": le, "sgt": gt, "sge": ge,
}  # fmt: skip
_LOGIC: dict[str, Callable[[Expr, Expr], Expr]] = {"arith.andi": land, "arith.ori": lor}
MAX_DEPTH = 200


@dataclass(frozen=True)
class Folded:
    """An operation that left its width and gave one number: what it should have given, and what it did."""

    value: Value
    ideal: Expr
    actual: int


@dataclass(frozen=True)
class Unlimited:
    """The offset from the argument in bytes with no wrap at all, and the numbers that did wrap (not none)."""

    offset_bytes: Expr
    folded: tuple[Folded, ...]


def unlimited_offset(analysis: Analysis, access: Access) -> Unlimited | None:
    """None if no two numbers overflow on the way, or if the way is more than plain arithmetic."""
    pointer = access.pointer_operand
    if pointer is None or access.descriptor is not None or len(access.targets) != 1:
        return None
    reader = _Reader(analysis, access)
    lane = tuple(const(0) if v is None else var(v) for v in access.lanes)
    if not isinstance(_element(pointer.type), PointerType) or _rank(pointer.type) != len(lane):
        return None
    offsets = reader.pointer(pointer, lane)
    # What the walk made of the same operations is the test of this reading of them.
    if offsets is None or not reader.folded or offsets[0] is not access.targets[0].offset_bytes:
        return None
    return Unlimited(offsets[1], tuple(reader.folded))


def number_of(analysis: Analysis, access: Access, value: Value) -> Expr | None:
    """What a scalar of the launch or of one program is, if it is plain arithmetic of known numbers."""
    found = _Reader(analysis, access).number(value, ())
    return None if found is None else found[0]


@dataclass
class _Reader:
    """Each number as (with the wraps, without them); None if it is not plain arithmetic."""

    analysis: Analysis
    access: Access
    folded: list[Folded] = field(default_factory=list)
    known: dict[tuple[Value, Lane], tuple[Expr, Expr] | None] = field(default_factory=dict)
    depth: int = 0

    def pointer(self, value: Value, lane: Lane) -> tuple[Expr, Expr] | None:
        actual = ideal = const(0)
        for _ in range(MAX_DEPTH):
            owner = value.owner
            if not isinstance(owner, Operation):
                target = self.access.targets[0].argument
                parameters = self.analysis.function.arguments
                plain = target is not None and value is parameters[target]
                given = self.analysis.launch.arguments[target] if target is not None else None
                return (actual, ideal) if plain and isinstance(given, TensorArgument) else None
            inner = reshaped(owner, lane, tuple(range(len(lane))))
            if inner is not None:
                value, lane, _ = inner
                continue
            if owner.name != "tt.addptr":
                return None
            step = self.number(owner.operands[1], lane)
            width = _bytes(_element(value.type))
            if step is None or width is None:
                return None
            actual, ideal = actual + step[0] * width, ideal + step[1] * width
            value = owner.operands[0]
        return None

    def number(self, value: Value, lane: Lane) -> tuple[Expr, Expr] | None:
        key = (value, lane)
        if key in self.known or self.depth > MAX_DEPTH:
            return self.known.get(key)
        self.depth += 1
        found = self._compute(value, lane)
        self.depth -= 1
        self.known[key] = found
        return found

    def _compute(self, value: Value, lane: Lane) -> tuple[Expr, Expr] | None:
        plain = leaf(self.analysis, self.access, value, lane)
        owner = value.owner
        if plain is not None or not isinstance(owner, Operation):
            return None if plain is None else (plain, plain)
        inner = reshaped(owner, lane, tuple(range(len(lane))))
        if inner is not None:
            return self.number(inner[0], inner[1])
        if owner.name == "arith.extsi":
            return self.number(owner.operands[0], lane)
        if owner.name == "arith.select":
            return self._choice(owner, lane)
        arithmetic, element = _ARITHMETIC.get(owner.name), _element(value.type)
        if arithmetic is None or not isinstance(element, IntType) or element.width == 1:
            return None
        parts = [self.number(operand, lane) for operand in owner.operands]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        exact, ideal = (arithmetic(*numbers) for numbers in zip(*known, strict=True))
        if exact is None or ideal is None:
            return None
        if owner.name == "arith.remsi":  # meant to lose upper bits: it is taken exactly as it is
            ideal = exact
        actual = wrap(exact, element.width)
        if actual is not exact and actual.low is not None and actual.low == actual.high:
            self.folded.append(Folded(value, ideal, actual.low))
        return actual, ideal

    def _choice(self, owner: Operation, lane: Lane) -> tuple[Expr, Expr] | None:
        """By its condition as it is: that an overflow decided one is no question of the address."""
        condition = self.condition(owner.operands[0], lane)
        then, otherwise = (self.number(operand, lane) for operand in owner.operands[1:])
        if condition is None or then is None or otherwise is None:
            return None
        return ite(condition, then[0], otherwise[0]), ite(condition, then[1], otherwise[1])

    def condition(self, value: Value, lane: Lane) -> Expr | None:
        """A truth value that comparisons of plain numbers make."""
        owner = value.owner
        if not isinstance(owner, Operation):
            return None
        inner = reshaped(owner, lane, tuple(range(len(lane))))
        if inner is not None:
            return self.condition(inner[0], inner[1])
        if owner.name in _LOGIC:
            left, right = (self.condition(operand, lane) for operand in owner.operands)
            return None if left is None or right is None else _LOGIC[owner.name](left, right)
        predicate = _PREDICATES.get(str(owner.attributes.get("predicate")))
        if owner.name != "arith.cmpi" or predicate is None:
            return None
        numbers = [self.number(operand, lane) for operand in owner.operands]
        known = [number[0] for number in numbers if number is not None]
        return predicate(*known) if len(known) == len(numbers) else None


def _rank(kind: Type) -> int:
    return len(kind.shape) if isinstance(kind, TensorType) else 0


def _element(kind: Type) -> Type:
    return kind.element if isinstance(kind, TensorType) else kind


def _bytes(kind: Type) -> int | None:
    pointee = kind.pointee if isinstance(kind, PointerType) else None
    return max(1, pointee.width // 8) if isinstance(pointee, IntType | FloatType) else None
