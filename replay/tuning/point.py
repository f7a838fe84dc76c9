"""A point of a search space: the values of the parameters that are tuned, by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Scalar = int | float | bool | str | None
Point = Mapping[str, Scalar]
Kind = Literal["argument", "option", "define", "template"]


@dataclass(frozen=True)
class Parameter:
    """One thing that may be changed; ``values`` in the order in which they are tried, the captured first.

    ``captured`` is None if the launches of a set differ in it. ``given``: the user named its values.
    """

    name: str
    kind: Kind
    values: tuple[Scalar, ...]
    captured: Scalar
    given: bool = False


def key(point: Point) -> str:
    """The same text for the same values, and another for others (1 is not True)."""
    return json.dumps(dict(sorted(point.items())), sort_keys=True)


def text(point: Point) -> str:
    """``BLOCK=64 num_warps=4``."""
    return " ".join(f"{name}={value}" for name, value in point.items()) or "as captured"


def from_json(value: Any) -> dict[str, Scalar]:
    """A point that was written as JSON."""
    return {str(name): item for name, item in dict(value).items()}
