"""A line of a working copy that says how it is launched: ``# kerncap: num_warps=8 BLOCK=256 grid=32``.

A Triton launch takes its options and constexprs from who launches it; without such a line that is what the
application did.
"""

from __future__ import annotations

import ast
import re

from kerncap.replay.outcome import Config, Scalar

_LINE = re.compile(r"^\s*#\s*kerncap:(?P<rest>.*)$")
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class SettingError(Exception):
    """A line that says nothing that can be done; ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def settings_of(text: str) -> tuple[Config | None, int]:
    """The configuration that a source asks for, and the line that does; None and 0 if none does.

    Raises SettingError.
    """
    arguments: dict[str, Scalar] = {}
    options: dict[str, int] = {}
    grid: tuple[int, int, int] | None = None
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.match(line)
        if match is None:
            continue
        at = at or number
        for word in match["rest"].split():
            name, equals, value = word.partition("=")
            if not equals or not name.isidentifier():
                raise SettingError(number, f"`{word}`: expected NAME=VALUE, as in num_warps=8 or grid=32,1,1")
            if name == "grid":
                grid = _grid(number, value)
            elif name in _OPTIONS:
                options[name] = _whole(number, name, value)
            else:
                arguments[name] = _scalar(number, name, value)
    if not at:
        return None, 0
    return Config(arguments, options, grid), at


def described(config: Config) -> str:
    """A configuration in the words of such a line."""
    words = [f"{name}={value}" for name, value in (*config.options.items(), *config.arguments.items())]
    if config.grid is not None:
        words.append(f"grid={','.join(map(str, config.grid))}")
    return " ".join(words)


def _grid(line: int, value: str) -> tuple[int, int, int]:
    sides = [_whole(line, "grid", side) for side in value.strip("()").split(",") if side]
    if not 1 <= len(sides) <= 3:
        raise SettingError(line, f"grid={value}: expected one to three numbers, as in grid=32,1,1")
    x, y, z = (*sides, 1, 1)[:3]
    return x, y, z


def _whole(line: int, name: str, value: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,9}", value):
        raise SettingError(line, f"{name}={value}: expected a positive whole number")
    return int(value)


def _scalar(line: int, name: str, value: str) -> Scalar:
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        found = value
    if found is None or isinstance(found, int | float | bool | str):
        return found
    raise SettingError(line, f"{name}={value}: expected a number, a truth value or a word")
