"""Comparison of typed views with torch: what differs, by how much, and where first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..common import outside_tolerance
from ..job import JobView
from ..protocol import Difference, Element, Nonfinite

Idle = Callable[[Any], bool]  # whether a part of a view is zeros that nobody has written to

ELEMENTS = 2 * 1024 * 1024  # per step; float64 differences of a step are held at once
_ON_DEVICE = 8 * ELEMENTS  # per step where memory is plenty, and each step costs its launches


def never(_: Any) -> bool:
    """An `Idle` of memory of which nothing is known."""
    return False


def dtype_of(name: str) -> Any:
    """The torch dtype of that name.

    Raises ValueError for one that this torch does not have, and for complex numbers.
    """
    dtype: Any = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"torch {torch.__version__} has no dtype {name}")
    if dtype.is_complex:
        raise ValueError(f"{name}: Triton kernels take no complex tensors")
    return dtype


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def strided(data: Any, view: JobView, dtype: Any) -> Any:
    """A view over the bytes of its region; ``data`` starts at the region's base."""
    itemsize = view["itemsize"]
    skew = view["offset"] % itemsize
    usable = (data.numel() - skew) // itemsize * itemsize
    if not usable or 0 in view["shape"]:
        return torch.empty(view["shape"], dtype=dtype, device=data.device)
    typed = data[skew : skew + usable]
    if (typed.storage_offset() % itemsize) or (typed.data_ptr() % itemsize):
        typed = typed.clone()  # torch reads no typed data at an odd address
    typed = typed.view(dtype)
    first = typed.storage_offset() + view["offset"] // itemsize  # as_strided counts from the storage's start
    return typed.as_strided(view["shape"], view["strides"], first)


