"""cut_cross_entropy."""

from __future__ import annotations

from typing import Any

import torch
from call import call, integers, leaf


@call(B=(1, 17, 130), V=(17, 100, 1000), D=(48, 60, 96), SOFTCAP=(None, 30.0), IGNORED=(False, True))
def linear_cross_entropy(B: int, V: int, D: int, SOFTCAP: Any, IGNORED: bool) -> Any:
    from cut_cross_entropy.cce import cce_linear_cross_entropy

    targets = integers(V, B)
    if IGNORED:
        targets[::2] = -100
    e, c = (leaf(n, D, dtype=torch.bfloat16) for n in (B, V))
    return cce_linear_cross_entropy(e, c, targets, -100, SOFTCAP, "mean", False, "auto")


@call(B=(2, 3), T=(1, 17), V=(17, 100), D=(48,))
def shifted(B: int, T: int, V: int, D: int) -> Any:
    from cut_cross_entropy.cce import cce_linear_cross_entropy

    e, c = leaf(B, T + 1, D, dtype=torch.bfloat16), leaf(V, D, dtype=torch.bfloat16)
    return cce_linear_cross_entropy(e, c, integers(V, B, T + 1), -100, None, "none", True, None)
