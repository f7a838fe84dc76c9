"""Comparison of typed arrays with numpy: what differs, by how much, and where first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..common import other_values, outside_tolerance
from ..common.host_bytes import Bytes
from ..common.poison import words
from ..job import JobView
from ..protocol import Difference, Element, Nonfinite
from .dtypes import BITS, Number

ELEMENTS = 2 * 1024 * 1024  # per step; float64 differences of a step are held at once
LEAST_NORMAL = {"float16": 2.0**-14, "float64": 2.0**-1022}  # of the others: as float32


def extent(view: JobView) -> tuple[int, int]:
    """[start, stop) of the bytes that a view touches in its region."""
    if 0 in view["shape"]:
        return view["offset"], view["offset"]
    reach = [(n - 1) * s * view["itemsize"] for n, s in zip(view["shape"], view["strides"], strict=True)]
    low = view["offset"] + sum(r for r in reach if r < 0)
    return low, view["offset"] + sum(r for r in reach if r > 0) + view["itemsize"]


def strided(data: Bytes, start: int, view: JobView) -> Any:
    """The bits of a view's elements; ``data`` are the region's bytes from ``start`` on. Not a copy."""
    dtype = np.dtype(BITS[view["itemsize"]])
    if 0 in view["shape"]:
        return np.empty(view["shape"], dtype=dtype)
    return np.ndarray(
        tuple(view["shape"]), dtype=dtype, buffer=data, offset=view["offset"] - start,
        strides=tuple(s * view["itemsize"] for s in view["strides"]),
    )  # fmt: skip


def _blocks(shape: tuple[int, ...], start: tuple[int, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Indices of blocks small enough to be worked on at once."""
    count = int(np.prod(shape, dtype=np.int64)) if shape else 1
    if count <= ELEMENTS or not shape:
        yield start
        return
    inner = count // shape[0]
    if inner > ELEMENTS:
        for i in range(shape[0]):
            yield from _blocks(shape[1:], (*start, i))
        return
    step = max(1, ELEMENTS // max(1, inner))
    for i in range(0, shape[0], step):
        yield (*start, slice(i, min(i + step, shape[0])))


def _index(block: tuple[Any, ...], flat: int, shape: tuple[int, ...]) -> list[int]:
    within = [int(i) for i in np.unravel_index(flat, shape)] if shape else []
    fixed = [i for i in block if not isinstance(i, slice)]
    if block and isinstance(block[-1], slice):
        within[0] += block[-1].start
    return [*fixed, *within]


def compare(
    kind: Number, now: Any, expected: Any, rtol: float, atol: float, guessed: bool = False
) -> Difference:
    """Statistics of ``now`` against ``expected``, arrays of bits of one shape.

    Outside is what is beyond ``atol + rtol * |expected|`` or whose NaN or infinity does not match. If the
    type was ``guessed``, bits that no sum gives (NaN, infinities, numbers below the least normal one) may be
    something else, such as integers: no tolerance is theirs.
    """
    result = Difference(elements=int(now.size))
    first_is_outside = False
    for block in _blocks(now.shape):
        a, b = np.atleast_1d(now[block]), np.atleast_1d(expected[block])
        unequal = a != b
        count = int(unequal.sum())
        if not count:
            continue
        result.different += count
        outside = _judge(kind, a, b, unequal, rtol, atol, result, guessed)
        has_outside = bool(outside.any())
        if result.first is None or (has_outside and not first_is_outside):
            flat = int(np.argmax((outside if has_outside else unequal).reshape(-1)))
            index = _index(block, flat, a.shape if now.shape else ())
            found, wanted = (kind.text(int(each.reshape(-1)[flat])) for each in (a, b))
            result.first = Element(index, found, wanted)
            first_is_outside = has_outside
    return result


def _judge(
    kind: Number, a: Any, b: Any, unequal: Any, rtol: float, atol: float, result: Difference,
    guessed: bool = False,
) -> Any:  # fmt: skip
    """Add one block to the statistics; its elements that lie outside of the tolerance."""
    with np.errstate(all="ignore"):
        x, y = kind.decode(a), kind.decode(b)
        special = outside_tolerance.special(np, x, y)
        difference = np.abs(_apart(kind, a, b) if kind.name in ("int64", "uint64") else x - y)
        if kind.floating:
            outside = outside_tolerance.floats_outside(np, x, y, special, difference, rtol, atol)
        else:
            outside = outside_tolerance.integers_outside(unequal, difference, atol)
        if guessed:
            outside = outside | unequal & (special | _is_subnormal(kind, x) | _is_subnormal(kind, y))
        result.nan += int((np.isnan(x) != np.isnan(y)).sum())
        result.outside += int(outside.sum())
        finite = np.where(special, 0.0, difference)
        magnitude = np.where(special, 0.0, np.maximum(np.abs(x), np.abs(y)))
        result.scale = max(result.scale, float(magnitude.max()))
        result.max_abs = max(result.max_abs, float(finite.max()))
        relative = np.where(special | (y == 0), 0.0, finite / np.where(y == 0, 1.0, np.abs(y)))
        result.max_rel = max(result.max_rel, float(relative.max()))
    return outside


def _apart(kind: Number, a: Any, b: Any) -> Any:
    """a - b of integers of 64 bits, by halves: as float64 they may be equal before they are subtracted."""
    a, b = (np.ascontiguousarray(each).view(kind.name) for each in (a, b))
    high = (a >> 32).astype(np.float64) - (b >> 32).astype(np.float64)
    low = (a & 0xFFFFFFFF).astype(np.float64) - (b & 0xFFFFFFFF).astype(np.float64)
    return high * 2.0**32 + low


def _is_subnormal(kind: Number, values: Any) -> Any:
    magnitude = np.abs(values)
    return (magnitude > 0) & (magnitude < LEAST_NORMAL.get(kind.name, 2.0**-126))


def nonfinite(kind: Number, now: Any, written: Any | None) -> Nonfinite:
    """How many elements (of those whose first byte was ``written``) are NaN or infinite, and the first."""
    result = Nonfinite()
    if not kind.floating:
        return result
    for block in _blocks(now.shape):
        a = np.atleast_1d(now[block])
        counted = np.ones(a.shape, bool) if written is None else np.atleast_1d(written[block]) != 0
        bad = ~np.isfinite(kind.decode(a)) & counted
        result.elements += int(counted.sum())
        count = int(bad.sum())
        result.nonfinite += count
        if count and result.first is None:
            flat = int(np.argmax(bad.reshape(-1)))
            index = _index(block, flat, a.shape if now.shape else ())
            result.first = Element(index, kind.text(int(a.reshape(-1)[flat])))
    return result


def perturb(kind: Number, tensor: Any, chosen: Any, view: int) -> int:
    """Change the ``chosen`` elements of an array of bits in place; how many were changed.

    Floats are scaled by 0.5 to 1.5, a quarter of them with the other sign, zeros become small numbers;
    of integers a half lose or gain their lowest bit, or all if there are so few that none would. NaN and
    infinities stay.
    """
    # An axis of stride 0 shows the same elements again and again: once is right.
    for axis, stride in enumerate(tensor.strides):
        if stride == 0 and tensor.shape[axis] > 1:
            once = tuple(slice(0, 1) if i == axis else slice(None) for i in range(tensor.ndim))
            tensor, chosen = tensor[once], chosen[once]
    changed = at = 0
    for block in _blocks(tensor.shape):
        whole = tensor[block]
        part = np.atleast_1d(whole)
        numbers = words(np, other_values.PERTURB_SEED, view, at, part.size).reshape(part.shape)
        at += part.size
        wanted = np.atleast_1d(chosen[block]) != 0
        if kind.floating:
            x = kind.decode(part)
            with np.errstate(all="ignore"):
                new = other_values.perturbed(np, x, numbers.astype(np.float64) / 255, numbers % 4 == 0)
            wanted &= np.isfinite(x)
            bits = kind.encode(np.where(wanted, new, 0.0))
        else:
            half = wanted & (numbers % 2 == 1)
            wanted = half if half.any() else wanted
            bits = part ^ np.array(1, dtype=part.dtype)
        tensor[block] = np.where(wanted, bits, part).reshape(whole.shape)
        changed += int(wanted.sum())
    return changed
