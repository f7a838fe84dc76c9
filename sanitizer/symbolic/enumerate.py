"""Conditions and expressions at every point of small spaces, by numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.symbolic.division import fits
from kerncap.sanitizer.symbolic.evaluate import WORD, ReadSource, evaluate_partially
from kerncap.sanitizer.symbolic.node import Expr, Interval, Variable
from kerncap.sanitizer.symbolic.traversal import nodes_of

CHUNK = 1 << 17  # points at a time: some arrays of this size stay in a cache

Array = npt.NDArray[Any]
_DRAWN = 1 << 11  # points of a sample
_ORDER = {"program": 0, "loop": 1, "free": 2, "lane": 3}


def points_of(variables: Iterable[Variable]) -> int:
    return prod(v.points for v in variables)


def cost_of(roots: Iterable[Expr], variables: Iterable[Variable]) -> int:
    """About how many operations on machine words it takes to evaluate at every point."""
    wide = 30  # an operation on Python's integers
    each = sum(
        wide if n.sort == "int" and n.args and not fits((n.low, n.high), WORD) else 1 for n in nodes_of(roots)
    )
    return each * points_of(variables)


@dataclass(frozen=True)
class Block:
    """Some points of a space: one array per variable, which broadcast to ``shape``."""

    arrays: dict[Variable, Array]
    shape: tuple[int, ...]

    def point(self, index: int) -> dict[Variable, int]:
        position = np.unravel_index(index, self.shape)
        return {
            v: int(a[tuple(p if n > 1 else 0 for p, n in zip(position, a.shape, strict=True))])
            for v, a in self.arrays.items()
        }


def blocks(variables: Iterable[Variable], chunk: int = CHUNK) -> Iterator[Block]:
    """Every point once. Inner variables get an axis each: what depends on few of them is cheap."""
    ordered = sorted(variables, key=lambda v: (_ORDER[v.kind], -v.points, v.name))
    inner: list[Variable] = []
    size = 1
    while ordered and size * ordered[-1].points <= chunk:
        size *= ordered[-1].points
        inner.insert(0, ordered.pop())
    axes = 1 + len(inner)
    arrays: dict[Variable, Array] = {}
    for axis, v in enumerate(inner, 1):
        shape = [1] * axes
        shape[axis] = v.points
        arrays[v] = np.arange(v.low, v.high + 1, dtype=np.int64).reshape(shape)
    outer = points_of(ordered)
    step = max(1, chunk // size)
    for start in range(0, outer, step):
        flat = np.arange(start, min(outer, start + step), dtype=np.int64)
        here = dict(arrays)
        for v in reversed(ordered):
            here[v] = (flat % v.points + v.low).reshape([-1] + [1] * len(inner))
            flat = flat // v.points
        yield Block(here, (min(outer, start + step) - start, *(v.points for v in inner)))


@dataclass(frozen=True)
class Nowhere:
    """The condition holds at no point."""


@dataclass(frozen=True)
class Somewhere:
    point: dict[Variable, int]


@dataclass(frozen=True)
class Perhaps:
    """Points are left where something that is not known decides."""

    reason: str


def sample(condition: Expr, memory: ReadSource | None) -> dict[Variable, int] | None:
    """A point where the condition holds, if it is among some corners and some drawn at random."""
    variables = sorted(condition.variables, key=lambda v: (_ORDER[v.kind], v.name, v.low, v.high))
    draw = np.random.default_rng(len(variables))
    arrays = {}
    for v in variables:
        if not fits((v.low, v.high), WORD):
            return None
        values = draw.integers(v.low, v.high, _DRAWN, np.int64, endpoint=True)
        corners = draw.integers(0, 4, _DRAWN)
        values[corners == 0] = v.low
        values[corners == 1] = v.high
        arrays[v] = values
    (result,) = evaluate_partially([condition], arrays, memory)
    holds = np.broadcast_to(result.value if result.known is None else result.value & result.known, (_DRAWN,))
    if not holds.any():
        return None
    index = int(np.argmax(holds))
    return {v: int(a[index]) for v, a in arrays.items()}


def exhaust(condition: Expr, memory: ReadSource | None) -> Nowhere | Somewhere | Perhaps:
    """Evaluates the condition at every point of its variables."""
    reason = ""
    first = 1 << 12  # most conditions that hold anywhere hold early
    for chunk in (first, CHUNK):
        for block in blocks(condition.variables, chunk):
            (result,) = evaluate_partially([condition], block.arrays, memory)
            holds = result.value if result.known is None else result.value & result.known
            if np.any(holds):
                where = np.broadcast_to(holds, block.shape)
                return Somewhere(block.point(int(np.argmax(where))))
            if result.known is not None and not np.all(result.known):
                reason = reason or result.reason or "a value is not known"
            if chunk == first:
                break
        if points_of(condition.variables) <= first:
            break
    return Perhaps(reason) if reason else Nowhere()


@dataclass
class Projection:
    """What some expressions are over all points of some variables where a condition may hold."""

    variables: tuple[Variable, ...]
    bounds: dict[Expr, Interval] = field(default_factory=dict)
    extremes: list[dict[Variable, int]] = field(
        default_factory=list
    )  # points where one is smallest or largest
    points: int = 0  # where the condition may hold


def project(
    expressions: Sequence[Expr], condition: Expr, variables: Iterable[Variable], memory: ReadSource | None
) -> Projection:
    """Exact bounds of integer expressions over the points of ``variables`` where ``condition`` may hold.

    An expression that is not known at one of these points gets no bounds. All variables of the
    expressions and of the condition are among ``variables``.
    """
    result = Projection(tuple(variables))
    lowest: dict[Expr, tuple[int, dict[Variable, int]]] = {}
    highest: dict[Expr, tuple[int, dict[Variable, int]]] = {}
    without: set[Expr] = set()
    for block in blocks(result.variables):
        evaluated = evaluate_partially([condition, *expressions], block.arrays, memory)
        chosen = evaluated[0]
        inside = chosen.value if chosen.known is None else chosen.value | ~chosen.known
        mask = np.broadcast_to(inside, block.shape).reshape(-1)
        count = int(np.count_nonzero(mask))
        result.points += count
        if not count:
            continue
        where = np.flatnonzero(mask)
        for e, values in zip(expressions, evaluated[1:], strict=True):
            if e in without:
                continue
            if values.known is not None:
                known = np.broadcast_to(values.known, block.shape).reshape(-1)
                if not known[where].all():
                    without.add(e)
                    continue
            flat = np.broadcast_to(values.value, block.shape).reshape(-1)
            picked = flat if count == flat.size else flat[where]
            for table, better in ((lowest, np.argmin), (highest, np.argmax)):
                index = int(better(picked))
                number = int(picked[index])
                old = table.get(e)
                if old is None or (number < old[0] if table is lowest else number > old[0]):
                    position = index if count == flat.size else int(where[index])
                    table[e] = (number, block.point(position))
    for e in expressions:
        if e not in without and e in lowest:
            result.bounds[e] = lowest[e][0], highest[e][0]
            for point in (highest[e][1], lowest[e][1]):
                if point not in result.extremes:
                    result.extremes.append(point)
    return result
