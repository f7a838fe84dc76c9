"""What the numbers of a manifest may be together, so that no command behind the reader meets nonsense.

The bounds of single numbers are `schema`'s; here are products, sums and counts, and what has to be a name.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Sequence

from kerncap.format import schema

MAX_ELEMENTS = 1 << 63  # of a view, and of a grid's workgroups: not reached
MAX_THREADS = 1 << 16  # of a workgroup, and workgroups of a cluster; devices allow 1024
MAX_VALUES = 65_536
MAX_VALUE_DEPTH = 32


def shape_problem(shape: Sequence[int], itemsize: int = 1) -> str | None:
    """Why no tensor has this shape, or None. An extent of 0 counts as 1: frameworks multiply the others."""
    elements = math.prod(max(1, extent) for extent in shape)
    if elements * itemsize >= MAX_ELEMENTS:
        return f"{_product(shape)} elements of {itemsize} bytes are 2^63 bytes or more"
    return None


def launch_problem(launch: schema.Launch) -> tuple[str, str] | None:
    """The field of a launch whose product is too large, and why; None if all are small enough."""
    for name, numbers, limit in (
        ("grid", launch.grid, MAX_ELEMENTS),
        ("block", launch.block, MAX_THREADS + 1),
        ("cluster", launch.cluster, MAX_THREADS + 1),
    ):
        if numbers is not None and math.prod(max(1, number) for number in numbers) >= limit:
            what = "2^63 workgroups or more" if name == "grid" else f"more than {MAX_THREADS}"
            return name, f"{_product(numbers)} is {what}"
    return None


def fields_problem(value: schema.SequenceValue) -> tuple[str, str] | None:
    """Why Python has no named tuple of these names: the key and the reason; None for any other sequence."""
    if value.type != "namedtuple":
        return None
    if value.fields is None or value.type_name is None:
        return ("type", "a named tuple without the names of its type and fields")
    if not is_name(value.type_name):
        return ("type_name", "not a name that a Python type can have")
    if len(set(value.fields)) != len(value.fields):
        return ("fields", "a field is named twice")
    for number, name in enumerate(value.fields):
        # `_0` and so on: what Python calls a field whose own name it does not take.
        if name != f"_{number}" and (name.startswith("_") or not is_name(name)):
            return ("fields", f"field {number} has a name that a named tuple can't have")
    return None


def is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _product(numbers: Sequence[int]) -> str:
    return " x ".join(map(str, numbers))
