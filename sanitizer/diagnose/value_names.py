"""What the source calls the values behind an address, with what they are as expressions.

From an access's operands back through the TTIR, at one lane of its tile: an ``expand_dims`` drops an
axis of the lane, a ``splat`` drops all, a ``trans`` permutes them. Only plain arithmetic is followed: a
value that is not gets no expression, and so no name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.diagnose.render import address_expression
from kerncap.sanitizer.launch import ScalarArgument
from kerncap.sanitizer.symbolic.expr import (
    Expr,
    const,
    div_trunc,
    maximum,
    minimum,
    rem_trunc,
    shift_left,
    var,
    wrap,
)
from kerncap.sanitizer.ttir.ir import (
    Block,
    Dense,
    IntType,
    Location,
    Operation,
    TensorType,
    Type,
    Value,
    walk,
)
from kerncap.sanitizer.walk.access import Access

Lane = tuple[Expr, ...]
# Deeper chains exist only in generated code, whose names help nobody.
MAX_DEPTH = 200


@dataclass(frozen=True)
class Named:
    """A value that the source has a name for. ``axes``: which axes of the access's tile it runs along."""

    value: Value
    name: str
    expression: Expr
    axes: tuple[int, ...]
    rank: int  # of the tile that the access has

    @property
    def text(self) -> str:
        """The name, indexed so that it broadcasts over the tile: ``rows[:, None]``."""
        if self.rank < 2 or not self.axes or len(self.axes) == self.rank:
            return self.name
        return f"{self.name}[{', '.join(':' if axis in self.axes else 'None' for axis in range(self.rank))}]"


def named_values(analysis: Analysis, access: Access) -> list[Named]:
    """Named integers that the address and the mask are made of, nearest to the access first."""
    return sorted(_read(analysis, access).named, key=lambda one: -_order(one.value))


def variable_name(analysis: Analysis, value: Value | None) -> str | None:
    """What the source calls a value that is a variable's, not a part of it; None for all others."""
    if value is None or value in _parts(analysis):
        return None
    return value.location.name


def written_as(analysis: Analysis, access: Access, expression: Expr) -> tuple[str, Location] | None:
    """How the source writes an expression on the way to the address (``row * stride``), and where."""
    reader = _read(analysis, access)
    values = [value for (value, _), found in reader.known.items() if found is expression]
    if not values:
        return None
    return written(analysis, min(values, key=_order))  # later ones only change its shape or width


def written(analysis: Analysis, value: Value) -> tuple[str, Location]:
    """A value as the source writes it, with its variable's name if it has one."""
    text = address_expression(value)
    name = variable_name(analysis, value)
    return (f"{name} = {text}" if name and name != text else text), value.location


def scalar_name(analysis: Analysis, value: int) -> str | None:
    """The only integer argument that has this value, or None."""
    names = [
        argument.name
        for argument in analysis.launch.arguments
        if isinstance(argument, ScalarArgument) and type(argument.value) is int and argument.value == value
    ]
    return names[0] if len(names) == 1 else None


def _read(analysis: Analysis, access: Access) -> _Reader:
    lane = tuple(const(0) if v is None else var(v) for v in access.lanes)
    reader = _Reader(analysis, access, len(lane), _parts(analysis))
    for operand in (access.pointer_operand, access.mask_operand):
        if operand is not None and _rank(operand.type) == len(lane):
            reader.visit(operand, lane, tuple(range(len(lane))))
    return reader


@dataclass
class _Reader:
    analysis: Analysis
    access: Access
    rank: int
    parts: frozenset[Value]
    named: list[Named] = field(default_factory=list)
    known: dict[tuple[Value, Lane], Expr | None] = field(default_factory=dict)
    depth: int = 0

    def visit(self, value: Value, lane: Lane, axes: tuple[int, ...]) -> Expr | None:
        """The value's element at ``lane``; ``axes[i]``: the axis of the access's tile that lane[i] is."""
        key = (value, lane)
        if key in self.known or self.depth > MAX_DEPTH:
            return self.known.get(key)
        self.depth += 1
        found = self._compute(value, lane, axes)
        self.depth -= 1
        self.known[key] = found
        if found is not None and value.location.name and value not in self.parts and _is_integer(value.type):
            along = tuple(axis for axis, index in zip(axes, lane, strict=True) if index.variables)
            self.named.append(Named(value, value.location.name, found, along, self.rank))
        return found

    def _compute(self, value: Value, lane: Lane, axes: tuple[int, ...]) -> Expr | None:
        owner = value.owner
        if not isinstance(owner, Operation):
            loop = _loop_of(value)
            if loop is not None and value.index > 0:
                # What a pointer starts as has names too, and `rows` of one that moves along is still `rows`.
                self.visit(loop.operands[2 + value.index], lane, axes)
                return None
            return leaf(self.analysis, self.access, value, lane)
        inner = reshaped(owner, lane, axes)
        if inner is not None:
            return self.visit(*inner)
        name, operands = owner.name, owner.operands
        if name in ("arith.extsi", "tt.addptr", "arith.select", "arith.cmpi", "arith.andi"):
            # Of the last four only what is named below them counts.
            results = [
                self.visit(operand, lane, axes) for operand in operands if _rank(operand.type) == len(lane)
            ]
            return results[0] if name == "arith.extsi" else None
        arithmetic = _ARITHMETIC.get(name)
        if arithmetic is None:
            return leaf(self.analysis, self.access, value, lane)
        a, b = (self.visit(operand, lane, axes) for operand in operands[:2])
        element = _element(value.type)
        if a is None or b is None or not isinstance(element, IntType):
            return None
        return wrap(arithmetic(a, b, element.width), element.width)


