"""Parameters of tests of which each value costs seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(names: str | tuple[str, ...], values: Iterable[Any], **options: Any) -> pytest.MarkDecorator:
    """As ``pytest.mark.parametrize``: `make test` takes the first value, `make test-all` every one."""
    single = isinstance(names, str) and "," not in names
    first, *rest = values
    later = [pytest.param(*((v,) if single else v), marks=pytest.mark.long) for v in rest]
    return pytest.mark.parametrize(names, [first, *later], **options)
