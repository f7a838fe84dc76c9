"""Which program came first: an evaluation sees one order of the atomics, where the launch may take any.

What an atomic gave back decides where a later access goes in a queue, a ticket, a compaction. That one order
keeps it inside its memory is no proof. If no two programs meet at an atomic, there is only one order;
where accesses follow what they claimed (`evaluated_claims`), all orders are known from one.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.claims.evaluated_claims import Claims, Evaluate
from kerncap.sanitizer.checks.events.elements import addresses_of
from kerncap.sanitizer.concrete.dataflow import Dataflow, alias, pointer_operand
from kerncap.sanitizer.concrete.events import AccessEvent, Ints
from kerncap.sanitizer.concrete.needed_operations import decided_by_order
from kerncap.sanitizer.findings import Check
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.walker import describe


class OrderWatcher:
    """Feed it every event of an evaluation of all programs, then ask of an operation."""

    def __init__(self, operations: Collection[Operation], analysis: Analysis) -> None:
        self._launch = analysis.launch
        self._flow = flow = Dataflow(analysis.module, analysis.function, analysis.launch)
        single = analysis.launch.program_count == 1
        self._deciding = {one: frozenset() if single else decided_by_order(flow, one) for one in operations}
        atomics = frozenset().union(*self._deciding.values())
        self._touched: dict[Operation, list[tuple[Ints, Ints]]] = {one: [] for one in atomics}
        self._doubts: dict[Operation, str | None] = {}
        self._claims = Claims(analysis, flow) if atomics else None

    def access(self, event: AccessEvent) -> None:
        if self._claims is not None:
            self._claims.access(event)
        touched = self._touched.get(event.operation)
        if touched is None or not event.mask.any():
            return
        shape = event.mask.shape
        programs = np.broadcast_to(event.programs.reshape(-1, *(1,) * (len(shape) - 1)), shape)
        rows = np.stack((addresses_of(self._launch, event)[event.mask], programs[event.mask]))
        addresses, numbers = np.unique(rows, axis=1)
        touched.append((addresses, numbers))

    def hold(self, operation: Operation, check: Check, evaluate: Evaluate) -> bool:
        """Whether what is in doubt holds in any order all the same: see `Claims.hold`."""
        return self._claims is not None and self._claims.hold(operation, check, evaluate)

    def doubt_of_race(self, operation: Operation) -> str | None:
        """Why another order may let the operation meet one of the others; None if none can."""
        own = self._flow.roots(pointer_operand(operation))
        others = (one for one in self._deciding if alias(own, self._flow.roots(pointer_operand(one))))
        return next((doubt for one in others if (doubt := self.doubt(one)) is not None), None)

    def doubt(self, operation: Operation) -> str | None:
        """Why an order that was not evaluated may take the operation elsewhere; None if none can.

        To be asked when the evaluation has ended.
        """
        if operation not in self._doubts:
            self._doubts[operation] = self._doubt(operation)
        return self._doubts[operation]

    def _doubt(self, operation: Operation) -> str | None:
        deciding = sorted(self._deciding.get(operation, ()), key=lambda one: one.order)
        touched = [pair for one in deciding for pair in self._touched[one]]
        if not touched:
            return None
        addresses = np.concatenate([one for one, _ in touched])
        programs = np.concatenate([one for _, one in touched])
        order = np.lexsort((programs, addresses))
        addresses, programs = addresses[order], programs[order]
        if not ((addresses[1:] == addresses[:-1]) & (programs[1:] != programs[:-1])).any():
            return None
        place = describe(deciding[0].location)
        return (
            f"it rests on what the atomic{place} gives back, which depends on the order of the programs; "
            "one order was evaluated"
        )
