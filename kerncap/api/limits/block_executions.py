"""How often each block of a kernel runs: only its control flow, evaluated for all programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.concrete.dataflow import Dataflow, controls
from kerncap.sanitizer.concrete.machine import BlockPlan, Limits, Machine, Track
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.needed_operations import Slice, needed
from kerncap.sanitizer.concrete.plan import Plan
from kerncap.sanitizer.concrete.run import Outcome, evaluate
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import Block, Function, Module, Operation

_CONTROL = frozenset(
    ("scf.for", "scf.while", "scf.if", "scf.execute_region", "tt.call", "cf.br", "cf.cond_br", "cf.switch")
)


class SlicedPlan(Plan):
    """A plan of what one slice needs, with nothing tracked."""

    def __init__(self, module: Module, function: Function, launch: Launch, sliced: Slice) -> None:
        super().__init__(module, function, launch, Track(), sliced, None)


class _CountingPlan(SlicedPlan):
    def __init__(self, module: Module, function: Function, launch: Launch, sliced: Slice) -> None:
        super().__init__(module, function, launch, sliced)
        self.executions: Counter[Block] = Counter()
        self._counted: dict[Block, BlockPlan] = {}

    def block(self, block: Block) -> BlockPlan:
        found = self._counted.get(block)
        if found is None:
            plan = super().block(block)

            def count(m: Machine) -> None:
                self.executions[block] += m.count if m.active is None else int(np.count_nonzero(m.active))

            found = self._counted[block] = replace(
                plan,
                steps=((False, count), *plan.steps),
                plain=None if plan.plain is None else (count, *plan.plain),
            )
        return found


def controlling(operations: Iterable[Operation]) -> list[Operation]:
    """The operations that decide what runs."""
    return [operation for operation in operations if operation.name in _CONTROL]


def executions(
    module: Module, function: Function, launch: Launch, limits: Limits
) -> tuple[Counter[Block], Slice, Outcome]:
    """For each block, by how many programs it was run, summed over its runs.

    The slice says what had to be evaluated for that; an incomplete outcome, why the numbers are too small.
    """
    flow = Dataflow(module, function, launch)
    steering = controlling(flow.operations)
    sliced = needed(flow, steering, [value for operation in steering for value in controls(operation)])
    plan = _CountingPlan(module, function, launch, sliced)
    outcome = evaluate(module, function, launch, Memory(launch), limits=limits, plan=plan)
    return plan.executions, sliced, outcome
