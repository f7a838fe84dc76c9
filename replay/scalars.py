"""Other values of numeric arguments, to see what a kernel does where the captured ones hide it."""

from __future__ import annotations

from collections.abc import Iterator

from kerncap.format.schema import FloatValue, IntValue, Manifest


def scalar_variants(manifest: Manifest, integers: bool) -> Iterator[dict[str, str]]:
    """Encoded values by argument name: all floats changed at once; then integers one by one, if asked for.

    An integer may be a length or a stride: only where a run can do no harm should one be changed. Those are
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
    """Encoded values of all finite floats by argument name: three quarters of them, 0 a little more.

    So what has to lie between 0 and 1, as a probability has, still does.
    """
    found = {}
    for argument in manifest.arguments:
        if argument.role == "runtime" and isinstance(argument.value, FloatValue):
            text = argument.value.value
            if text.lstrip("-") not in ("inf", "nan"):
                found[argument.name] = (float.fromhex(text) * 0.75 or 0.0625).hex()
    return found


def described(manifest: Manifest, scalars: dict[str, str]) -> str:
    """For people: ``s = 1.5 in place of 1``; nothing where nothing was changed."""
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
