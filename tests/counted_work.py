"""How much work a call is, for tests that bound it: counted, since a busy machine makes every clock lie."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_of(action: Callable[[], Any]) -> int:
    """The number of functions, Python's and C's, that ``action`` calls in this thread."""
    counted = 0

    def count(_: FrameType, event: str, __: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return counted - 1  # the call of sys.setprofile that ends it
