"""A search space that a person wrote: TOML or JSON, parameters, values and constraints.

only_listed = false                 # true: the @triton.autotune list's configurations and no others
constraints = ["BLOCK_M * BLOCK_N <= 16384"]

[parameters]
BLOCK_M = [32, 64, 128]             # these values
BLOCK_N = {min = 16, max = 256}     # powers of two between
num_warps = 4                       # pinned
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerncap import unexpected_error
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.replay.tuning.point import Scalar

_MAX_BYTES = 1 << 20
_MAX_VALUES = 1024
LISTED = "listed"  # in place of a file: the list's configurations alone


@dataclass(frozen=True)
class SpaceFile:
    """``parameters`` are the values by name, one value if it is pinned."""

    parameters: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    only_listed: bool = False


def read(path: str) -> SpaceFile:
    """The file's space. Raises UsageError for what it can't hold, with the key."""
    if path == LISTED and not Path(path).exists():
        return SpaceFile(only_listed=True)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise unexpected_error.about(f"--space {path}", error, "can't be read") from error
    if len(data) > _MAX_BYTES:
        raise UsageError(f"--space {path}: {len(data):,} bytes; at most {_MAX_BYTES:,} are read")
    content = _decoded(path, data)
    if not isinstance(content, dict):
        raise UsageError(f"--space {path}: expected a table with parameters and constraints")
    if unknown := sorted(set(content) - {"parameters", "constraints", "only_listed"}):
        raise UsageError(
            f"--space {path}: {unknown[0]} is not known; there are parameters, constraints, only_listed"
        )
    parameters = content.get("parameters", {})
    constraints = content.get("constraints", [])
    if not isinstance(parameters, dict):
        raise UsageError(f"--space {path}: parameters: expected a table of names and values")
    if not isinstance(constraints, list) or not all(isinstance(each, str) for each in constraints):
        raise UsageError(f"--space {path}: constraints: expected a list of expressions")
    only = content.get("only_listed", False)
    if not isinstance(only, bool):
        raise UsageError(f"--space {path}: only_listed: expected true or false")
    values = {name: _values(item, f"--space {path}: {name}") for name, item in parameters.items()}
    return SpaceFile(values, tuple(constraints), only)


def _decoded(path: str, data: bytes) -> Any:
    try:
        if path.endswith(".json"):
            return json.loads(data)
        try:
            toml = importlib.import_module("tomllib")
        except ImportError:
            why = "it needs Python 3.11: write the space as JSON"
            raise BackendUnavailable("reading TOML", why) from None
        return toml.loads(data.decode())
    except ValueError as error:
        raise UsageError(f"--space {path}: {error}") from error


def _values(item: Any, where: str) -> tuple[Scalar, ...]:
    if isinstance(item, dict):
        low, high, step = _number(item.get("min")), _number(item.get("max")), item.get("step")
        if low is None or high is None or low > high or set(item) - {"min", "max", "step"}:
            raise UsageError(f"{where}: expected min and max, and step for values that are not powers of two")
        if step is not None:
            wide = _number(step)
            if wide is None or wide < 1 or (high - low) // wide > _MAX_VALUES:
                raise UsageError(
                    f"{where}: step: expected a positive number, and at most {_MAX_VALUES} values"
                )
            return tuple(range(low, high + 1, wide))
        return powers_of_two(low, high, where)
    values = item if isinstance(item, list) else [item]
    if not values or len(values) > _MAX_VALUES:
        raise UsageError(f"{where}: expected 1 to {_MAX_VALUES} values")
    for value in values:
        if not isinstance(value, bool | int | float | str):
            raise UsageError(f"{where}: {value!r} is not a number, bool or string")
    return tuple(values)


def powers_of_two(low: int, high: int, where: str) -> tuple[int, ...]:
    """Those between, ends included. Raises UsageError if there are none."""
    found = tuple(1 << n for n in range(63) if low <= 1 << n <= high)
    if not found:
        raise UsageError(f"{where}: no power of two is between {low} and {high}")
    return found


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
