"""What is changed step by step between a strict build of CUDA C++ and the application's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Of nvcc and NVRTC. Source: their documentation, which says what --use_fast_math implies.
_STRICT = ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
_OF_FAST_MATH = ("--ftz=true", "--prec-div=false", "--prec-sqrt=false")
_FAST_MATH = "--use_fast_math"
_MATH = re.compile(r"^--?(use_fast_math|(?:fmad|ftz|prec-div|prec-sqrt)=(?:true|false))$")
_LEVEL = re.compile(r"^(?:-Xptxas|--ptxas-options)=-{1,2}(?:O|opt-level=)([0-4])$")
_MOST = 3  # the level that ptxas has unless told


@dataclass(frozen=True)
class Build:
    """``name`` is what the build has that the one before has not."""

    name: str
    options: tuple[str, ...]


def builds(recorded: Sequence[str]) -> list[Build]:
    """From IEEE arithmetic at ptxas -O0 to the recorded options, one change each."""
    math = [f"--{match[1]}" for option in recorded if (match := _MATH.match(option))]
    levels = [int(match[1]) for option in recorded if (match := _LEVEL.match(option))]
    rest = tuple(option for option in recorded if not _MATH.match(option) and not _LEVEL.match(option))
    level = levels[-1] if levels else _MOST
    has_fast = _FAST_MATH in math
    asked = [*(_OF_FAST_MATH if has_fast else ()), *(one for one in math if one != _FAST_MATH)]
    if "--fmad=false" not in math:
        asked.insert(0, "--fmad=true")
    now = dict(_pair(option) for option in _STRICT)
    found = [Build("IEEE arithmetic, ptxas -O0", (*rest, *_STRICT, _at(0)))]
    for option in asked:
        key, value = _pair(option)
        if now[key] == value:
            continue
        now[key] = value
        found.append(Build(option, (*rest, *(f"{k}={v}" for k, v in now.items()), _at(0))))
    last = found[-1].options[:-1]
    if has_fast:
        last = (*last, _FAST_MATH)
        found.append(Build(_FAST_MATH, (*last, _at(0))))
    found += [Build(f"ptxas -O{number}", (*last, _at(number))) for number in range(1, level + 1)]
    return found


def _pair(option: str) -> tuple[str, str]:
    key, _, value = option.partition("=")
    return key, value


def _at(level: int) -> str:
    return f"--ptxas-options=-O{level}"
