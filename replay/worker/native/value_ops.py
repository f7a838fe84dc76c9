"""What judges ask of a native worker beyond running and comparing: errors and other values, with numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..common import other_values
from ..common.boundary_values import on_boundaries
from ..common.error_statistics import FORMATS, Boxes, Errors
from ..common.failures import Refused
from ..common.poison import words
from ..job import Job
from ..protocol import REFERENCE, ErrorBoxes, ErrorStatistics, Limits, Spread
from . import compare_arrays
from .dtypes import Number, as_parts, number

_SMALL = 4096  # elements, as in `torch_backend/boundaries.py`
_MOST_ELEMENTS = 1 << 27  # of a tensor that gets other values: they are all on the host at once


class Judging:
    """Operations of a native session."""

    job: Job
    states: Any
    device: Any
    _expected: dict[int, Any]

    def errors(self, views: list[Limits], against: str, file: str | None) -> list[ErrorStatistics]:
        if file is not None:
            raise Refused("errors against values in a file: the native backend has no such operation")
        found = []
        for index, rtol, atol in views:
            view = as_parts(self.job["views"][index])
            errors = Errors(view["dtype"], tuple(view["shape"]), rtol, atol)
            for now, expected in self._blocks(index, against):
                errors.add(now, expected)
            found.append(replace(errors.result(), view=index, name=view.get("name", "")))
        return found

    def boxes(self, views: list[Limits], against: str) -> list[ErrorBoxes]:
        found = []
        for index, rtol, atol in views:
            boxes = Boxes(tuple(as_parts(self.job["views"][index])["shape"]), rtol, atol)
            for now, expected in self._blocks(index, against):
                boxes.add(now, expected)
            found.append(replace(boxes.result(), view=index))
        return found

    def redraw(self, views: list[int], seed: int, repeats: bool, spread: Spread | None) -> list[int]:
        if repeats:
            raise Refused("values given twice: for launches on the host only")
        changed = []
        for index in views:
            view = as_parts(self.job["views"][index])
            start, stop = compare_arrays.extent(view)
            data = self.states.read(None, view["region"], start, stop)
            bits = compare_arrays.strided(data, start, view)
            if redraw(number(view), bits, seed, index, spread, self.job["launch"]["mode"] != "native"):
                self.device.upload(self.states.base(view["region"]) + start, data)
                changed.append(index)
        return changed

    def boundaries(self, views: list[int], known: list[float], own: list[float]) -> list[int]:
        changed: list[int] = []
        given: list[tuple[Number, Any]] = []
        for index in views:
            view = as_parts(self.job["views"][index])
            kind = number(view)
            start, stop = compare_arrays.extent(view)
            data = self.states.read(None, view["region"], start, stop)
            bits = compare_arrays.strided(data, start, view)
            others = [_numbers(k, b) for k, b in given if k.floating == kind.floating]
            if _give_boundaries(kind, bits, others, known, own, index):
                self.device.upload(self.states.base(view["region"]) + start, data)
                changed.append(index)
            if 0 < bits.size <= _MOST_ELEMENTS:
                given.append((kind, bits))
        return changed

    def _blocks(self, index: int, against: str) -> Iterator[tuple[Any, Any]]:
        kind, now = self._typed(self.job["views"][index], None)  # type: ignore[attr-defined]
        if against == REFERENCE:
            expected = self._expected[index]
        else:
            expected = self._typed(self.job["views"][index], against)[1]  # type: ignore[attr-defined]
        now, expected = now.reshape(-1), expected.reshape(-1)
        for at in range(0, now.size, compare_arrays.ELEMENTS):
            yield (
                kind.decode(now[at : at + compare_arrays.ELEMENTS]),
                kind.decode(expected[at : at + compare_arrays.ELEMENTS]),
            )


def redraw(
    kind: Number, bits: Any, seed: int, view: int, spread: Spread | None = None, integers: bool = False
) -> bool:
    """Change an array of bits in place, as `torch_backend/redraw.py` does it; whether anything changed.

    ``integers`` are changed too: of launches whose arguments are typed. Else they may be anything.
    """
    # An axis of stride 0 shows the same elements again and again: once is right.
    for axis, stride in enumerate(bits.strides):
        if stride == 0 and bits.shape[axis] > 1:
            bits = bits[tuple(slice(0, 1) if i == axis else slice(None) for i in range(bits.ndim))]
    if not 0 < bits.size <= _MOST_ELEMENTS:
        return False
    if not kind.floating:
        return integers and kind.name != "bool" and _reordered(kind, bits, seed)
    x = kind.decode(np.ascontiguousarray(bits))
    ordered = _is_sorted(x)
    x = x.reshape(-1)
    finite = np.flatnonzero(np.isfinite(x))
    values = x[finite]
    if not values.size:
        return False
    low, high = values.min(), values.max()
    if ordered and low != high:
        x[finite] = other_values.shrunk_in_order(values, seed)
    else:
        u = _numbers_to_1(other_values.REDRAW_SEED + 2 * seed, view, x.size)[finite]
        moved = values[_places(values.size, seed)]
        x[finite] = other_values.shrunk(moved, u) if values.any() else other_values.small(u)
    if spread is not None:
        u, v = _numbers_to_1(other_values.SPREAD_SEED, view, 2 * finite.size).reshape(2, -1)
        epsilon = 2.0 ** (1 - FORMATS.get(kind.name, (1, 0))[0])
        x[finite] = other_values.spread(np, x[finite], u, v, spread, ordered, epsilon, low, high)
    new = np.where(np.isfinite(x), kind.encode(np.where(np.isfinite(x), x, 0.0)), bits.reshape(-1))
    changed = bool((new != bits.reshape(-1)).any())
    bits[...] = new.reshape(bits.shape)
    return changed


def _numbers_to_1(seed: int, view: int, count: int) -> Any:
    return words(np, seed, view, 0, count).astype(np.float64) / 255


def _give_boundaries(
    kind: Number, bits: Any, others: list[Any], known: list[float], own: list[float], view: int
) -> bool:
    """Change bits in place, as `torch_backend/boundaries.py` does it; whether anything changed."""
    for axis, stride in enumerate(bits.strides):
        if stride == 0 and bits.shape[axis] > 1:
            bits = bits[tuple(slice(0, 1) if i == axis else slice(None) for i in range(bits.ndim))]
    if not 0 < bits.size <= _MOST_ELEMENTS or kind.name != "bool" and _is_sorted(kind.native(bits)):
        return False
    x = _numbers(kind, bits)
    if kind.floating:
        finite = x[np.isfinite(x)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    elif kind.name == "bool":
        low, high, known, own = 0, 1, [], []
    else:
        low, high = x.min(), x.max()
    near = [one for one in others if one.size == x.size or one.size <= _SMALL]
    new = on_boundaries(x, low, high, near, known, own, view)
    if kind.floating:
        finite = np.isfinite(new)
        encoded = np.where(finite, kind.encode(np.where(finite, new, 0.0)), bits.reshape(-1))
    else:
        encoded = new.view(bits.dtype)
    changed = bool((encoded != bits.reshape(-1)).any())
    bits[...] = encoded.reshape(bits.shape)
    return changed


def _numbers(kind: Number, bits: Any) -> Any:
    """Flat: float64, or integers."""
    found = kind.decode(np.ascontiguousarray(bits)) if kind.floating else kind.native(bits)
    return (found.view(np.uint8) if kind.name == "bool" else found).reshape(-1)


def _reordered(kind: Number, bits: Any, seed: int) -> bool:
    """Integers change places, where they are in no order that may mean something."""
    numbers = kind.native(bits)
    if _is_sorted(numbers) or numbers.min() == numbers.max():
        return False
    old = np.ascontiguousarray(bits).reshape(-1)
    new = old[_places(old.size, seed)]
    changed = bool((new != old).any())
    bits[...] = new.reshape(bits.shape)
    return changed


def _places(n: int, seed: int) -> Any:
    return other_values.permutation(np.arange(n), n, seed)


def _is_sorted(x: Any) -> bool:
    """Whether all values ascend, or each row's do. (Of rows, no more than a step's worth are looked at.)"""
    if x.ndim == 0 or x.shape[-1] < 3:
        return False
    rows = x.reshape(-1, x.shape[-1])[: max(1, compare_arrays.ELEMENTS // x.shape[-1])]
    return bool((rows[:, 1:] >= rows[:, :-1]).all())
