"""A proof as text: what was compared, what is claimed, the one line to look for."""

from __future__ import annotations

from typing import Any

from kerncap.log import one_line


def render(result: Any) -> str:
    """All lines of a `ProveResult`; the last one is ``Result: PASS …``, ``FAIL …`` or ``UNDECIDED …``."""
    a, b = result.labels
    first, second = result.kernels
    on = "" if result.launch is None else f", on the launch of {result.launch.name}"
    lines = [one_line(f"{first} of {a} and {second} of {b}{on}")]
    lines += [f"  shown: {one_line(text)}" for text in result.words.shown]
    lines += [f"  not shown: {one_line(text)}" for text in result.words.not_shown]
    return "\n".join([*lines, one_line(result.line)])
