"""Where a kernel is defined, by its name: in folders that the user gave, and in a project's own files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kerncap.capture.source.native import definitions as parsing
from kerncap.capture.source.native.definitions import Definition, Macro
from kerncap.capture.source.native.unit import read_source
from kerncap.format.kernel_names import KernelName

KERNEL_SUFFIXES = (".cu", ".cuh", ".hip")
HEADER_SUFFIXES = (".h", ".hpp", ".hh", ".hxx", ".inl", ".inc", ".cuinc")
SUFFIXES = KERNEL_SUFFIXES + HEADER_SUFFIXES + (".cpp", ".cc", ".cxx", ".c++")
MAX_FILES = 50_000
MAX_TOTAL_BYTES = 512 << 20
MAX_FILE_BYTES = 8 << 20
_LEFT_OUT_FOLDERS = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", "CMakeFiles", ".venv"))


@dataclass(frozen=True)
class Place:
    """A definition and the file that it stands in."""

    path: str
    definition: Definition

    def __str__(self) -> str:
        return f"{self.path}:{self.definition.line}"


class Index:
    """Files that mention `__global__`, read once; ``complete`` unless a limit or the deadline came first."""

    def __init__(self, files: Iterable[str], deadline: float | None = None) -> None:
        self.complete = True
        self.macros: dict[str, Macro] = {}
        self._texts: dict[str, str] = {}
        self._parsed: dict[tuple[str, str], tuple[Definition, ...]] = {}
        self._read(files, deadline)

    def places(self, name: KernelName) -> tuple[Place, ...]:
        """The definitions that may be this kernel; more than one where its name doesn't tell them apart."""
        found: list[Place] = []
        for path, text in self._texts.items():
            if name.base in text or any(macro in text for macro in self.macros):
                found += [Place(path, each) for each in self._definitions(path, text, name.base)]
        best = parsing.matching(name, [place.definition for place in found])
        kept = {id(each) for each in best}
        return tuple(place for place in found if id(place.definition) in kept)

    def _definitions(self, path: str, text: str, base: str) -> tuple[Definition, ...]:
        key = (path, base)
        if key not in self._parsed:
            if base not in text and not any(name in text for name in self.macros):
                return ()
            found = parsing.definitions(text, frozenset((base,)), self.macros)
            self._parsed[key] = tuple(each for each in found if each.is_kernel and each.name == base)
        return self._parsed[key]

    def _read(self, files: Iterable[str], deadline: float | None) -> None:
        total = count = 0
        others: list[tuple[str, str]] = []
        for path in files:
            count += 1
            if count > MAX_FILES or total > MAX_TOTAL_BYTES or (deadline and time.monotonic() > deadline):
                self.complete = False
                break
            data = read_source(path, MAX_FILE_BYTES)
            if data is None:
                continue
            total += len(data)
            text = data.decode("utf-8", "replace")
            if "__global__" in text:
                self._texts[path] = text
                self.macros.update(parsing.kernel_macros(text))
            elif path.endswith(KERNEL_SUFFIXES):
                others.append((path, text))
        for path, text in others:  # what a macro of another file makes
            if any(name in text for name in self.macros):
                self._texts[path] = text


def files_below(folder: str) -> Iterator[str]:
    """Source files in a folder and below, in a fixed order; links to folders are not followed.

    The copies in reproducers are left out.
    """
    for here, folders, names in os.walk(folder):
        left_out = {*_LEFT_OUT_FOLDERS, "source"} if "manifest.json" in names else _LEFT_OUT_FOLDERS
        folders[:] = sorted(each for each in folders if each not in left_out)
        for name in sorted(names):
            if name.endswith(SUFFIXES):
                yield os.path.normpath(os.path.join(here, name))


def files_in(folder: str) -> Iterator[str]:
    """CUDA and HIP files of a folder itself."""
    try:
        names = sorted(os.listdir(folder))[:4096]
    except OSError:
        return
    for name in names:
        if name.endswith(KERNEL_SUFFIXES):
            yield os.path.normpath(os.path.join(folder, name))
