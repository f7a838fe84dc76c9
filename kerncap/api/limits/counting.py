"""Counts a Triton launch's work from its TTIR: bytes from every address, operations from control flow."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from kerncap.api.limits import operation_counts
from kerncap.api.limits.alike_programs import representatives
from kerncap.api.limits.block_executions import SlicedPlan, executions
from kerncap.api.limits.touched_bytes import Touched
from kerncap.replay.limits.launch_work import SECTOR_BYTES, Traffic, Work
from kerncap.sanitizer.concrete.dataflow import ATOMICS, LOADS, MEMORY, STORES, Dataflow
from kerncap.sanitizer.concrete.events import Observer
from kerncap.sanitizer.concrete.machine import Limits
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.needed_operations import Slice, address_operands, needed
from kerncap.sanitizer.concrete.run import Outcome, evaluate
from kerncap.sanitizer.concrete.values import element_of, shape_of, width_bytes
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Block, Function, Module, Operation, PointerType, TensorType

Ints = npt.NDArray[np.int64]

ELEMENT_OPERATIONS = 20_000_000_000
SECONDS = 30.0


def count(launch: Launch, seconds: float = SECONDS) -> Work:
    """The launch's work. Bytes are an upper bound, and said to be, if ``seconds`` do not suffice."""
    return _Count(launch, seconds).work()


class _Count:
    def __init__(self, launch: Launch, seconds: float) -> None:
        self.launch = launch
        self.module: Module = read_module(launch.ttir)
        self.function: Function = self.module.kernel
        self.flow = Dataflow(self.module, self.function, launch)
        self.notes: dict[str, None] = {}
        self.contents = False
        self._deadline = time.monotonic() + seconds

    def work(self) -> Work:
        runs, sliced, outcome = executions(self.module, self.function, self.launch, self._limits())
        self._depends(sliced)
        self._noted(outcome)
        if not outcome.complete:
            self.notes[f"operations are too few: {outcome.reason}"] = None
        touched = Touched(self.launch)
        reason = self._touch(touched)
        if reason is None and touched.outside:
            reason = f"{touched.outside:,} elements are in memory that was not captured"
        if any(operation.name == "tt.atomic_poll" for operation in self.flow.operations):
            self.notes["it waits for other programs: the number of its polls is not counted exactly"] = None
        if reason is None:
            read, written = touched.traffic("read"), touched.traffic("written")
            tensors = tuple(touched.tensors())
        else:
            self.notes[f"bytes are an upper bound: {reason}"] = None
            read, written, tensors = (
                self._bound(runs, LOADS | ATOMICS),
                self._bound(runs, STORES | ATOMICS),
                (),
            )
        return Work(
            source="TTIR",
            read=read,
            written=written,
            operations=operation_counts.of_launch(runs),
            exact=reason is None,
            contents=self.contents,
            lanes=touched.lanes,
            masked_lanes=touched.masked_lanes,
            atomics=touched.atomics,
            programs=self.launch.program_count,
            tensors=tensors,
            notes=tuple(self.notes),
        )

    def _limits(self) -> Limits:
        return Limits(ELEMENT_OPERATIONS, max(0.0, self._deadline - time.monotonic()))

    def _depends(self, sliced: Slice) -> None:
        self.contents |= any(operation.name in LOADS | ATOMICS for operation in sliced.evaluated)

    def _noted(self, outcome: Outcome) -> None:
        for note in outcome.notes:
            self.notes[note] = None

    # --- bytes ---------------------------------------------------------------------------------------

    def _touch(self, touched: Touched) -> str | None:
        """Evaluate all accesses, those of which the same programs stand for all together; why not."""
        groups: dict[bytes, tuple[Ints, Ints, list[Operation]]] = {}
        for operation in self.flow.operations:
            if operation.name in MEMORY:
                programs, weights = representatives(
                    self.module, self.function, self.launch, self.flow, operation, self._limits()
                )
                key = programs.tobytes() + weights.tobytes()
                groups.setdefault(key, (programs, weights, []))[2].append(operation)
        for programs, weights, accesses in groups.values():
            touched.watch(frozenset(accesses), programs, weights)
            outcome = self._evaluate(accesses, programs, touched)
            if not outcome.complete:
                return outcome.reason
        return None

    def _evaluate(self, accesses: Collection[Operation], programs: Ints, observer: Observer) -> Outcome:
        wanted = [value for operation in accesses for value in address_operands(operation)]
        sliced = needed(self.flow, accesses, wanted)
        self._depends(sliced)
        outcome = evaluate(
            self.module,
            self.function,
            self.launch,
            Memory(self.launch),
            programs=programs,
            observer=observer,
            limits=self._limits(),
            plan=SlicedPlan(self.module, self.function, self.launch, sliced),
        )
        self._noted(outcome)
        return outcome

    def _bound(self, runs: Counter[Block], kinds: frozenset[str]) -> Traffic:
        """What all lanes would move, and no more unique bytes than there are in the storages reached."""
        requested = 0
        storages: set[int] = set()
        for operation in self.flow.operations:
            if operation.name in kinds:
                requested += runs.get(operation.parent, 0) * _tile_bytes(operation) if operation.parent else 0
                storages |= self.flow.roots(operation.operands[0])
        every = range(len(self.launch.storages))
        held = every if -1 in storages else storages
        size = min(requested, sum(self.launch.storages[one].size_bytes for one in held))
        size = -(-size // SECTOR_BYTES) * SECTOR_BYTES
        return Traffic(requested, requested, size, size)


def _tile_bytes(operation: Operation) -> int:
    """Bytes of all lanes of one execution."""
    pointer = operation.operands[0].type
    tiles = [value.type for value in (*operation.results, *operation.operands)]
    shape = max((shape_of(kind) for kind in tiles), key=lambda one: int(np.prod(one, dtype=np.int64)))
    element = element_of(pointer)
    if isinstance(element, PointerType):
        pointee = element.pointee
        element = pointee.element if isinstance(pointee, TensorType) else pointee
    elif operation.results:
        element = element_of(operation.results[0].type)
    else:
        element = element_of(operation.operands[-1].type)
    return int(np.prod(shape, dtype=np.int64)) * width_bytes(element)
