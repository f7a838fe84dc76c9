"""Compilations in a `build.ninja`, which PyTorch's extensions and CMake leave next to what they build.

Variables, rules and build statements; no pools, no dynamic dependencies. Nothing is run.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

MAX_BYTES = 64 << 20
MAX_INCLUDES = 16
MAX_COMMAND = 1 << 20
_COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".hip")
_ASSIGNMENT = re.compile(r"\s*([\w.-]+)\s*=\s?(.*)")
_REFERENCE = re.compile(r"\$(?:\{([\w.-]+)\}|([\w-]+)|(.))", re.DOTALL)


@dataclass
class _Build:
    inputs: list[str]
    outputs: list[str]
    rule: str
    variables: dict[str, str] = field(default_factory=dict)


@dataclass
class _File:
    variables: dict[str, str] = field(default_factory=dict)
    rules: dict[str, dict[str, str]] = field(default_factory=dict)
    builds: list[_Build] = field(default_factory=list)


def compilations(path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(absolute path of a source file, the words of the command that compiles it). Unreadable: none."""
    folder = os.path.dirname(path)
    content = _File()
    _read(path, content, [])
    for build in content.builds:
        command = content.rules.get(build.rule, {}).get("command")
        sources = [name for name in build.inputs if name.endswith(_COMPILED)]
        if command is None or len(sources) != 1:
            continue
        scope = {**content.variables, **build.variables}
        scope |= {"in": shlex.quote(sources[0]), "out": shlex.join(build.outputs)}
        words = _words(_expanded(command, scope), sources[0])
        if words:
            yield os.path.normpath(os.path.join(folder, sources[0])), words


def _read(path: str, content: _File, seen: list[str]) -> None:
    if path in seen or len(seen) >= MAX_INCLUDES:
        return
    seen.append(path)
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    scope: dict[str, str] | None = None
    for line in re.sub(r"\$\r?\n\s*", "", text).splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        assignment = _ASSIGNMENT.fullmatch(line)
        if line[0] in " \t":
            if assignment is not None and scope is not None:
                scope[assignment[1]] = assignment[2]
            continue
        word, _, rest = line.partition(" ")
        scope = None
        if word == "rule":
            scope = content.rules.setdefault(rest.strip(), {})
        elif word == "build":
            build = _statement(rest)
            if build is not None:
                content.builds.append(build)
                scope = build.variables
        elif word in ("include", "subninja"):
            _read(
                os.path.join(os.path.dirname(path), _expanded(rest.strip(), content.variables)), content, seen
            )
        elif assignment is not None:
            content.variables[assignment[1]] = _expanded(assignment[2], content.variables)


def _statement(text: str) -> _Build | None:
    """`outputs: rule inputs | implicit || order`; `$:` and `$ ` are plain characters."""
    parts = [part.replace("\1", ":").replace("\2", " ") for part in _split(text)]
    colon = next((n for n, part in enumerate(parts) if part == ":"), None)
    if colon is None or colon + 1 >= len(parts):
        return None
    inputs = parts[colon + 2 :]
    end = next((n for n, part in enumerate(inputs) if part.startswith("|")), len(inputs))
    return _Build(inputs[:end], [part for part in parts[:colon] if part != "|"], parts[colon + 1])


def _split(text: str) -> list[str]:
    plain = text.replace("$$", "$").replace("$:", "\1").replace("$ ", "\2")
    return re.sub(r":(?=\s|$)", " : ", plain, count=1).split()


def _expanded(text: str, variables: Mapping[str, str], depth: int = 0) -> str:
    """``text`` with its variables, and those in their values."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name is None:
            return found[3]  # `$$`, `$:`, `$ `
        inner = variables.get(name, "")
        return _expanded(inner, variables, depth + 1) if depth < 8 and len(inner) < MAX_COMMAND else ""

    return _REFERENCE.sub(value, text)[:MAX_COMMAND]


def _words(command: str, source: str) -> tuple[str, ...]:
    """The words of that part of a shell command which has the source."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", ";", "||"):
            parts.append([])
        else:
            parts[-1].append(word)
    return tuple(next((part for part in parts if source in part), ()))
