"""Types of the options that take numbers: within what can be meant, so that none overflows further in.

The limits are wide and tell a reader nothing: an error names them, help does not.
"""

from __future__ import annotations

import math
from typing import Any

import click

_MOST = 1_000_000_000


class Whole(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic since click 8.3
    """A whole number from ``least`` to ``most``."""

    name = "integer"

    def __init__(self, least: int, most: int) -> None:
        self._range = click.IntRange(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._range.convert(value, param, ctx)


class Offset(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Bytes from a beginning, in decimal or as 0x…."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            found = int(value, 0)
        except ValueError:
            found = -1
        if not 0 <= found < 1 << 48:
            self.fail(f"{value} is not a number of bytes, such as 0x1f0.", param, ctx)
        return found


class Finite(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A number from ``least`` to ``most``; NaN is refused: it is on neither side of anything."""

    name = "number"

    def __init__(self, least: float, most: float, above: bool = False) -> None:
        """``above``: the least one is not in it."""
        self._range = click.FloatRange(least, most, min_open=above)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = self._range.convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


class Times(Finite):
    """A positive factor: 3 or 3x."""

    name = "factor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            factor = float(value.removesuffix("x") if isinstance(value, str) else value)
        except ValueError:
            self.fail(f"{value} is not a factor, such as 3x.", param, ctx)
        return super().convert(factor, param, ctx)


COUNT = Whole(1, _MOST)
COUNT_OR_NONE = Whole(0, _MOST)
PROCESSES = Whole(1, 4096)
SECONDS = Finite(0, _MOST, above=True)
RATIO = Finite(0, _MOST, above=True)
TIMES = Times(0, _MOST, above=True)
