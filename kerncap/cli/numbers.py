"""Types of the options that take numbers: within what can be meant, so that none overflows further in."""

from __future__ import annotations

import math
from typing import Any

import click

_MOST = 1_000_000_000
COUNT = click.IntRange(1, _MOST)
COUNT_OR_NONE = click.IntRange(0, _MOST)
PROCESSES = click.IntRange(1, 4096)


class Finite(click.FloatRange):
    """A number from ``min`` to ``max``; NaN is refused: it is on neither side of anything."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


SECONDS = Finite(0, _MOST, min_open=True)
RATIO = Finite(0, _MOST, min_open=True)
