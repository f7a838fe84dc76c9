"""Parameters of tests of which each value costs seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(values: Iterable[Any]) -> list[Any]:
    """``values`` for a parametrised test: `make test` takes the first one, `make test-all` every one."""
    first, *rest = values
    return [first, *(pytest.param(*_tuple(value), marks=pytest.mark.long) for value in rest)]


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
