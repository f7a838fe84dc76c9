"""Accesses whose address, mask or number a GPU's rounding may change: what they do decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.concrete.dataflow import WRITERS, Dataflow
from kerncap.sanitizer.concrete.events import AccessEvent, Bools, Observer
from kerncap.sanitizer.concrete.rounding import TO_INTEGER, rounded_operations, rounds_otherwise
from kerncap.sanitizer.concrete.run import Outcome
from kerncap.sanitizer.concrete.values import where
from kerncap.sanitizer.ttir.ir import Operation


class RoundingWatcher:
    """Watches an evaluation with `Track.rounding`; ``certain`` sees what every GPU accesses alike."""

    def __init__(self, deciding: dict[Operation, list[Operation]], certain: Observer) -> None:
        self._deciding = deciding
        self._certain = certain
        self._moved: set[Operation] = set()
        self._is_anywhere = False  # what a GPU may round otherwise was stored, and may be read again

    def access(self, event: AccessEvent) -> None:
        moved = _moved(event)
        if moved is not None and moved.any():
            self._moved.add(event.operation)
            event = replace(event, mask=event.mask & ~moved)
        if event.operation.name in WRITERS and event.undefined is not None:
            self._is_anywhere |= bool((event.undefined & event.mask).any())
        self._certain.access(event)

    def ended(self, outcome: Outcome) -> None:
        self._is_anywhere |= outcome.forked or not outcome.complete

    def doubt(self, operation: Operation) -> str | None:
        """Why a GPU may access something else; None if it can't. To be asked at the evaluation's end."""
        deciding = self._deciding.get(operation)
        if not deciding or not (self._is_anywhere or operation in self._moved):
            return None
        first = deciding[0]
        if first.name in TO_INTEGER:  # of an exact float
            return f"it rests on {where(first)}: NaN, or a float out of range, has no integer value"
        return f"it rests on {where(first)}, which a GPU may round to another address, mask or trip count"


def deciding_roundings(
    analysis: Analysis, operations: Iterable[Operation]
) -> dict[Operation, list[Operation]]:
    """By operation, what decides where it goes and is rounded otherwise on a GPU, if there is any."""
    flow: Dataflow | None = None
    found: dict[Operation, list[Operation]] = {}
    for operation in dict.fromkeys(operations):
        if flow is None:
            flow = Dataflow(analysis.module, analysis.function, analysis.launch)
            if not any(rounds_otherwise(one) for one in flow.operations):
                return {}
        if behind := rounded_operations(flow, operation):
            found[operation] = behind
    return found


def _moved(event: AccessEvent) -> Bools | None:
    found = event.mask_undefined
    if event.steered_by_undefined is not None:
        steered = np.broadcast_to(event.steered_by_undefined, event.mask.shape) & event.mask
        found = steered if found is None else found | steered
    return None if found is None else np.broadcast_to(found, event.mask.shape)
