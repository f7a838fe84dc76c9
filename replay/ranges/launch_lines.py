"""Launches that a source of CUDA C++ or HIP asks for in its comments, written as C++ writes a launch.

    // kerncap: replaces 0:3
    // kerncap: launch mlp<<<dim3(2, 1), 128, 1024>>>(0.x, 1.b, 2.out, 2.columns, 1e-6f)

The comments are read as text, wherever in the file they are. Grid, block and shared memory may be products
and quotients, also of numbers that the file defines: `<<<64 / ROWS, 32 * ROWS>>>` with `#define ROWS 4`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kerncap.replay.tuning import cuda_text
from kerncap.replay.worker.protocol import Scalar

_LINE = re.compile(r"\s*//\s*kerncap:\s*(.*)")
_NEXT = re.compile(r"\s*//(?!\s*kerncap:)(.*)")
_LAUNCH = re.compile(
    r"launch\s+(?P<kernel>[A-Za-z_$][\w$:]*)\s*<<<(?P<shape>.*?)>>>\s*\((?P<passed>.*)\)\s*;?"
)
_REPLACES = re.compile(r"replaces\s+(\S+)")
_SIDES = re.compile(r"dim3\(([^()]*)\)|([^()]+)")
_OF_LAUNCH = re.compile(r"\d{1,4}\.[A-Za-z_]\w{0,255}")
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]{1,16}|0|[1-9]\d{0,19})[uU]?[lL]{0,2}[uU]?")
_FLOAT = re.compile(r"([-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d{1,4})?)[fF]?")
_TERM = re.compile(r"\s*([*/]?)\s*(\w+)\s*")
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "nullptr": None, "NULL": None}


class LineError(ValueError):
    """A comment that says no launch; ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class LaunchLine:
    """``passed``: a text is an argument of a launch of the range, all else a value."""

    line: int
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    passed: tuple[Scalar, ...]


def read(text: str) -> tuple[list[LaunchLine], str | None]:
    """The launches in their order, and what they replace if a line says so. Raises LineError."""
    launches: list[LaunchLine] = []
    replaced: str | None = None
    numbers = cuda_text.defined(text)
    for number, said in _lines(text):
        if (found := _REPLACES.fullmatch(said)) is not None:
            if replaced is not None:
                raise LineError(number, "a second `replaces`; once is read")
            replaced = found[1]
        elif (found := _LAUNCH.fullmatch(said)) is not None:
            launches.append(_launch(number, found, numbers))
        else:
            raise LineError(
                number, "expected `replaces N:M`, or `launch KERNEL<<<GRID, BLOCK, SHARED>>>(ARGUMENTS)`"
            )
    return launches, replaced


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """(number, text) of each comment, with the comments below it that close its parentheses."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if (found := _LINE.match(line)) is None:
            continue
        said, at = found[1], number
        while said.count("(") > said.count(")") and at < len(lines) and (more := _NEXT.match(lines[at])):
            said, at = f"{said} {more[1].strip()}", at + 1
        yield number, said.strip()


def _launch(line: int, found: re.Match[str], numbers: Mapping[str, int]) -> LaunchLine:
    shape = _split(found["shape"])
    if len(shape) == 4:
        raise LineError(line, "a stream; launches run in their order, write <<<GRID, BLOCK, SHARED>>>")
    if not 2 <= len(shape) <= 3:
        raise LineError(line, "expected <<<GRID, BLOCK>>> or <<<GRID, BLOCK, SHARED>>>")
    grid, block = (
        _sides(line, name, text, numbers) for name, text in zip(("grid", "block"), shape, strict=False)
    )
    shared = _product(shape[2], numbers) if len(shape) == 3 else 0
    if shared is None or not 0 <= shared < 1 << 31:
        raise LineError(line, f"shared memory {shape[2]}: expected a number of bytes")
    passed = tuple(_value(line, number, text) for number, text in enumerate(_split(found["passed"]), 1))
    return LaunchLine(line, found["kernel"], grid, block, shared, passed)


def _split(text: str) -> list[str]:
    """Parts between commas outside parentheses; none of an empty text."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text)] if text.strip() else []


def _sides(line: int, name: str, text: str, numbers: Mapping[str, int]) -> tuple[int, ...]:
    found = _SIDES.fullmatch(text)
    sides = [_product(side, numbers) for side in _split(found[1] or found[2])] if found is not None else []
    if not 1 <= len(sides) <= 3 or any(side is None or side < 1 for side in sides):
        raise LineError(line, f"{name} {text}: expected a number, or dim3(X, Y, Z)")
    return tuple(side for side in sides if side is not None)


def _product(text: str, numbers: Mapping[str, int]) -> int | None:
    """Of numbers, from left to right as in C; None for anything else, and for a quotient with a rest."""
    value, at = 1, 0
    while at < len(text):
        found = _TERM.match(text, at)
        if found is None or bool(found[1]) != bool(at):
            return None
        number = numbers.get(found[2], _integer(found[2]))
        if number is None or (found[1] == "/" and (number < 1 or value % number)):
            return None
        value, at = value // number if found[1] == "/" else value * number, found.end()
    return value if text else None


def _integer(text: str) -> int | None:
    found = _INTEGER.fullmatch(text.strip())
    return None if found is None else int(found[1] + found[2], 16 if "x" in found[2].lower() else 10)


def _value(line: int, number: int, text: str) -> Scalar:
    if _OF_LAUNCH.fullmatch(text):
        return text
    if text in _WORDS:
        return _WORDS[text]
    integer = _integer(text)
    if integer is not None:
        return integer
    found = _FLOAT.fullmatch(text)
    if found is None:
        raise LineError(
            line, f"argument {number}, {text}: expected K.NAME, an argument of launch K, a number or nullptr"
        )
    return float(found[1])
