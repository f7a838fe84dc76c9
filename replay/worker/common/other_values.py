"""Other values of the same kind: the one rule for each element, for arrays of numpy and of torch.

``library`` is the module that the arrays are of; ``u`` and ``v`` are numbers from 0 to 1, made of `poison`.
"""

from __future__ import annotations

import math
from typing import Any

from ..protocol import Spread

PERTURB_SEED = 8
REDRAW_SEED = 10
SPREAD_SEED = 1000


def small(u: Any) -> Any:
    """In place of zeros."""
    return (u + 0.05) * 0.25


def perturbed(library: Any, x: Any, u: Any, negative: Any) -> Any:
    """Floats that are scaled by 0.5 to 1.5, some with the other sign."""
    new = library.where(x == 0, small(u), x * (0.5 + u))
    return library.where(negative, -new, new)


def shrunk_in_order(x: Any, seed: int) -> Any:
    return x * (0.75 + 0.03125 * (seed % 4))


def shrunk(x: Any, u: Any) -> Any:
    return x * (0.75 + 0.25 * u)


def permutation(places: Any, n: int, seed: int) -> Any:
    """Of n places, given as 0 to n - 1: a step that has no common divisor with n."""
    step = max(1, int(n * 0.6180339887)) + 2 * seed
    while math.gcd(step, n) != 1:
        step += 1
    return (places * step + n // 3 + seed) % n


def spread(
    library: Any, x: Any, u: Any, v: Any, by: Spread, ordered: bool, epsilon: float, low: float, high: float
) -> Any:  # fmt: skip
    """Values beyond their range, which is from ``low`` to ``high``."""
    if not ordered:
        x = library.where(x == 0, small(u), x)
        x = library.where(u < 0.5, -x, x) if by.signs else x
    factor, summand = by.scaled(low, high, epsilon)
    jitter = max(by.jitter, epsilon) if by.jitter else 0.0
    return (x * factor + summand) * (1 + jitter * (2 * v - 1))
