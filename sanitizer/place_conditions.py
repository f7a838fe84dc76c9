"""Conditions on a place: an index compared with a number of the source, as in ``tl.where(i < 1000, …)``.

On the captured launch such a condition may hold for each element that is accessed, because the launch ends
there, while a mask leaves out the lanes in which it does not. So only lanes count that a load or a store of
its shape accesses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kerncap.sanitizer.concrete.dataflow import ATOMICS, LOADS, STORES, Dataflow, is_descriptor
from kerncap.sanitizer.concrete.machine import Machine
from kerncap.sanitizer.concrete.needed_operations import address_operands
from kerncap.sanitizer.concrete.values import Bools, Tile, shape_of
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.steering_memory import is_constant, is_from_memory, is_of_launch, numbers_of
from kerncap.sanitizer.ttir.ir import Operation, Value

_WATCHED = frozenset(
    f"arith.{name}"
    for name in ("cmpi", "cmpf", "minsi", "maxsi", "minui", "maxui", "divsi", "divui", "shrsi", "shrui")
)
_SAME_LANES = frozenset(("tt.expand_dims", "tt.broadcast"))


def numbers_beside_place(flow: Dataflow, launch: Launch, operation: Operation) -> frozenset[float]:
    """The numbers with which a place is compared, or by which it is limited; empty: no condition on one."""
    if operation.name not in _WATCHED or is_from_memory(flow, operation.operands):
        return frozenset()
    constant = [is_constant(flow, one) for one in operation.operands]
    if sum(constant) != 1 or is_of_launch(flow, operation.operands):
        return frozenset()
    numbers = frozenset(numbers_of(flow, launch, operation.operands[constant.index(True)]))
    is_equality = str(operation.attributes.get("predicate", "")).endswith(("eq", "ne"))
    # Places begin at 0, which no size of a launch changes.
    return numbers if numbers and (is_equality or min(numbers) > 0) else frozenset()


def are_constexprs(numbers: Collection[float], constexprs: Iterable[float]) -> bool:
    """Whether all are numbers that the kernel was compiled for, or next to one (``<`` and ``<=``)."""
    return set(numbers) <= {number + step for number in constexprs for step in (-1, 0, 1)}


@dataclass(frozen=True)
class Lanes:
    """Which lanes of one condition count: those of ``accesses``, each with the value that has its shape."""

    accesses: Sequence[tuple[Operation, Value]]

    def known(self, m: Machine, among: Operation | None = None) -> Iterator[tuple[Value, Bools | None]]:
        """What holds the condition, and the lanes of an access, as far as both are known by now."""
        for operation, value in self.accesses:
            if among not in (None, operation) or value not in m.env:
                continue
            mask = _mask(operation)
            if mask is None:
                yield value, m.lanes(None, len(shape_of(value.type)))
            elif isinstance(tile := m.env.get(mask), Tile):
                yield value, m.lanes(tile.data, tile.data.ndim - 1)


def lanes_of(flow: Dataflow, conditions: Sequence[Operation]) -> Mapping[Operation, Lanes]:
    """For each condition the accesses that tell which of its lanes count; none: all do."""
    users: dict[Value, list[Operation]] = {}
    for each in flow.operations:
        for value in each.operands:
            users.setdefault(value, []).append(each)
    accesses = [
        one for one in flow.operations if one.name in LOADS | STORES | ATOMICS and not is_descriptor(one.name)
    ]
    found = {}
    for condition in conditions:
        values = [condition.results[0]]
        for value in values:
            values += [user.results[0] for user in users.get(value, ()) if user.name in _SAME_LANES]
        meets = [(one, value) for one in accesses for value in values if _meets(value, one)]
        found[condition] = Lanes(meets)
    return found


def wanted(lanes: Iterable[Lanes]) -> Iterator[Value]:
    """The values that tell which lanes count."""
    for each in lanes:
        for operation, value in each.accesses:
            yield value
            yield from address_operands(operation)


def _mask(operation: Operation) -> Value | None:
    _, *masks = address_operands(operation)
    return masks[0] if masks else None


def _meets(value: Value, access: Operation) -> bool:
    """Whether each lane of an access has one of a value: not for one number of a program."""
    shape, lanes = shape_of(value.type), shape_of(access.operands[0].type)
    return (
        bool(shape)
        and len(shape) == len(lanes)
        and all(a in (1, b) for a, b in zip(shape, lanes, strict=True))
    )
