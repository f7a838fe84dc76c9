"""One side of a conflict: a memory operation through one of its targets, by absolute address.

A question about a race has two sides. Each has variables of its own (programs, lanes, iterations), even
where both are the same operation: `apart` renames those of the right side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.races.expression_bounds import Ranges
from kerncap.sanitizer.diagnose.place import base_address, tensor_behind
from kerncap.sanitizer.launch import Argument, Launch
from kerncap.sanitizer.symbolic.expr import FALSE, Expr, Variable, land, lor, ne, substitute, var
from kerncap.sanitizer.walk.access import Access, Target


@dataclass(frozen=True)
class Side:
    """Bytes [address, address + width) wherever ``condition`` holds."""

    access: Access
    target: Target
    argument: Argument | None
    address: Expr  # absolute, bytes
    condition: Expr  # path, mask and the target's guard
    width: int
    storage: int | None  # a group of storages that share addresses; None: anywhere

    @property
    def variables(self) -> frozenset[Variable]:
        return self.address.variables | self.condition.variables

    @property
    def unknown_reasons(self) -> frozenset[str]:
        return self.address.unknown_reasons | self.condition.unknown_reasons


def sides_of(analysis: Analysis, access: Access) -> list[Side]:
    """One side per target that can be reached."""
    groups = storage_groups(analysis.launch)
    sides = []
    for target in access.targets:
        condition = land(access.path, access.mask, target.guard, ~access.steered_by_undefined)
        if condition is FALSE:
            continue
        argument = None if target.argument is None else analysis.launch.arguments[target.argument]
        tensor = None if argument is None else tensor_behind(argument)
        storage = groups[tensor.storage] if tensor is not None else None
        address = base_address(analysis.launch, target.argument) + target.offset_bytes
        sides.append(Side(access, target, argument, address, condition, access.width_bytes, storage))
    return sides


def in_own_storage(launch: Launch, side: Side, ranges: Ranges) -> Side:
    """The side without the points that leave the storage of the tensor that its pointer comes from.

    Those are out of bounds, which is a finding of its own: what lies there belongs to somebody else.
    """
    tensor = None if side.argument is None else tensor_behind(side.argument)
    if tensor is None or side.address.unknown_reasons:
        return side
    storage = launch.storages[tensor.storage]
    first, last = storage.address, storage.address + storage.size_bytes - side.width
    low, high = ranges.of(side.address, side.condition)
    condition = side.condition
    if low is None or low < first:
        condition = condition & (side.address >= first)
    if high is None or high > last:
        condition = condition & (side.address <= last)
    return side if condition is side.condition else replace(side, condition=condition)


def storage_groups(launch: Launch) -> list[int]:
    """A number per storage: those that overlap (two descriptions of one memory) share one."""
    order = sorted(range(len(launch.storages)), key=lambda index: launch.storages[index].address)
    groups = [0] * len(order)
    end, group = None, -1
    for index in order:
        storage = launch.storages[index]
        if end is None or storage.address >= end:
            group, end = index, storage.address + storage.size_bytes
        else:
            end = max(end, storage.address + storage.size_bytes)
        groups[index] = group
    return groups


def program_axes(analysis: Analysis) -> list[Variable]:
    """The program ids that differ between programs."""
    return [p for p in analysis.walked.programs if p.low != p.high]


@dataclass(frozen=True)
class Apart:
    """A pair of sides whose variables are all different, with what the solver is to satisfy."""

    left: Side
    right: Side
    right_of: dict[Variable, Variable]  # the right side's own variables to their copies
    right_condition: Expr
    overlap: Expr
    different: Expr  # the programs are two

    def right_copy(self, e: Expr) -> Expr:
        """An expression of the right side, over its copies."""
        mapping = {v: var(self.right_of[v]) for v in e.variables if v in self.right_of}
        return substitute(e, mapping) if mapping else e


def apart(left: Side, right: Side, axes: Sequence[Variable], *more: Expr) -> Apart:
    """Rename the right side. ``more``: further expressions of the right side that will be copied."""
    variables = set(right.variables).union(axes, *(e.variables for e in more))
    for loop in right.access.loops:
        variables |= loop.induction.variables | {loop.counter}
    variables.update(lane for lane in right.access.lanes if lane is not None)
    copies = {v: Variable(f"{v.name}'", v.kind, v.low, v.high) for v in variables}
    mapping = {v: var(copy) for v, copy in copies.items()}
    address = substitute(right.address, mapping)
    overlap = (left.address < address + right.width) & (address < left.address + left.width)
    different = lor(*(ne(var(axis), mapping[axis]) for axis in axes))
    return Apart(left, right, copies, substitute(right.condition, mapping), overlap, different)
