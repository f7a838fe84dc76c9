"""Shared memory in TTGIR, as `ttir.tensors_only` leaves it: a program's own, all accesses in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.plan import STEPS, Plan
from kerncap.sanitizer.concrete.values import (
    Array,
    Bools,
    Incomplete,
    Ints,
    Tile,
    Unsupported,
    full,
    shape_of,
    where,
)
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.ttir.ir import Value as Name


@dataclass(eq=False)
class Buffer:
    """``data``, ``written``: with an axis over programs before its own; none before the first store."""

    shape: tuple[int, ...]
    data: Array | None = None
    written: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))


@dataclass(frozen=True, eq=False)
class View:
    """``index``: over programs, of the buffer's first axis; ``parts``, ``order``: of the axes left."""

    buffer: Buffer
    index: Ints | None
    parts: tuple[slice, ...]
    order: tuple[int, ...]

    def places(self, m: Machine, here: Bools | None, what: str) -> Iterator[tuple[Ints, Any]]:
        """Programs, and what of their buffers is seen; of the programs that are here."""
        chosen = np.arange(m.count) if here is None else np.flatnonzero(here)
        if self.index is None:
            yield chosen, (chosen, *self.parts)
            return
        index = np.broadcast_to(self.index, (m.count,))[chosen]
        for one in np.unique(index):
            if not 0 <= one < self.buffer.shape[0]:
                raise Incomplete(f"{what} has an index out of bounds")
            rows = chosen[index == one]
            yield rows, (rows, int(one), *self.parts)

    @property
    def axes(self) -> tuple[int, ...]:
        return (0, *(1 + one for one in self.order))


def _view(m: Machine, name: Name, what: str) -> View:
    found: object = m.env.get(name)
    if not isinstance(found, View):
        raise Incomplete(f"{what} has memory that is not known")
    return found


def _allocate(plan: Plan, operation: Operation) -> Step:
    [result], shape = operation.results, shape_of(operation.results[0].type)
    if operation.operands or not shape:
        raise Unsupported(where(operation))

    def step(m: Machine) -> None:
        view = View(Buffer(shape), None, tuple(slice(None) for _ in shape), tuple(range(len(shape))))
        m.env[result] = view  # type: ignore[assignment]

    return step


def _index(plan: Plan, operation: Operation) -> Step:
    source, number = operation.operands
    [result], what = operation.results, where(operation)

    def step(m: Machine) -> None:
        view = _view(m, source, what)
        if view.index is not None or view.order != tuple(range(len(view.order))):
            raise Incomplete(f"{what} is of a part")
        index = m.known(number, f"the index of {what}").data.reshape(-1).astype(np.int64)
        m.env[result] = replace(  # type: ignore[assignment]
            view, index=index, parts=view.parts[1:], order=tuple(range(len(view.order) - 1))
        )

    return step


def _slice(plan: Plan, operation: Operation) -> Step:
    [source], [result], what = operation.operands, operation.results, where(operation)
    words = operation.attributes.get("words", ())
    starts = [int(word) for word in words if str(word).isdecimal()]
    shape = shape_of(result.type)
    if len(starts) != len(shape):
        raise Unsupported(what)

    def step(m: Machine) -> None:
        view = _view(m, source, what)
        if any(one != slice(None) for one in view.parts) or view.order != tuple(range(len(starts))):
            raise Incomplete(f"{what} is of a part")
        parts = tuple(slice(at, at + size) for at, size in zip(starts, shape, strict=True))
        m.env[result] = replace(view, parts=parts)  # type: ignore[assignment]

    return step


def _transpose(plan: Plan, operation: Operation) -> Step:
    [source], [result], what = operation.operands, operation.results, where(operation)
    order = operation.attributes["order"]

    def step(m: Machine) -> None:
        view = _view(m, source, what)
        m.env[result] = replace(view, order=tuple(view.order[axis] for axis in order))  # type: ignore[assignment]

    return step


def _load(plan: Plan, operation: Operation) -> Step:
    [source], [result], what = operation.operands, operation.results, where(operation)
    shape = shape_of(result.type)

    def step(m: Machine) -> None:
        view = _view(m, source, what)
        buffer = view.buffer
        if buffer.data is None:
            raise Incomplete(f"{what} reads memory before anything is written there")
        found = np.zeros((m.count, *shape), buffer.data.dtype)
        for rows, place in view.places(m, m.active, what):
            if not buffer.written[place].all():
                raise Incomplete(f"{what} reads memory before anything is written there")
            found[rows] = buffer.data[place].transpose(view.axes)
        m.env[result] = Tile(found)

    return step


def _store(plan: Plan, operation: Operation) -> Step:
    value, target, *predicate = operation.operands
    what, shape = where(operation), shape_of(operation.operands[1].type)

    def step(m: Machine) -> None:
        view, tile = _view(m, target, what), m.known(value, what)
        if tile.undefined is not None:
            raise Incomplete(f"{what} stores what may be undefined")
        here = m.active
        for one in predicate:
            chosen = m.known(one, f"the predicate of {what}").data.reshape(-1).astype(np.bool_)
            here = np.broadcast_to(chosen if here is None else chosen & here, (m.count,))
        data = np.broadcast_to(full(tile.data, shape), (m.count, *shape))
        buffer = view.buffer
        if buffer.data is None:
            buffer.data = np.zeros((m.count, *buffer.shape), data.dtype)
            buffer.written = np.zeros(buffer.data.shape, np.bool_)
        if buffer.data.dtype != data.dtype:
            raise Incomplete(f"{what} stores another type than before")
        back = np.argsort(view.axes)
        for rows, place in view.places(m, here, what):
            buffer.data[place] = data[rows].transpose(back)
            buffer.written[place] = True

    return step


STEPS["ttg.local_alloc"] = _allocate
STEPS["ttg.memdesc_index"] = _index
STEPS["ttg.memdesc_subslice"] = _slice
STEPS["ttg.memdesc_trans"] = _transpose
STEPS["ttg.local_load"] = _load
STEPS["ttg.local_store"] = _store
