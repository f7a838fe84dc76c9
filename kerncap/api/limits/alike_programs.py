"""Which programs of a launch touch the same bytes: one of each group is counted for all of them.

Programs differ only in their scalars (its id, and what is made of it): all tiles are made of
those. So the scalars that enter the tiles on which an access depends are evaluated for all programs, which
costs little, and programs that agree in every one of them make the same accesses. Of a matrix product with
64 x 64 programs this leaves 64 programs for the loads of each factor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.api.limits.block_executions import SlicedPlan
from kerncap.sanitizer.concrete.dataflow import WRITERS, Dataflow
from kerncap.sanitizer.concrete.machine import Limits, Machine, Step
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.needed_operations import Slice, address_operands, needed
from kerncap.sanitizer.concrete.run import evaluate
from kerncap.sanitizer.concrete.values import Incomplete, Pointers, Tile
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import (
    DescriptorType,
    Function,
    Module,
    Operation,
    PointerType,
    TensorType,
    Type,
    Value,
)

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


def representatives(
    module: Module, function: Function, launch: Launch, flow: Dataflow, access: Operation, limits: Limits
) -> tuple[Ints, Ints]:
    """Programs that stand for all, in ascending order, and how many programs each stands for."""
    everyone = np.arange(launch.program_count, dtype=np.int64)
    alone = everyone, np.ones_like(everyone)
    sliced = needed(flow, [access], address_operands(access))
    if any(operation.name in WRITERS for operation in sliced.evaluated):
        return alone  # what a program reads may be what another one wrote
    entering = _entering(sliced, access)
    wanted = [value for operation in entering for value in operation.operands if _is_scalar(value.type)]
    scalars = needed(flow, entering, wanted)
    if any(_makes_tiles(operation) for operation in scalars.evaluated):
        return alone  # a scalar that is itself made of a tile
    plan = _MarkingPlan(module, function, launch, scalars, entering)
    if not evaluate(module, function, launch, Memory(launch), limits=limits, plan=plan).complete:
        return alone
    _, first, counts = np.unique(plan.marks, return_index=True, return_counts=True)
    order = np.argsort(first)
    return everyone[first[order]], counts[order].astype(np.int64)


def _is_scalar(kind: Type) -> bool:
    if isinstance(kind, PointerType):
        return not isinstance(kind.pointee, TensorType)
    return not isinstance(kind, TensorType | DescriptorType)


def _makes_tiles(operation: Operation) -> bool:
    if operation.name.startswith("scf.") or operation.name == "tt.call":
        return False  # it hands on what others make
    return any(not _is_scalar(value.type) for value in (*operation.operands, *operation.results))


def _entering(sliced: Slice, access: Operation) -> list[Operation]:
    """The access, and the operations of its slice that have to do with tiles."""
    found = (operation for operation in sliced.evaluated if _makes_tiles(operation))
    return sorted({access, *found}, key=lambda operation: operation.order)


class _MarkingPlan(SlicedPlan):
    """Runs scalars only; what would make tiles of them marks the programs that come there instead."""

    def __init__(
        self, module: Module, function: Function, launch: Launch, sliced: Slice, marking: Iterable[Operation]
    ) -> None:
        super().__init__(module, function, launch, sliced)
        self._marking = frozenset(marking)
        self.marks: Words = np.zeros(launch.program_count, dtype=np.uint64)

    def _step(self, operation: Operation) -> Step:
        if operation not in self._marking:
            return super()._step(operation)
        values = [value for value in operation.operands if _is_scalar(value.type)]
        place = np.uint64(operation.order + 1)

        def mark(m: Machine) -> None:
            self._mix(m, np.full(1, place, dtype=np.uint64))
            for value in values:
                for words in _words(m, value):
                    self._mix(m, words)

        return mark

    def _mix(self, m: Machine, words: Words) -> None:
        """Take words, one per program or one for all, into the marks of those that are here."""
        old = self.marks[m.programs]
        new = (old ^ np.broadcast_to(words, old.shape)) * _ODD
        new = (new ^ (new >> _HALF)) * _MIX
        new ^= new >> _HALF
        self.marks[m.programs] = new if m.active is None else np.where(m.active, new, old)


def _words(m: Machine, value: Value) -> list[Words]:
    held = m.env.get(value)
    if not isinstance(held, Tile):
        raise Incomplete(f"{value.source_name} is not a number")
    found = [_bits(held.data)]
    if isinstance(held, Pointers):
        found.append(_bits(np.asarray(held.argument, dtype=np.int64).reshape(-1)))
    return found


def _bits(data: npt.NDArray[Any]) -> Words:
    flat = data.reshape(-1)
    if flat.dtype.kind == "f":
        flat = flat.astype(np.float64).view(np.int64)
    return flat.astype(np.int64).view(np.uint64)
