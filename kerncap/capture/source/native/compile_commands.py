"""How a project compiles its files: `compile_commands.json`, or else `build.ninja`.

Found upward from where the target is, and in build folders on the way.
"""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kerncap.capture.source.native import command_line, ninja
from kerncap.capture.source.native.command_line import CommandLine

NAME = "compile_commands.json"
NINJA = "build.ninja"
MAX_BYTES = 256 << 20
MAX_ENTRIES = 200_000
_UPWARD = 12
_BUILD_FOLDERS = ("build", "_build", "out", "cmake-build-debug", "cmake-build-release", "builddir")
_PER_FOLDER = 32  # build/*: one configuration each


@dataclass(frozen=True)
class Entry:
    """One compilation: absolute path of the file, where the compiler ran, its words (the compiler first)."""

    file: str
    directory: str
    words: tuple[str, ...] | str

    def command(self, tool: str = "nvcc") -> CommandLine:
        """The command line, taken apart as one for ``tool``."""
        options = _without_compiler(_split(self.words), self.file, self.directory)
        return command_line.parse(tool, options, Path(self.directory))


@dataclass(frozen=True)
class Database:
    """Every compilation of one file, by the unit's absolute path; the first of two for one file."""

    path: str
    entries: dict[str, Entry]


def find(starts: Iterable[Path]) -> tuple[Database, ...]:
    """The databases at the starts, above them, and in build folders beside; nearest first, each once."""
    paths: dict[str, None] = {}
    for start in starts:
        for path in _candidates(start):
            paths[path] = None
    found = []
    for path in paths:
        try:
            stat = os.stat(path)
        except OSError:
            continue
        database = _load(path, stat.st_mtime_ns, stat.st_size)
        if database is not None:
            found.append(database)
    return tuple(found)


def _candidates(start: Path) -> Iterator[str]:
    folder = os.path.abspath(start)
    for _ in range(_UPWARD):
        for below in ("", *_BUILD_FOLDERS):
            yield from _here(os.path.join(folder, below))
            if below in ("build", "out"):
                yield from _below(os.path.join(folder, below))
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _here(folder: str) -> Iterator[str]:
    for name in (NAME, NINJA):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            yield path
            return


def _below(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))[:1000]
    except OSError:
        return
    for name in names[:_PER_FOLDER]:
        yield from _here(os.path.join(folder, name))


class _Raw(msgspec.Struct):
    directory: str = "."
    file: str = ""
    command: str | None = None
    arguments: list[str] | None = None


@functools.lru_cache(maxsize=64)
def _load(path: str, _changed: int, size: int) -> Database | None:
    if path.endswith(NINJA):
        folder = os.path.dirname(path)
        found = {file: Entry(file, folder, words) for file, words in ninja.compilations(path)}
        return Database(path, found) if found else None
    if size > MAX_BYTES:
        return None
    try:
        with open(path, "rb") as file:
            raw = msgspec.json.decode(file.read(MAX_BYTES), type=list[_Raw])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    entries: dict[str, Entry] = {}
    for each in raw[:MAX_ENTRIES]:
        directory = os.path.normpath(os.path.join(os.path.dirname(path), each.directory))
        words = tuple(each.arguments) if each.arguments is not None else each.command or ""
        if each.file and words:
            name = os.path.normpath(os.path.join(directory, each.file))
            entries.setdefault(name, Entry(name, directory, words))
    return Database(path, entries)


def _split(words: tuple[str, ...] | str) -> tuple[str, ...]:
    if not isinstance(words, str):
        return words
    try:
        return tuple(shlex.split(words))
    except ValueError:
        return tuple(words.split())


def _without_compiler(words: tuple[str, ...], file: str, directory: str) -> list[str]:
    """The options alone: launchers (ccache) and the compiler before them, and the input, taken away."""
    start = next((n for n, word in enumerate(words) if word.startswith(("-", "@"))), len(words))
    return [
        word
        for word in words[start:]
        if word.startswith("-") or os.path.normpath(os.path.join(directory, word)) != file
    ]
