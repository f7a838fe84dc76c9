"""Which functions of `triton.language` its interpreter replaces, looked up once, in this process only.

Triton looks through every member of five namespaces at each launch, and again at each call of a function that
a kernel calls: half of the time of a small launch. Seen with Triton 3.9; older ones pass one argument less.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from triton.language import core
from triton.runtime import interpreter


def install() -> None:
    """Put it in the place of Triton's; before the first launch, which changes what is found."""
    interpreter._patch_builtin = _patch_builtin


def _patch_builtin(namespace: Any, *rest: Any) -> None:
    for name in _names(namespace):
        member = getattr(namespace, name)
        if core.is_builtin(member):  # not replaced already, for a kernel that called this one
            interpreter._patch_attr(namespace, name, member, *rest)


@cache
def _names(namespace: Any) -> list[str]:
    return [name for name, member in inspect.getmembers(namespace) if core.is_builtin(member)]
