"""Other values for a tensor, of the same kind: what a kernel computes is seen on them, not on one input.

Values change places and shrink by up to a quarter, so their range, signs, zeros and infinities stay.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..common import other_values
from ..common.poison import pattern
from ..protocol import Spread
from .compare_views import ELEMENTS, Idle, never


def redraw(
    tensor: Any, seed: int, view: int, repeats: bool = False, spread: Spread | None = None,
    idle: Idle = never,
) -> bool:  # fmt: skip
    """Change a tensor in place, the same way each time; whether anything changed.

    What is sorted stays sorted (all of it shrinks alike), equal values become unequal, zeros alone become
    small numbers. Integers only change places, and not if they are sorted: offsets must stay in order.
    With ``repeats`` each second of them is given twice, and the others are left out. With a ``spread`` floats
    leave their range.
    """
    # An axis of stride 0 shows the same elements again and again: once is right.
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    if not tensor.numel() or tensor.dtype == torch.bool:
        return False
    floating = tensor.dtype.is_floating_point
    wide = torch.float64 if floating else torch.int64
    flat = tensor.reshape(-1)
    ordered = is_sorted(tensor, wide, idle)
    low, high = value_range(flat, wide, idle)
    if not floating and (ordered or low == high):
        return False
    changed = False
    for start in range(0, flat.numel(), ELEMENTS):
        part = flat[start : start + ELEMENTS]
        if spread is None and not (floating and low == high) and idle(part):
            continue  # zeros change places with zeros
        old = part.to(wide, copy=True)
        if not floating:
            places = _places(old.numel(), seed, old.device)
            new = old[places // 2 * 2 if repeats else places]
        else:
            new = _floats(old, seed, view, start, ordered, low, high)
            if spread is not None:
                u, v = _numbers(other_values.SPREAD_SEED, view, start, 2 * new.numel(), new.device).chunk(2)
                epsilon = torch.finfo(tensor.dtype).eps
                new = other_values.spread(torch, new, u, v, spread, ordered, epsilon, low, high)
        part.copy_(new.to(flat.dtype))
        changed = changed or not torch.equal(part.to(wide).nan_to_num(), old.nan_to_num())
    if not tensor.is_contiguous():  # what was changed is a copy
        tensor.copy_(flat.view(tensor.shape))
    return changed


def _numbers(seed: int, view: int, start: int, count: int, device: Any) -> Any:
    """From 0 to 1."""
    return pattern(torch, seed, view, start, count, device).to(torch.float64) / 255


def _floats(x: Any, seed: int, view: int, start: int, ordered: bool, low: float, high: float) -> Any:
    finite = torch.isfinite(x)
    if ordered and low != high:
        return torch.where(finite, other_values.shrunk_in_order(x, seed), x)
    u = _numbers(other_values.REDRAW_SEED + 2 * seed, view, start, x.numel(), x.device)
    if low == high == 0.0:
        return torch.where(finite, other_values.small(u), x)
    values = x[finite]
    x = x.clone()
    x[finite] = other_values.shrunk(values[_places(values.numel(), seed, x.device)], u[finite])
    return x


def _places(n: int, seed: int, device: Any) -> Any:
    return other_values.permutation(torch.arange(n, dtype=torch.int64, device=device), n, seed)


def is_sorted(tensor: Any, wide: Any, idle: Idle) -> bool:
    """Whether all values ascend, or each row's do. (Of rows, no more than a step's worth are looked at.)"""
    if tensor.shape[-1:].numel() < 3 or tensor.dim() == 0:
        return False
    rows = tensor.reshape(-1, tensor.shape[-1])[: max(1, ELEMENTS // max(1, tensor.shape[-1]))]
    for start in range(0, rows.shape[1] - 1, ELEMENTS):
        part = rows[:, start : start + ELEMENTS + 1]
        if idle(part):
            continue
        part = part.to(wide)
        if not bool((part[:, 1:] >= part[:, :-1]).all()):
            return False
    return True


def value_range(flat: Any, wide: Any, idle: Idle) -> tuple[float, float]:
    """The least and the largest finite value; (0, 0) if no value is finite."""
    low, high = math.inf, -math.inf
    for start in range(0, flat.numel(), ELEMENTS):
        part = flat[start : start + ELEMENTS]
        if idle(part):
            low, high = min(low, 0.0), max(high, 0.0)
            continue
        part = part.to(wide)
        part = part[torch.isfinite(part)] if wide.is_floating_point else part
        if part.numel():
            low, high = min(low, float(part.min())), max(high, float(part.max()))
    return (low, high) if low <= high else (0.0, 0.0)
