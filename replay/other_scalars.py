"""Other values of numeric arguments, to see what a kernel does where the captured ones hide it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kerncap.format.schema import FloatValue, IntValue, Manifest
from kerncap.replay.outcome import Scalar

_SMALL = 1 / 64
_FACTOR, _NEXT = 3 / 4, 15 / 16  # of the first number; of each next one's


def scalar_variants(manifest: Manifest, integers: bool) -> Iterator[dict[str, str]]:
    """Encoded values by argument name: all floats changed at once; then integers one by one, if asked for.

    An integer may be a length or a stride: only if a run can do no harm should one be changed. Those are
    changed that hide something, as a factor of 1 and a summand of 0 do.
    """
    floats = {}
    for argument in manifest.arguments:
        if argument.role == "runtime" and isinstance(argument.value, FloatValue):
            text = argument.value.value
            number = 0.0 if text.lstrip("-") in ("inf", "nan") else float.fromhex(text)
            floats[argument.name] = (number * 1.375 + 0.125).hex()
    if floats:
        yield floats
    if integers:
        for argument in manifest.arguments:
            value = argument.value
            if argument.role == "runtime" and isinstance(value, IntValue) and value.value in ("-1", "0", "1"):
                yield {argument.name: str(int(value.value) + 1)}


def smaller_floats(manifest: Manifest) -> dict[str, str]:
    """Encoded values of all finite floats by argument name: three quarters of the first, less of each next
    one, so that no two stay equal or opposite; 0 a little more.

    Of an epsilon a quarter is not seen: the square root. What has to lie between 0 and 1 still does.
    """
    found: dict[str, str] = {}
    for argument in manifest.arguments:
        if argument.role == "runtime" and isinstance(argument.value, FloatValue):
            text = argument.value.value
            if text.lstrip("-") not in ("inf", "nan"):
                number = float.fromhex(text)
                changed = math.sqrt(number) if 0 < number < _SMALL else number * _FACTOR or 0.0625
                found[argument.name] = (changed * _NEXT ** len(found)).hex()
    return found


def other_integers(manifest: Manifest, names: frozenset[str]) -> dict[str, str]:
    """Encoded values of integers by argument name: as of `smaller_floats`, else one more.

    None becomes 1, and multiples of 16 stay such: on these Triton compiles another kernel.
    """
    found: dict[str, str] = {}
    for argument in manifest.arguments:
        if argument.name in names and isinstance(argument.value, IntValue):
            old = int(argument.value.value)
            step = 1 if old % 16 else 16
            new = int(old * _FACTOR * _NEXT ** len(found) / step) * step
            found[argument.name] = str(old + step if new in (old, 1) else new)
    return found


def decoded(manifest: Manifest, scalars: dict[str, str]) -> dict[str, Scalar]:
    """The numbers themselves."""
    floats = {one.name for one in manifest.arguments if isinstance(one.value, FloatValue)}
    return {name: float.fromhex(text) if name in floats else int(text) for name, text in scalars.items()}


def described(manifest: Manifest, scalars: dict[str, str]) -> str:
    """For people: ``s = 1.5 in place of 1``; nothing if nothing was changed."""
    parts = []
    for argument in manifest.arguments:
        value = argument.value
        if argument.name in scalars and isinstance(value, FloatValue | IntValue):
            new, old = scalars[argument.name], value.value
            if isinstance(value, FloatValue):
                new = f"{float.fromhex(new):g}"
                old = old if old.lstrip("-") in ("inf", "nan") else f"{float.fromhex(old):g}"
            parts.append(f"{argument.name} = {new} in place of {old}")
    return ", ".join(parts)
