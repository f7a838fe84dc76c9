"""Other contents for memory, the same each time: what a kernel does in place is seen on them."""

from __future__ import annotations

from typing import Any

import torch

from ..common import other_values
from ..common.poison import pattern
from .compare_views import pieces


def perturb(tensor: Any, chosen: Any, view: int) -> int:
    """Change the ``chosen`` elements of a tensor in place; how many were changed.

    Floats are scaled by 0.5 to 1.5, a quarter of them with the other sign, zeros become small numbers;
    of integers a half lose or gain their lowest bit, or all if there are so few that none would. NaN and
    infinities stay.
    """
    # An axis of stride 0 shows the same elements again and again: once is right.
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[axis] > 1:
            tensor, chosen = tensor.narrow(axis, 0, 1), chosen.narrow(axis, 0, 1)
    changed = at = 0
    for _, part, wanted in pieces(tensor, chosen):
        count = part.numel()
        numbers = pattern(torch, other_values.PERTURB_SEED, view, at, count, part.device).reshape(part.shape)
        at += count
        if not wanted.any():
            continue
        if part.dtype.is_floating_point:
            x = part.to(torch.float64)
            new = other_values.perturbed(torch, x, numbers.to(torch.float64) / 255, numbers % 4 == 0)
            wanted = wanted.to(torch.bool) & torch.isfinite(x)
            part.copy_(torch.where(wanted, new, x).to(part.dtype))
        else:
            wanted = wanted.to(torch.bool)
            half = wanted & (numbers % 2 == 1)
            wanted = half if bool(half.any()) else wanted
            # Booleans and unsigned words have no arithmetic everywhere: their lowest byte has.
            plain = part if part.dtype == torch.bool else part.to(torch.int64)
            flipped = ~plain if part.dtype == torch.bool else plain ^ 1
            part.copy_(torch.where(wanted, flipped, plain).to(part.dtype))
        changed += int(wanted.sum())
    return changed
