"""Defaults of options from ``[tool.kerncap]`` of a pyproject.toml, and from the user's own config.toml.

A project may be a stranger's: what its file can set neither runs or trusts anything, nor changes a verdict,
nor leads out of the project. That is a list of options (ALLOWED), the same for both files; all others are
ignored, and `kerncap config` names them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap import user_folders
from kerncap.errors import UsageError
from kerncap.regular_file import read_regular_text
from kerncap.search_path import inside_reproducer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT_FILE, USER_FILE = "pyproject.toml", "config.toml"
# command -> option -> the parameter that it is
ALLOWED: Mapping[str, Mapping[str, str]] = {
    "capture": {"output": "output", "max-size": "max_size", "self-check-timeout": "self_check_timeout"},
    "list": {"by": "by", "top": "top"},
    "tune": {"trials": "trials", "patience": "patience", "time": "time_s"},
    "minimize": {"time": "seconds"},
    "diff": {"lines": "lines"},
}
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Setting:
    """One option's default, and the file that it is from."""

    command: str
    option: str
    value: str
    origin: Path


@dataclass(frozen=True)
class Settings:
    """Those in force, and those that a file has and that are not allowed: (name, file)."""

    found: tuple[Setting, ...]
    ignored: tuple[tuple[str, Path], ...]

    def defaults_of(self, command: str) -> dict[str, str]:
        """As click's default_map has them."""
        names = ALLOWED.get(command, {})
        return {names[each.option]: each.value for each in self.found if each.command == command}


def read() -> Settings:
    """The project's, then the user's. Raises UsageError for a file that can't be read, and for a value."""
    found: dict[tuple[str, str], Setting] = {}
    ignored: list[tuple[str, Path]] = []
    for path, name, value in _entries():
        command, _, option = name.partition(".")
        if option not in ALLOWED.get(command, {}):
            ignored.append((name, path))
        elif (command, option) not in found:
            text = _text(path, name, value)
            text = _inside(path, text) if option == "output" else text
            found[command, option] = Setting(command, option, text, path)
    return Settings(tuple(found.values()), tuple(ignored))


def places() -> tuple[Path, ...]:
    """Where reproducers are looked for: here, and where `capture` puts them."""
    return Path("."), Path(read().defaults_of("capture").get("output", "kerncap-out"))


def _entries() -> Iterator[tuple[Path, str, Any]]:
    """File, name and value of each, the project's first."""
    for path, table in _tables():
        for command, options in table.items():
            if isinstance(options, dict):
                yield from ((path, f"{command}.{option}", value) for option, value in options.items())
            else:
                yield path, command, options


def _tables() -> Iterator[tuple[Path, dict[str, Any]]]:
    project = _project_file()
    if project is not None:
        table = _parsed(project).get("tool", {})
        table = table.get("kerncap", {}) if isinstance(table, dict) else {}
        yield project, table if isinstance(table, dict) else {}
    own = user_folders.config(USER_FILE)
    if own.is_file():
        yield own, _parsed(own)


def _project_file() -> Path | None:
    """The nearest pyproject.toml, here or above; none in a reproducer."""
    try:
        here = Path.cwd()
    except OSError:  # it is gone
        return None
    for folder in (here, *here.parents):
        if (folder / PROJECT_FILE).is_file():
            return None if inside_reproducer(str(folder)) else folder / PROJECT_FILE
    return None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = tomllib.loads(read_regular_text(path, _MOST_BYTES))
        return found
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}; fix it") from error


def _text(path: Path, name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{path}: {name}: expected text or a number; change it")
    return str(value)


def _inside(path: Path, output: str) -> str:
    """A folder of the project's, as it is reached from here."""
    base = path.parent.resolve()
    place = (base / output).resolve()
    if base != place and base not in place.parents:
        raise UsageError(f"{path}: capture.output: {output} is outside the project; name a folder in it")
    return os.path.relpath(place)
