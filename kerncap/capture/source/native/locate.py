"""Where a kernel is defined: line tables, then its name in the folders of the user, the project, the program.

In this order, because each is surer than the next; what was guessed is said in a note.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kerncap.capture.source.native import compile_commands, definitions, folder_search, installed_library
from kerncap.capture.source.native.definitions import Definition
from kerncap.capture.source.native.folder_search import Index, Place
from kerncap.capture.source.native.line_table import LineTable
from kerncap.capture.source.native.unit import is_external, read_source
from kerncap.capture.source.wanted_source import SourceRequest
from kerncap.format.kernel_names import KernelName

UNIT_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c++", ".hip")
QUICK_S = 1.5  # before a launch, whose thread waits for the answer
_SHOWN = 6
_INSTALLED = ("/site-packages/", "/dist-packages/", "/usr/lib")


@dataclass
class Located:
    """Where the kernel is defined, with what is to be said of it; or why nothing was found."""

    place: Place | None = None
    notes: list[str] = field(default_factory=list)
    reason: str | None = None
    databases: tuple[compile_commands.Database, ...] = ()


class Locator:
    """Looks for the kernel's definition, the surest way first."""

    def __init__(
        self, request: SourceRequest, kernel: KernelName, table: LineTable | None, limit_s: float
    ) -> None:
        self.request = request
        self.kernel = kernel
        self.table = table
        self.limit_s = limit_s
        self.deadline = time.monotonic() + limit_s
        self.found = Located()

    def locate(self) -> Located:
        if self.table is not None and self._by_lines(self.table):
            return self.found
        request = self.request
        self.found.databases = compile_commands.find(starts(request))
        for what, index, sure in self._indexes():
            places = self._plausible(index.places(self.kernel), sure)
            if len(places) == 1:
                self.found.place = places[0]
                self.found.notes.append(
                    f"the source was found by the kernel's name in {what}: "
                    f"no line table proves that this file was compiled ({_lines_by(request)} makes them)"
                )
                return self.found
            if places:
                shown = ", ".join(map(str, places[:_SHOWN])) + (" …" if len(places) > _SHOWN else "")
                self.found.reason = (
                    f"{len(places)} definitions may be this kernel: {shown}; "
                    f"compile with {_lines_by(request).partition(' ')[2]}, or name a narrower --source-dir"
                )
                return self.found
            if not index.complete or time.monotonic() > self.deadline:
                self.found.reason = (
                    f"{what} holds more source than was searched: name a narrower --source-dir"
                )
            if time.monotonic() > self.deadline:
                break
        return self.found

    def _plausible(self, places: tuple[Place, ...], sure: bool) -> tuple[Place, ...]:
        """Those whose namespaces are the kernel's. In a project's own files (``sure``) some of these may be
        hidden in macros; a file that merely lies beside the program has to say them all."""
        same = tuple(each for each in places if definitions.fits_scopes(self.kernel, each.definition))
        if same or not sure:
            return same
        return tuple(each for each in places if definitions.may_hide_scopes(self.kernel, each.definition))

    def _by_lines(self, table: LineTable) -> bool:
        """The definition that the lines lie in. Without one, the first line itself."""
        first: Place | None = None
        for path in dict.fromkeys(path for path, _ in table.rows):
            here = self._here(path)
            data = read_source(here) if here is not None else None
            if here is None or data is None:
                continue
            text = data.decode("utf-8", "replace")
            lines = {line for each, line in table.rows if each == path}
            macros = _macros_of(table)
            every = definitions.definitions(text, frozenset((self.kernel.base,)), macros)
            if is_external(here) and every and not any(each.is_kernel for each in every):
                macros |= _macros_in(installed_library.included_by(here, data))
                every = definitions.definitions(text, frozenset((self.kernel.base,)), macros)
            inside = [each for each in every if any(each.first <= line <= each.last for line in lines)]
            best = definitions.matching(self.kernel, inside) or definitions.matching(self.kernel, every)
            if best:
                self.found.place = Place(here, best[0])
            elif first is None and here.endswith(folder_search.SUFFIXES):  # a key, a .py: no CUDA C++
                line = min(lines)
                made = Definition(
                    self.kernel.base, self.kernel.scopes, frozenset(), True,
                    self.kernel.template_arguments is not None, None, line, line, line,
                )  # fmt: skip
                first = Place(here, made)
            if best:
                self._check_stamp(path, here, table)
                return True
        if first is not None:
            self.found.place = first
            self.found.notes.append(
                f"{first.path} holds the kernel's lines, but no definition of {self.kernel.base} was seen"
            )
            return True
        named = table.rows[0][0]
        why = "holds no kernel" if os.path.isfile(named) else "is not on this machine"
        self.found.notes.append(f"the line tables name {named}, which {why}")
        return False

    def _here(self, path: str) -> str | None:
        """A file of the line tables here: at its path, or below a --source-dir, by its last parts."""
        if not os.path.isabs(path) and self.request.cwd is not None:
            path = os.path.normpath(os.path.join(self.request.cwd, path))
        if os.path.isfile(path):
            return path
        parts = path.strip("/").split("/")
        for folder in self.request.source_dirs:
            for start in range(len(parts)):
                candidate = os.path.join(os.path.abspath(folder), *parts[start:])
                if ".." not in parts and os.path.isfile(candidate):
                    self.found.notes.append(f"{path} was taken from {candidate}")
                    return os.path.normpath(candidate)
        return None

    def _check_stamp(self, path: str, here: str, table: LineTable) -> None:
        stamp = table.stamps.get(path)
        if stamp is not None:
            now = os.stat(here)
            if now.st_size != stamp[1]:
                self.found.notes.append(f"{here} was changed since the program was compiled")

    def _indexes(self) -> Iterator[tuple[str, Index, bool]]:
        """Where to look, and whether that is the kernel's project for sure."""
        request = self.request
        for folder in request.source_dirs:
            yield f"--source-dir {folder}", _folder_index(os.path.abspath(folder), self.limit_s), True
        built_here = request.mapped_from is not None and not _is_installed(request.mapped_from)
        for database in self.found.databases:
            yield f"the project of {database.path}", _database_index(database.path, self.limit_s), built_here
        for place in dict.fromkeys(beside_program(request)):
            yield place, _beside_index(place, _newest(place)), False


