"""Accesses that go where an atomic addition sends them: a slot of a queue, a share of an output.

Whatever the order of the programs, each addition of v to a word claims v numbers from the one that it gives
back on, and no two claims overlap. That holds if nothing but additions changes the word, and neither how
many there are nor what they add depends on what any of them gave back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kerncap.sanitizer.checks.spin_loops import constant_of, leaves_program
from kerncap.sanitizer.concrete.dataflow import Dataflow, alias, pointer_operand
from kerncap.sanitizer.concrete.needed_operations import address_operands, decided_by_order, ordering
from kerncap.sanitizer.concrete.values import element_of, width_bytes
from kerncap.sanitizer.launch import ScalarArgument
from kerncap.sanitizer.ttir.ir import IntType, Operation, PointerType, Value

_SAME = frozenset(("tt.splat", "tt.broadcast", "tt.expand_dims", "arith.extsi"))


@dataclass(frozen=True)
class Claim:
    """The address is ``stride`` bytes times what ``atomic`` gives back, and what no order changes.

    ``adders``: all that changes the words that the atomic may count in.
    """

    atomic: Operation
    stride: int
    adders: frozenset[Operation]


@dataclass(frozen=True)
class _Line:
    """A value is ``factor`` times what the atomic gave back, and what no order changes."""

    atomic: Operation | None
    factor: int


_FIXED = _Line(None, 0)


def claims_of(flow: Dataflow, operations: Iterable[Operation]) -> dict[Operation, Claim]:
    """The claim that each of the operations follows; those that follow none are left out."""
    finder = _Finder(flow)
    return {one: claim for one in operations if (claim := finder.claim(one)) is not None}


class _Finder:
    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._fixed: dict[Value, bool] = {}

    def claim(self, operation: Operation) -> Claim | None:
        pointer, *others = address_operands(operation)
        if not isinstance(element_of(pointer.type), PointerType) or ordering(self._flow, others, operation):
            return None
        line = self._line(pointer)
        if line is None or line.atomic is None or not line.factor:
            return None
        adders = self._adders(line.atomic)
        return None if adders is None else Claim(line.atomic, line.factor, adders)

    def _adders(self, atomic: Operation) -> frozenset[Operation] | None:
        """All that may change the words of the atomic, where each adds what no order changes."""
        roots = self._flow.roots(pointer_operand(atomic))
        found = frozenset(one for one, others in self._flow.writers() if alias(roots, others))
        return found if all(self._adds(one) for one in found) else None

    def _adds(self, operation: Operation) -> bool:
        if operation.name != "tt.atomic_rmw" or operation.attributes["rmw_op"] != "add":
            return False
        value = operation.segment("value")
        kind = None if value is None else element_of(value.type)
        if value is None or not isinstance(kind, IntType) or kind.width < 32 or not leaves_program(operation):
            return False
        return not decided_by_order(self._flow, operation) and self._is_fixed(value)

    def _is_fixed(self, value: Value) -> bool:
        if value not in self._fixed:
            self._fixed[value] = not ordering(self._flow, [value])
        return self._fixed[value]

    def _line(self, value: Value) -> _Line | None:
        """None if it is no line, or one of what several atomics gave back."""
        if self._is_fixed(value):
            return _FIXED
        owner = value.owner
        if not isinstance(owner, Operation):
            return None
        if owner.name == "tt.atomic_rmw":
            return _Line(owner, 1)
        if owner.name in _SAME:
            return self._line(owner.operands[0])
        if owner.name == "arith.muli":
            return self._product(*owner.operands)
        if owner.name not in ("arith.addi", "arith.subi", "tt.addptr"):
            return None
        left, right = (self._line(one) for one in owner.operands)
        if left is None or right is None or (left.atomic and right.atomic):
            return None
        factor = -right.factor if owner.name == "arith.subi" else right.factor
        if owner.name == "tt.addptr":
            pointer = element_of(value.type)
            assert isinstance(pointer, PointerType)
            factor *= width_bytes(element_of(pointer.pointee))
        return _Line(left.atomic or right.atomic, left.factor + factor)

    def _product(self, left: Value, right: Value) -> _Line | None:
        for one, other in ((left, right), (right, left)):
            number = self._number(one)
            if number is not None:
                line = self._line(other)
                return None if line is None else _Line(line.atomic, line.factor * number)
        return None

    def _number(self, value: Value) -> int | None:
        """The integer that a value is in this launch, by its text or as the kernel's argument."""
        owner = value.owner
        if isinstance(owner, Operation) and owner.name in _SAME:
            return self._number(owner.operands[0])
        if value not in self._flow.kernel.arguments:
            return constant_of(value)
        given = self._flow.launch.arguments[self._flow.kernel.arguments.index(value)]
        return given.value if isinstance(given, ScalarArgument) and isinstance(given.value, int) else None
