"""Loads of unwritten memory that are never used: a selection or a mask drops every such lane.

The launch is evaluated once more, with what those loads read undefined and nothing else. A use is a store or
an atomic of such a value, an address, a mask, or a condition that rests on one.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.shadow import ShadowMemory
from kerncap.sanitizer.concrete.events import AccessEvent, Bools, StopEvaluation
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import Limits, Track, evaluate
from kerncap.sanitizer.ttir.ir import Operation

_MOST_LOADS = 8


def unused(analysis: Analysis, loads: Collection[Operation]) -> frozenset[Operation]:
    """Those of the loads of which no lane that nobody wrote is used. For these contents of memory."""
    if _are_unused(analysis, loads):
        return frozenset(loads)
    if not 1 < len(loads) <= _MOST_LOADS:
        return frozenset()
    return frozenset(one for one in loads if _are_unused(analysis, (one,)))


def _are_unused(analysis: Analysis, loads: Collection[Operation]) -> bool:
    uses = _Uses(analysis, loads)
    options = analysis.options
    outcome = evaluate(
        analysis.module,
        analysis.function,
        analysis.launch,
        Memory(analysis.launch),
        observer=uses,
        limits=Limits(options.evaluation_limit, options.evaluation_timeout_s),
        track=Track(undefined=True, left_out=False),
        reads=uses,
    )
    return outcome.complete and not outcome.forked


class _Uses:
    """Stops the evaluation at the first use, and wherever a use can't be told."""

    def __init__(self, analysis: Analysis, loads: Collection[Operation]) -> None:
        self._loads = frozenset(loads)
        self._shadow = ShadowMemory(analysis.launch)

    def undefined(self, event: AccessEvent) -> Bools | None:
        """Of a load: the elements that nobody wrote."""
        return self._shadow.reads(event).unwritten if event.operation in self._loads else None

    def access(self, event: AccessEvent) -> None:
        if _any(event, event.steered_by_undefined) or _everywhere(event.mask_undefined):
            raise StopEvaluation
        if event.kind == "load":
            return
        if _any(event, event.undefined) or (event.new is None and event.mask.any()):
            raise StopEvaluation
        self._shadow.writes(event)


def _any(event: AccessEvent, flags: Bools | None) -> bool:
    """Whether an element that is accessed has the flag."""
    return flags is not None and bool((np.broadcast_to(flags, event.mask.shape) & event.mask).any())


def _everywhere(flags: Bools | None) -> bool:
    return flags is not None and bool(flags.any())
