"""The numbers that a launch gives its kernel: as they are, or as expressions over sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kerncap.sanitizer.launch import Launch, ScalarArgument
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, const, wrap
from kerncap.sanitizer.ttir.ir import Function, IntType


@dataclass(frozen=True)
class Symbols:
    """``scalars``: by the position of an integer parameter. ``given``: what holds of all of them."""

    grid: tuple[Expr, Expr, Expr]
    scalars: Mapping[int, Expr] = field(default_factory=dict)
    given: Expr = TRUE


def symbols_of(launch: Launch, function: Function) -> Symbols:
    """The numbers of one launch, as its parameters hold them: 2**32 - 1 as i32 is -1."""
    scalars: dict[int, Expr] = {}
    for index, (parameter, argument) in enumerate(zip(function.arguments, launch.arguments, strict=True)):
        kind = parameter.type
        if (
            isinstance(argument, ScalarArgument)
            and isinstance(argument.value, int)
            and isinstance(kind, IntType)
            and kind.width > 1
        ):
            scalars[index] = wrap(const(int(argument.value)), kind.width)
    x, y, z = (const(extent) for extent in launch.grid)
    return Symbols((x, y, z), scalars)
