"""Values on which a comparison turns, for tensors: see `common/boundary_values.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..common.boundary_values import on_boundaries
from .compare_views import ELEMENTS, Idle
from .redraw import is_sorted, value_range

_SMALL = 4096  # elements: such a tensor may be compared with each part of another one


def give_boundaries(
    tensor: Any, others: Sequence[Any], known: Sequence[float], own: Sequence[float], view: int, idle: Idle
) -> bool:
    """Change a tensor in place, the same way each time; whether anything changed. What is sorted stays."""
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    floating, boolean = tensor.dtype.is_floating_point, tensor.dtype == torch.bool
    wide = torch.float64 if floating else torch.int64
    if not tensor.numel() or is_sorted(tensor, wide, idle) and not boolean:
        return False
    flat = tensor.reshape(-1)
    if boolean:
        low, high, known, own = 0.0, 1.0, (), ()
    else:
        low, high = value_range(flat, wide, idle)
    changed = False
    for start in range(0, flat.numel(), ELEMENTS):
        part = flat[start : start + ELEMENTS]
        if idle(part):
            continue
        places = (_same_places(other, flat.numel(), start) for other in others)
        near = [_numbers(other) for other in places if other is not None]
        old = _numbers(part)
        new = on_boundaries(old, low, high, near, known, own, view)
        changed = changed or new.tobytes() != old.tobytes()  # zeros of both signs are two values
        part.copy_(torch.from_numpy(new).to(part.dtype))
    if not tensor.is_contiguous():  # what was changed is a copy
        tensor.copy_(flat.view(tensor.shape))
    return changed


def _same_places(other: Any, numel: int, start: int) -> Any:
    if 0 < other.numel() <= _SMALL and other.numel() != numel:
        return other.reshape(-1)
    return other.reshape(-1)[start : start + ELEMENTS] if other.numel() == numel else None


def _numbers(part: Any) -> Any:
    if part.dtype.is_floating_point:
        part = part.to(torch.float64)
    return (part.to(torch.uint8) if part.dtype == torch.bool else part).cpu().contiguous().numpy()
