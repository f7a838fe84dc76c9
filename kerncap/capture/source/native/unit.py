"""A translation unit with the headers that it pulls in, so that it can be compiled somewhere else.

`#include`s are followed without a preprocessor, so both branches of every condition: a few files too many
do no harm. Headers of CUDA toolkits, of ROCm, of PyTorch and of the system are named, not kept; those of
other packages come last, so that a limit meets them and not the application's own.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kerncap.capture.source.native.command_line import Form

MAX_FILES = 2000
MAX_BYTES = 64 << 20
MAX_FILE_BYTES = 16 << 20
_INCLUDE = re.compile(
    rb'^[ \t]*#[ \t]*(?:include|include_next|import)[ \t]*(?:"([^"\n]{1,1024})"|<([^>\n]{1,1024})>|(\w+))',
    re.M,
)
_COMMENT = re.compile(rb'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_SYSTEM = ("/usr/include/", "/usr/lib/", "/usr/lib64/", "/lib/", "/usr/local/include/c++/")
_TOOLKIT_MARK = ("cuda_runtime_api.h", "nvrtc.h", "cuda.h")
_TORCH_MARK = os.path.join("ATen", "ATen.h")
_PACKAGES = ("/site-packages/", "/dist-packages/")


@dataclass
class Unit:
    """``files`` maps absolute paths to bytes, the main file first; ``external`` headers are only named."""

    main: str
    files: dict[str, bytes] = field(default_factory=dict)
    external: list[str] = field(default_factory=list)
    folders: list[tuple[str, Form]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def collect(
    main: str,
    folders: Sequence[tuple[str, Form]],
    forced: Iterable[str] = (),
    text: bytes | None = None,
    hints: Sequence[str] = (),
) -> Unit | None:
    """The unit of the file ``main``; ``text`` if it is no file (NVRTC). None if it can't be read.

    ``hints`` are files that may be the headers that no folder has; the folders that this takes are added
    to ``Unit.folders``.
    """
    return _Collector(main, folders, hints).collect(forced, text)


def read_source(path: str | Path, limit: int = MAX_FILE_BYTES) -> bytes | None:
    """A regular file's bytes; None if it isn't one, or is larger than a source file ever is."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > limit:
            return None
        with open(path, "rb") as file:
            return file.read(limit)
    except (OSError, ValueError):
        return None


def is_external(path: str) -> bool:
    """Whether a header belongs to the system, to a CUDA toolkit, to ROCm or to PyTorch."""
    return path.startswith(_SYSTEM) or _in_toolkit(os.path.dirname(path))


@functools.lru_cache(maxsize=8192)
def _in_toolkit(folder: str) -> bool:
    """Whether the folder, or one of the few above it, is an include folder of theirs."""
    for _ in range(8):
        marks = (os.path.join("crt", "host_defines.h"), os.path.join("hip", "hip_runtime.h"), _TORCH_MARK)
        if any(os.path.isfile(os.path.join(folder, mark)) for mark in marks) or (
            sum(os.path.isfile(os.path.join(folder, name)) for name in _TOOLKIT_MARK) >= 2
        ):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return False


def includes_of(data: bytes) -> list[tuple[str, bool]]:
    """The names that a file includes: (name, whether in quotes). Macros are given as ``$NAME``."""
    if b"include" not in data and b"import" not in data:
        return []
    plain = _COMMENT.sub(lambda found: found.group() if found.group().startswith(b'"') else b" ", data)
    found: dict[tuple[str, bool], None] = {}
    for quoted, angled, macro in _INCLUDE.findall(plain):
        name = (quoted or angled or b"$" + macro).decode("utf-8", "replace")
        found[name, bool(quoted)] = None
    return list(found)


class _Collector:
    def __init__(self, main: str, folders: Sequence[tuple[str, Form]], hints: Sequence[str]) -> None:
        self.unit = Unit(os.path.normpath(main), folders=list(folders))
        self.hints = hints
        self.quoted = [path for path, form in folders if form == "quote"]
        self.angled = [path for path, form in folders if form == "angle"]
        self.angled += [path for path, form in folders if form == "system"]
        self.external: dict[str, None] = {}
        self.unfound: dict[str, None] = {}
        self.size = 0
        self.full = False
        self.own: list[str] = []  # files whose includes are to be followed
        self.packages: list[str] = []
        self.where: dict[tuple[str, str], str | None] = {}

    def collect(self, forced: Iterable[str], text: bytes | None) -> Unit | None:
        data = read_source(self.unit.main) if text is None else text
        if data is None:
            return None
        self._keep(self.unit.main, data)
        for name in forced:
            self._follow(name, True, os.path.dirname(self.unit.main))
        while self.own or self.packages:
            path = (self.own or self.packages).pop()
            for name, quoted in includes_of(self.unit.files[path]):
                self._follow(name, quoted, os.path.dirname(path))
        self.unit.external = list(self.external)
        if self.unfound:
            shown = ", ".join(list(self.unfound)[:8]) + (" …" if len(self.unfound) > 8 else "")
            self.unit.notes.append(f"headers that were not found when the source was collected: {shown}")
        if self.full:
            limits = f"{MAX_FILES} files, {MAX_BYTES >> 20} MiB"
            self.unit.notes.append(f"not every header was stored (limit: {limits})")
        return self.unit

    def _follow(self, name: str, quoted: bool, here: str) -> None:
        if name.startswith("$"):
            if not name[1:].isdigit():
                self.unfound[f"#include {name[1:]} (a macro)"] = None
            return
        path = self._find(name, quoted, here)
        if path is None:
            if quoted:
                self.unfound[name] = None
            else:
                self.external[name] = None  # the compiler's own, or the system's
        elif is_external(path):
            self.external[name] = None
        elif path not in self.unit.files:
            data = read_source(path)
            if data is None:
                self.unfound[name] = None
            else:
                self._keep(path, data)

    def _keep(self, path: str, data: bytes) -> None:
        if len(self.unit.files) >= MAX_FILES or self.size + len(data) > MAX_BYTES:
            self.full = True
            return
        self.unit.files[path] = data
        self.size += len(data)
        (self.packages if any(mark in path for mark in _PACKAGES) else self.own).append(path)

    def _find(self, name: str, quoted: bool, here: str) -> str | None:
        key = (name, here if quoted else "")
        if key not in self.where:
            folders = [here, *self.quoted, *self.angled] if quoted else self.angled
            paths = (os.path.normpath(os.path.join(folder, name)) for folder in folders)
            found = next((path for path in paths if os.path.isfile(path)), None)
            self.where[key] = found if found is not None or ".." in name else self._hinted(name)
        return self.where[key]

    def _hinted(self, name: str) -> str | None:
        """A header that no folder has but that is known to be one of the unit's: its folder is one then."""
        tail = "/" + os.path.normpath(name)
        for path in self.hints:
            if path.endswith(tail) and not is_external(path) and os.path.isfile(path):
                folder = path[: -len(tail)] or "/"
                self.angled.append(folder)
                self.unit.folders.append((folder, "angle"))
                return path
        return None