def pieces(
    now: Any, expected: Any, start: tuple[int, ...] = (), most: int = 0, equal: Idle = never
) -> Iterator[tuple[tuple[int, ...], Any, Any]]:
    """Blocks small enough to be compared at once, each with the index at which it starts.

    Without those that are ``equal``, which can be told of a part of ``now``.
    """
    most = most or ELEMENTS
    if equal(now):
        return
    if now.numel() <= most or now.dim() == 0:
        yield start, now, expected
        return
    inner = max(1, now[0].numel())
    if inner > most:
        for i in range(now.shape[0]):
            yield from pieces(now[i], expected[i], (*start, i), most, equal)
        return
    step = max(1, most // inner)
    for i in range(0, now.shape[0], step):
        if not equal(now[i : i + step]):
            yield (*start, i, -1), now[i : i + step], expected[i : i + step]


def _index(start: tuple[int, ...], flat: int, shape: tuple[int, ...]) -> list[int]:
    within: list[int] = []
    for extent in reversed(shape):
        within.append(flat % extent)
        flat //= extent
    within.reverse()
    if start and start[-1] == -1:  # a block of rows: its first coordinate counts from there
        return [*start[:-2], start[-2] + within[0], *within[1:]]
    return [*start, *within]


def _number(value: Any) -> str:
    # Not every dtype of eight bits gives its own item.
    return repr(float(value.to(torch.float64)) if value.dtype.is_floating_point else value.item())


def _bits(tensor: Any) -> Any:
    return tensor.view(_BITS[tensor.element_size()]) if tensor.element_size() in _BITS else tensor


def _differences(a: Any, b: Any, unequal: Any, rtol: float, atol: float) -> tuple[Any, Any, Any, Any, Any]:
    """Both as float64, which of them are NaN or infinite, how far they are apart, which are outside."""
    # float64 is exact for every narrower float, and for integers up to 2^53.
    x, y = a.to(torch.float64), b.to(torch.float64)
    special = outside_tolerance.special(torch, x, y)
    difference = _apart(a, b).abs() if a.dtype in (torch.int64, torch.uint64) else (x - y).abs()
    if a.dtype.is_floating_point:
        outside = outside_tolerance.floats_outside(torch, x, y, special, difference, rtol, atol)
    else:
        outside = outside_tolerance.integers_outside(unequal, difference, atol)
    return x, y, special, difference, outside


def _apart(a: Any, b: Any) -> Any:
    """a - b of integers of 64 bits, by halves: as float64 they may be equal before they are subtracted."""
    ah, bh = (each.view(torch.int64) >> 32 for each in (a, b))
    al, bl = (each.view(torch.int64) & 0xFFFFFFFF for each in (a, b))
    if a.dtype == torch.uint64:
        ah, bh = ah & 0xFFFFFFFF, bh & 0xFFFFFFFF
    return (ah - bh).to(torch.float64) * 2.0**32 + (al - bl).to(torch.float64)


def within(now: Any, expected: Any, rtol: float, atol: float, equal: Idle = never) -> bool:
    """Whether `compare` would find no element ``outside``; on a device this waits once, not for each step."""
    if now.dtype == torch.bool:
        now, expected = now.view(torch.uint8), expected.view(torch.uint8)
    found = torch.zeros((), dtype=torch.bool, device=now.device)
    for _, a, b in pieces(now, expected, most=_ON_DEVICE if now.is_cuda else ELEMENTS, equal=equal):
        unequal = _bits(a.contiguous()) != _bits(b.contiguous())
        found |= _differences(a, b, unequal, rtol, atol)[-1].any()
    return not bool(found)


def compare(now: Any, expected: Any, rtol: float, atol: float, equal: Idle = never) -> Difference:
    """Statistics of ``now`` against ``expected`` (same shape and dtype).

    Outside is what is beyond ``atol + rtol * |expected|`` or whose NaN or infinity does not match. Parts that
    are ``equal`` are not looked at.
    """
    result = Difference(elements=now.numel())
    if now.dtype == torch.bool:
        now, expected = now.view(torch.uint8), expected.view(torch.uint8)
    first_is_outside = False
    for start, a, b in pieces(now, expected, equal=equal):
        unequal = _bits(a.contiguous()) != _bits(b.contiguous())
        count = int(unequal.sum())
        if not count:
            continue
        result.different += count
        x, y, special, difference, outside = _differences(a, b, unequal, rtol, atol)
        result.nan += int((torch.isnan(x) != torch.isnan(y)).sum())
        result.outside += int(outside.sum())
        finite = torch.where(special, torch.zeros_like(difference), difference)
        magnitude = torch.where(special, torch.zeros_like(x), torch.maximum(x.abs(), y.abs()))
        result.scale = max(result.scale, float(magnitude.max()))
        result.max_abs = max(result.max_abs, float(finite.max()))
        relative = torch.where(y == 0, torch.zeros_like(finite), finite / y.abs())
        relative = torch.where(special, torch.zeros_like(relative), relative)
        result.max_rel = max(result.max_rel, float(relative.max()))
        has_outside = bool(outside.any())
        if result.first is None or (has_outside and not first_is_outside):
            flat = int((outside if has_outside else unequal).reshape(-1).to(torch.uint8).argmax())
            index = _index(start, flat, tuple(a.shape))
            result.first = Element(index, _number(a.reshape(-1)[flat]), _number(b.reshape(-1)[flat]))
            first_is_outside = has_outside
    return result


def nonfinite(now: Any, written: Any | None, idle: Idle = never) -> Nonfinite:
    """How many elements (of those whose first byte was ``written``) are NaN or infinite, and the first."""
    result = Nonfinite()
    if not now.dtype.is_floating_point:
        return result
    chosen = written if written is not None else torch.ones((), dtype=torch.bool).expand(now.shape)
    for start, a, w in pieces(now, chosen):
        counted = w.to(torch.bool)
        result.elements += int(counted.sum())
        if idle(a):
            continue
        bad = ~torch.isfinite(a.to(torch.float64)) & counted.to(a.device)
        count = int(bad.sum())
        result.nonfinite += count
        if count and result.first is None:
            flat = int(bad.reshape(-1).to(torch.uint8).argmax())
            result.first = Element(_index(start, flat, tuple(a.shape)), _number(a.reshape(-1)[flat]))
    return result
