"""Names of kernels for a table: a template's 500 characters made readable, no two kernels alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kerncap import log
from kerncap.capture import languages
from kerncap.capture.outcome import KernelSummary

MAX_WIDTH = 64
_OPEN, _CLOSE = "<([{", ">)]}"
_SCOPE = re.compile(r"(?:\b[A-Za-z_]\w*|\(anonymous namespace\))::")
_CAST = re.compile(r"\((?:unsigned |signed )?(?:bool|char|short|int|long|long long)\)(?=[-\w])")


def short_names(kernels: Sequence[KernelSummary]) -> list[str]:
    """One name for each kernel, in their order: as short as tells it from the others."""
    ladders = [_ladder(kernel) for kernel in kernels]
    steps = max((len(ladder) for ladder in ladders), default=0)
    chosen: list[str | None] = [None] * len(kernels)
    for step in range(steps):
        level = [ladder[min(step, len(ladder) - 1)] for ladder in ladders]
        often = Counter(level)
        for number, name in enumerate(level):
            if chosen[number] is None and (often[name] == 1 or step == steps - 1):
                chosen[number] = name
    return _numbered([_fitted(name or "") for name in chosen])


def full_name(kernel: KernelSummary) -> str:
    """The whole name on one line, as the kernel's language writes it."""
    return log.one_line(_ladder(kernel)[-1], 1 << 20)


def condensed(text: str, depth: int) -> str:
    """A C++ name without scopes and casts; what is nested deeper than ``depth`` brackets is ``…``."""
    plain = _CAST.sub("", _SCOPE.sub("", text))
    parts: list[str] = []
    level = 0
    for position, character in enumerate(plain):
        if character in _CLOSE and level and plain[position - 1 : position + 1] != "->":
            if level <= depth + 1:
                parts.append(character)
            level -= 1
            continue
        if character in _OPEN:
            level += 1
            if level == depth + 1:
                parts.append(character + "…")
        if level <= depth:
            parts.append(character)
    return "".join(parts)


def _ladder(kernel: KernelSummary) -> list[str]:
    """Its names from the shortest to the whole one."""
    if not kernel.is_native:
        return [kernel.name, kernel.qualified_name]
    mangled = kernel.seen.mangled if kernel.seen is not None else None
    found = languages.parse_name(mangled or kernel.qualified_name, kernel.qualified_name)
    if found.template_arguments is None:
        return [kernel.name, found.qualified, found.readable or kernel.qualified_name]
    whole = f"{found.base}<{found.template_arguments}>"
    return [kernel.name, *(condensed(whole, depth) for depth in (1, 2, 3)), whole, kernel.qualified_name]


def _fitted(name: str) -> str:
    """On one line, the middle left out if it is too long: both ends say the most."""
    plain = log.one_line(name, 1 << 20)
    if len(plain) <= MAX_WIDTH:
        return plain
    tail = MAX_WIDTH // 3
    return f"{plain[: MAX_WIDTH - tail - 1]}…{plain[-tail:]}"


def _numbered(names: list[str]) -> list[str]:
    """What still looks alike gets a number: two kernels stay two."""
    often, met = Counter(names), Counter[str]()
    numbered = []
    for name in names:
        met[name] += 1
        numbered.append(f"{name} [{met[name]}]" if often[name] > 1 else name)
    return numbered