def reshaped(
    owner: Operation, lane: Lane, axes: tuple[int, ...]
) -> tuple[Value, Lane, tuple[int, ...]] | None:
    """Which element of its operand an operation gives that only changes a shape; None for all others."""
    operand = owner.operands[0] if owner.operands else None
    if operand is None:
        return None
    if owner.name == "tt.splat":
        return operand, (), ()
    if owner.name == "tt.expand_dims":
        axis = int(owner.attributes["axis"])
        return operand, lane[:axis] + lane[axis + 1 :], axes[:axis] + axes[axis + 1 :]
    if owner.name == "tt.broadcast":
        shape = operand.type.shape if isinstance(operand.type, TensorType) else ()
        return operand, tuple(const(0) if n == 1 else i for n, i in zip(shape, lane, strict=True)), axes
    if owner.name == "tt.trans":
        order = [int(axis) for axis in owner.attributes["order"]]
        sources = [order.index(axis) for axis in range(len(order))]
        return operand, tuple(lane[i] for i in sources), tuple(axes[i] for i in sources)
    return None


def leaf(analysis: Analysis, access: Access, value: Value, lane: Lane) -> Expr | None:
    """A value that is made of no other: a range, a program's id, a constant, an argument, an induction."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return _argument(analysis, access, value)
    if owner.name == "tt.make_range":
        return lane[0] + int(owner.attributes["start"])
    if owner.name == "tt.get_program_id":
        return var(analysis.walked.programs[int(owner.attributes["axis"])])
    if owner.name == "tt.get_num_programs":
        return analysis.walked.symbols.grid[int(owner.attributes["axis"])]
    return _constant(owner) if owner.name == "arith.constant" else None


def _argument(analysis: Analysis, access: Access, value: Value) -> Expr | None:
    for index, parameter in enumerate(analysis.function.arguments):
        if parameter is value:
            return analysis.walked.symbols.scalars.get(index)
    loop = _loop_of(value)
    if loop is None or value.index > 0:
        return None
    return next((one.induction for one in access.loops if one.location == loop.location), None)


def _parts(analysis: Analysis) -> frozenset[Value]:
    """Values that only have the name of what they are a part of.

    In TTIR every operation of ``offs = pid * 64 + tl.arange(0, 64)`` is named "offs"; the variable itself is
    the one that no other of that name uses.
    """
    body = analysis.function.body
    if body is None:
        return frozenset()
    return frozenset(
        operand
        for operation in walk(body)
        for operand in operation.operands
        if any(result.location.name == operand.location.name for result in operation.results)
    )


def _loop_of(value: Value) -> Operation | None:
    """The ``scf.for`` whose body a value is an argument of."""
    region = value.owner.parent if isinstance(value.owner, Block) else None
    operation = None if region is None else region.parent
    return operation if isinstance(operation, Operation) and operation.name == "scf.for" else None


def _constant(operation: Operation) -> Expr | None:
    value = operation.attributes["value"]
    if isinstance(value, Dense):
        value = value.values[0] if len(value.values) == 1 else None
    return const(value) if type(value) is int else None


def _rank(kind: Type) -> int:
    return len(kind.shape) if isinstance(kind, TensorType) else 0


def _element(kind: Type) -> Type:
    return kind.element if isinstance(kind, TensorType) else kind


def _is_integer(kind: Type) -> bool:
    return isinstance(_element(kind), IntType)


def _order(value: Value) -> int:
    return value.owner.order if isinstance(value.owner, Operation) else -1


_ARITHMETIC: dict[str, Callable[[Expr, Expr, int], Expr]] = {
    "arith.addi": lambda a, b, _: a + b,
    "arith.subi": lambda a, b, _: a - b,
    "arith.muli": lambda a, b, _: a * b,
    "arith.divsi": lambda a, b, _: div_trunc(a, b),
    "arith.remsi": lambda a, b, _: rem_trunc(a, b),
    "arith.minsi": lambda a, b, _: minimum(a, b),
    "arith.maxsi": lambda a, b, _: maximum(a, b),
    "arith.shli": shift_left,
}