def _macros_of(table: LineTable) -> dict[str, definitions.Macro]:
    """Kernel-making macros of the unit's other files."""
    return _macros_in(read_source(path) or b"" for path in table.files[:512])


def _macros_in(texts: Iterable[bytes]) -> dict[str, definitions.Macro]:
    found: dict[str, definitions.Macro] = {}
    for data in texts:
        if b"__global__" in data and b"define" in data:
            found.update(definitions.kernel_macros(data.decode("utf-8", "replace")))
    return found


def _lines_by(request: SourceRequest) -> str:
    return "hipcc -g" if request.tool == "hipcc" else "nvcc -lineinfo"


def starts(request: SourceRequest) -> list[Path]:
    found = [Path(folder) for folder in request.source_dirs]
    found += [request.cwd] if request.cwd is not None else []
    found += [Path(path).parent for path in (request.mapped_from, request.executable) if path]
    return list(dict.fromkeys(found))


def beside_program(request: SourceRequest) -> Iterator[str]:
    """Folders of the program: where it was built in place, or a Python extension was."""
    if request.mapped_from:
        yield os.path.dirname(request.mapped_from)
        if request.cwd is not None and not _is_installed(request.mapped_from):
            yield str(request.cwd)


def _is_installed(path: str) -> bool:
    """An installed library was not built where the program happens to run."""
    return any(mark in path for mark in _INSTALLED)


def _newest(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=16)
def _folder_index(folder: str, limit_s: float) -> Index:
    return Index(folder_search.files_below(folder), time.monotonic() + limit_s)


@functools.lru_cache(maxsize=16)
def _database_index(path: str, limit_s: float) -> Index:
    database = next((each for each in compile_commands.find([Path(path).parent]) if each.path == path), None)
    files = [file for file in database.entries if file.endswith(UNIT_SUFFIXES)] if database else []
    return Index(dict.fromkeys((*files, *_headers_of(files))), time.monotonic() + limit_s)


def _headers_of(files: list[str]) -> Iterator[str]:
    """Headers below the folder that a project's CUDA files share, if that is a project's."""
    cuda = [os.path.dirname(file) for file in files if file.endswith((".cu", ".hip"))]
    if not cuda:
        return
    shared = os.path.commonpath(cuda)
    for folder in dict.fromkeys((shared, os.path.join(os.path.dirname(shared), "include"))):
        if folder.count("/") >= 2 and folder != os.path.expanduser("~"):
            yield from folder_search.files_below(folder)


@functools.lru_cache(maxsize=32)
def _beside_index(folder: str, _changed: int) -> Index:
    return Index(folder_search.files_in(folder), time.monotonic() + QUICK_S)
