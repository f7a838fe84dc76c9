"""Promises to the compiler, and whether they held: `tl.multiple_of`, `tl.max_contiguous`, `tl.assume`."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as interp

from tests.integration.sanitizer.oracle import hooks
from tests.integration.sanitizer.oracle.record import Recorder, where


def _promise(value: Any, amounts: Any, name: str) -> Any:
    if isinstance(value, tl.tensor):
        listed = amounts if isinstance(amounts, (list, tuple)) else [amounts]
        plain = [one.value if isinstance(one, tl.constexpr) else one for one in listed]
        value.handle.set_attr(name, plain)
        hooks.recorder().promised.append((value.handle, name, plain, *where()))
    return value


def settle(run: Recorder) -> None:
    """At the end of a program: did what it promised hold?"""
    for handle, name, amounts, file, line in run.promised:
        data = np.asarray(handle.data)
        if data.ndim != len(amounts):
            data = data.reshape([1] * (len(amounts) - 1) + [-1])
        data = data.astype(np.int64)
        contiguity = handle.attr.get("tt.contiguity", [1] * len(amounts))
        kept = True
        for axis, amount in enumerate(amounts):
            moved = np.moveaxis(data, axis, -1)
            if name == "tt.divisibility":
                kept &= bool((moved[..., :: max(1, contiguity[axis])] % amount == 0).all())
                continue
            run_length = min(amount, moved.shape[-1])
            runs = moved[..., : moved.shape[-1] // run_length * run_length]
            runs = runs.reshape(*runs.shape[:-1], -1, run_length)
            step = np.arange(run_length) if name == "tt.contiguity" else 0
            kept &= bool((runs == runs[..., :1] + step).all())
        if not kept:
            run.breaks("promise", file, line)


def check_assumption(_self: Any, condition: Any) -> None:
    if not bool(np.asarray(condition.data).all()):
        hooks.recorder().breaks("promise", *where())


def install() -> None:
    """Broken assumptions are noted instead of raised, once per process."""
    interp.InterpreterBuilder.create_assume = check_assumption


def patch(scope: Any) -> None:
    """After the interpreter patched `triton.language`: its promises go to the recorder."""
    for name, attribute in (
        ("multiple_of", "tt.divisibility"),
        ("max_contiguous", "tt.contiguity"),
        ("max_constancy", "tt.constancy"),
    ):
        scope.set_attr(
            tl, name, lambda value, amounts, attribute=attribute: _promise(value, amounts, attribute)
        )
