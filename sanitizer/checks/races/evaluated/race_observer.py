"""Races over access events: exact for the addresses that this launch's data lead to.

The evaluator runs programs in some order; only who met whom counts here. What atomics order is taken from the
same constructions as in the symbolic check (`ordering`), with the words that each program really used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Literal

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.elements import addresses_of, stored_bits
from kerncap.sanitizer.checks.races.conflict_findings import message_of
from kerncap.sanitizer.checks.races.equal_values import computed
from kerncap.sanitizer.checks.races.evaluated.cell_tables import (
    Cells,
    Conflict,
    Trace,
    conflicts,
    stored_the_same,
    turn_to_differing,
)
from kerncap.sanitizer.checks.races.evaluated.program_words import ProgramWords
from kerncap.sanitizer.checks.races.ordering.sync_words import line_of
from kerncap.sanitizer.checks.races.ordering.synchronisation import Synchronisation
from kerncap.sanitizer.checks.races.sides import storage_groups
from kerncap.sanitizer.checks.races.witness_values import Open, Values, Writer, compare
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.diagnose.place import argument_name, base_address, tensor_behind, tensor_of
from kerncap.sanitizer.findings import Finding, OtherAccess, Place, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.pointer_origins import written_storages
from kerncap.sanitizer.ttir.ir import Operation

Ints = npt.NDArray[np.int64]

# Cells of one table (address space, not memory), memory of all tables, and what is kept of iterations.
MAX_CELLS = 1 << 28
MAX_BYTES = 1 << 31
MAX_ITERATION_VALUES = 1 << 22

NOT_EVALUATED = "two programs store to one place, and all that they store was not evaluated"


@dataclass(frozen=True)
class _Event:
    """What is kept of an event, for the message."""

    shape: tuple[int, ...]
    programs: Ints | None
    iterations: tuple[tuple[str, Ints], ...]
    arguments: tuple[int, ...]  # that its pointers come from; none where that is not known

    def iterations_of(self, program: int) -> tuple[tuple[str, int], ...]:
        found = []
        for name, values in self.iterations:
            row = 0
            if len(values) > 1:
                rows = [] if self.programs is None else np.flatnonzero(self.programs == program).tolist()
                if not rows:
                    continue
                row = rows[0]
            found.append((name, int(values[row])))
        return tuple(found)


@dataclass
class _Group:
    """Storages that share addresses."""

    address: int
    size_bytes: int
    unit: int  # bytes of a cell
    tables: dict[Operation, Cells] = field(default_factory=dict)


class RaceObserver:
    """Feed it every event of an evaluation of all programs, then ask for the verdicts."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        launch = analysis.launch
        written = written_storages(analysis.module, analysis.function, launch)
        self._groups: dict[int, _Group] = {}
        self._group_of = storage_groups(launch)
        for index, storage in enumerate(launch.storages):
            if written is not None and not any(self._group_of[w] == self._group_of[index] for w in written):
                continue  # nobody writes there
            known = self._groups.get(self._group_of[index])
            low = storage.address if known is None else min(known.address, storage.address)
            high = storage.address + storage.size_bytes
            if known is not None:
                high = max(high, known.address + known.size_bytes)
            self._groups[self._group_of[index]] = _Group(low, high - low, 0)
        for argument in launch.arguments:
            tensor = tensor_behind(argument)
            if tensor is not None and self._group_of[tensor.storage] in self._groups:
                group = self._groups[self._group_of[tensor.storage]]
                group.unit = gcd(group.unit, tensor.itemsize, tensor.address - group.address)
        self._widths: dict[Operation, int] = {}
        self._kinds: dict[Operation, Literal["load", "store", "atomic"]] = {}
        self._events: list[_Event] = []
        self._kept = 0
        self._reason: str | None = None
        self.uncompared: set[Operation] = set()  # stores of a conflict whose values are not known
        self._synchronisation = Synchronisation(analysis)
        self._words = ProgramWords(self._synchronisation)

    # --- collecting --------------------------------------------------------------------------------

    def concerns(self, event: AccessEvent) -> bool:
        """Whether the event may take part in a race: not in memory that nobody writes."""
        if not isinstance(event.argument, int) or event.argument < 0:
            return True
        tensor = tensor_of(self._analysis.launch, event.argument)
        return tensor is None or self._group_of[tensor.storage] in self._groups

    def access(self, event: AccessEvent) -> None:
        """An event that stays in its own storage."""
        self._kinds[event.operation] = event.kind
        self._widths[event.operation] = event.width_bytes
        if self._reason is not None or not event.mask.any():
            return
        addresses = addresses_of(self._analysis.launch, event).reshape(-1)
        active = np.flatnonzero(event.mask.reshape(-1))
        rows = np.repeat(np.arange(len(event.programs)), event.mask[0].size)
        self._words.access(event, addresses, rows)
        number = -1
        for group in self._groups.values():
            inside = active[
                (addresses[active] >= group.address) & (addresses[active] < group.address + group.size_bytes)
            ]
            if not len(inside):
                continue
            if number < 0:
                number = self._keep(event)
            try:
                self._enter(event, group, addresses[inside], rows[inside], inside, number)
            except MemoryError:
                self._reason = "too large: not enough memory to see which programs meet"

    def _enter(
        self, event: AccessEvent, group: _Group, addresses: Ints, rows: Ints, flat: Ints, number: int
    ) -> None:
        if not self._has_room(group, event, addresses):
            return
        table = group.tables.get(event.operation)
        if table is None:
            table = group.tables[event.operation] = Cells(group.size_bytes // group.unit)
        count = event.width_bytes // group.unit
        first = (addresses - group.address) // group.unit
        cells = (first[:, None] + np.arange(count, dtype=np.int64)).reshape(-1)
        inside = cells < table.cells
        of = np.repeat(np.arange(len(addresses)), count)
        if not inside.all():
            cells, of = cells[inside], of[inside]
        programs = event.programs[rows]
        values = _stored(event, flat, group.unit)
        if values is not None and not inside.all():
            values = values[inside]
        per_program = max(1, event.mask[0].size)
        tags = {key: tag[of] for key, tag in self._words.tags(event, programs, addresses).items()}
        table.enter(cells, programs[of], (flat % per_program)[of], number, values, tags)

    def _has_room(self, group: _Group, event: AccessEvent, addresses: Ints) -> bool:
        """Cells small enough for this event, and not too many."""
        misfit = int(np.gcd.reduce(addresses - group.address))
        unit = gcd(group.unit, event.width_bytes, misfit)
        if unit != group.unit:
            for table in group.tables.values():
                table.refine(group.unit, group.unit // unit)
            group.unit = unit
        tables = [table for one in self._groups.values() for table in one.tables.values()]
        if group.size_bytes // group.unit > MAX_CELLS or sum(t.touched_bytes for t in tables) > MAX_BYTES:
            self._reason = "too large: the bytes that programs write are too many to compare"
            return False
        return True

    def _keep(self, event: AccessEvent) -> int:
        iterations: list[tuple[str, Ints]] = []
        programs: Ints | None = None
        for name, values in event.iterations:
            one = np.asarray(values, dtype=np.int64).reshape(-1)
            if len(one) and np.all(one == one[0]):
                one = one[:1].copy()
            elif self._kept + len(one) > MAX_ITERATION_VALUES:
                continue
            else:
                self._kept += len(one)
                programs = event.programs
            iterations.append((name, one))
        given = [event.argument] if isinstance(event.argument, int) else np.unique(event.argument).tolist()
        arguments = tuple(index for index in given if index >= 0)
        self._events.append(_Event(event.mask.shape[1:], programs, tuple(iterations), arguments))
        return len(self._events) - 1

    # --- judging -----------------------------------------------------------------------------------

    def verdicts(self) -> dict[Operation, Verdict]:
        """For each operation that was met: with a witness, proved for these contents, or why neither."""
        if self._reason is not None:
            return {operation: Unproven(self._reason) for operation in self._kinds}
        findings: dict[Operation, list[Finding]] = {operation: [] for operation in self._kinds}
        reasons: dict[Operation, str] = {}
        for group in self._groups.values():
            for left, right in self._pairs(group):
                answer = self._judge(group, left, right)
                if isinstance(answer, str):
                    reasons.setdefault(left, answer)
                    reasons.setdefault(right, answer)
                elif answer is not None:
                    findings[left].append(answer[0])
                    if left is not right:
                        findings[right].append(answer[1])
        found: dict[Operation, Verdict] = {}
        for operation, some in findings.items():
            real = [one for one in some if not one.note]
            if some and (real or operation not in reasons):
                found[operation] = Violated(tuple(real + [one for one in some if one.note]))
            elif operation in reasons:
                found[operation] = Unproven(reasons[operation])
            else:
                found[operation] = Proved("evaluated", contents=True)
        return found

    def _pairs(self, group: _Group) -> Iterator[tuple[Operation, Operation]]:
        operations = sorted(group.tables, key=lambda operation: operation.order)
        for position, left in enumerate(operations):
            for right in operations[position:]:
                kinds = (self._kinds[left], self._kinds[right])
                if kinds == ("load", "load"):
                    continue
                if kinds == ("atomic", "atomic") and self._widths[left] == self._widths[right]:
                    continue
                # The writer first, as in the symbolic check.
                yield (right, left) if kinds[0] == "load" else (left, right)

    def _judge(
        self, group: _Group, left: Operation, right: Operation
    ) -> tuple[Finding, Finding] | str | None:
        one, other = group.tables[left], group.tables[right]
        met = conflicts(one, other)
        if not len(met.cells):
            return None
        order = self._synchronisation.between_operations(left, right)
        if self._synchronisation.polls_beside_atomics(left, right, self._kinds[left], self._kinds[right]):
            return None
        ordered = self._words.ordered(order, one, other, met)
        left_over = np.flatnonzero(~ordered)
        if not len(left_over):
            return None
        if order.unclear and not order.defects:
            return order.unclear[0]
        values, position = self._compare(group, left, right, met, left_over)
        if isinstance(values, Open):
            self.uncompared |= {left, right}
            return values.reason
        detail = order.defects[0] if order.defects else ""
        if order.words and not detail:
            detail = "they synchronise on different words of memory there"
        here, there = self._witness(group, left, right, met, position)
        if left is right and there.program_id[::-1] < here.program_id[::-1]:
            here, there = there, here
        return (
            self._finding(left, right, here, there, values, detail),
            self._finding(right, left, there, here, values, detail),
        )

    def _witness(
        self, group: _Group, left: Operation, right: Operation, met: Conflict, position: int
    ) -> tuple[Place, Place]:
        cell = int(met.cells[position])
        address = group.address + cell * group.unit
        here, there = (
            self._place(
                self._events[int(trace.event[cell])],
                int(trace.program[cell]) - 1,
                int(trace.lane[cell]),
                address,
            )
            for trace in self._traces(group, left, right, met, position)
        )
        return here, there

    def _traces(
        self, group: _Group, left: Operation, right: Operation, met: Conflict, position: int
    ) -> tuple[Trace, Trace]:
        """Who met in a cell, on either side."""
        one, other = group.tables[left], group.tables[right]
        here = one.second if met.left_second[position] else one.first
        there = other.second if met.right_second[position] else other.first
        if left is right:
            here, there = one.first, one.second
        assert here is not None and there is not None
        return here, there

    def _compare(
        self, group: _Group, left: Operation, right: Operation, met: Conflict, left_over: Ints
    ) -> tuple[Values | Open | None, int]:
        """What two stores leave in all cells where they meet, and the position of a cell that shows it."""
        if not self._kinds[left] == self._kinds[right] == "store":
            return None, int(left_over[0])
        cells = met.cells[left_over]
        one, other = group.tables[left], group.tables[right]
        known, differ = stored_the_same(one, other, cells)
        if differ.any():
            return "differ", turn_to_differing(one, other, met, left_over[differ])
        position = int(left_over[np.argmin(known)])
        # Zeros that come from memory are equal by chance: memory that nobody filled in.
        kernel = self._analysis.function
        chance = not (computed(left, kernel) and computed(right, kernel))
        if known.all() and one.values is not None and not (chance and not one.values[cells].any()):
            return "same", position
        cell = int(met.cells[position])
        here, there = (
            Writer(operation, int(trace.program[cell]) - 1)
            for operation, trace in zip(
                (left, right), self._traces(group, left, right, met, position), strict=True
            )
        )
        address, whole = group.address + cell * group.unit, self._widths[left] == self._widths[right]
        found = compare(
            self._analysis, here, there, address, group.unit, whole=whole, chance=bool(known.all())
        )
        # What is equal in one cell may differ in another.
        return (Open(NOT_EVALUATED) if found == "same" else found), position

    def _place(self, event: _Event, program: int, lane: int, address: int) -> Place:
        launch = self._analysis.launch
        x, y, _ = launch.grid
        index = self._argument_at(event, address)
        offset = address - base_address(launch, index)
        tensor = tensor_of(launch, index)
        element = None
        if tensor is not None and offset % tensor.itemsize == 0:
            element = offset // tensor.itemsize
        return Place(
            (program % x, program // x % y, program // (x * y)),
            tuple(int(i) for i in np.unravel_index(lane, event.shape)) if event.shape else (),
            event.iterations_of(program),
            argument_name(launch, index),
            offset,
            element,
            True,
        )

    def _argument_at(self, event: _Event, address: int) -> int | None:
        """Which of the event's arguments has the address in its storage."""
        for index in event.arguments if len(event.arguments) > 1 else ():
            tensor = tensor_of(self._analysis.launch, index)
            if tensor is not None:
                storage = self._analysis.launch.storages[tensor.storage]
                if storage.address <= address < storage.address + storage.size_bytes:
                    return index
        return event.arguments[0] if event.arguments else None

    def _finding(
        self,
        operation: Operation,
        other: Operation,
        here: Place,
        there: Place,
        values: Values | None,
        detail: str,
    ) -> Finding:
        launch = self._analysis.launch
        kind, other_kind = self._kinds[operation], self._kinds[other]
        tensor = next(
            (t for a in launch.arguments if (t := tensor_behind(a)) is not None and a.name == here.argument),
            None,
        )
        line = line_of(other.location) if other is not operation else None
        finding = Finding(
            "race",
            kind,
            operation.location,
            message_of(kind, here, other_kind, there, line, values, detail),
            here,
            argument=here.argument,
            shape=None if tensor is None else tensor.shape,
            strides=None if tensor is None else tensor.strides,
            width_bytes=self._widths[operation],
            contents=True,
            note="same-value" if values == "same" else None,
            python_stack=launch.python_stack,
        )
        return replace(finding, other=OtherAccess(other_kind, other.location, there))


def _stored(event: AccessEvent, flat: Ints, unit: int) -> Ints | None:
    """The bits that each cell gets of what is stored, as numbers that are equal only for equal bits."""
    bits = stored_bits(event) if event.kind == "store" else ""
    if isinstance(bits, str):
        return None
    parts = np.ascontiguousarray(bits.reshape(-1)[flat]).view(np.dtype(f"<i{unit}"))
    return parts.astype(np.int64)
