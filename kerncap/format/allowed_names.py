"""Which files and folders a reproducer may hold: the one place that says so (FORMAT.md, "Names").

The grammar is closed. What it does not know is refused and never ignored: people work in the folder and
modules are looked for there, so a file that nobody asked for may be what runs.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from kerncap import unexpected_error
from kerncap.format.schema import StoredFile
from kerncap.format.stored_files import MAX_PATH_DEPTH, format_error, path_problem

MANIFEST_PATH = "manifest.json"
MANIFEST_DIGEST_PATH = "manifest.sha256"
README_PATH = "README.md"
CHECKS_PATH = "checks.json"
INDEX_PATH = "memory/index"
CHUNKS_PATH = "memory/chunks"
# All but the first are there only for large memory.
CHUNKS_PATHS = (CHUNKS_PATH, *(f"{CHUNKS_PATH}.{number}" for number in range(1, 16)))
MEMORY_PATHS = frozenset({INDEX_PATH, *CHUNKS_PATHS})
MAX_FOLDER_ENTRIES = 65_536

# What a manifest may list, by the object that lists it.
_CODE = re.compile(r"code/kernel\.[A-Za-z0-9._-]{1,120}")
_SOURCE = re.compile(r"source/.+", re.DOTALL)  # the application's own tree: any plain path
_LISTED = {
    "memory": (re.compile("|".join(map(re.escape, sorted(MEMORY_PATHS)))),),
    "code": (_CODE,),
    "source": (_SOURCE,),
    "files": (re.compile(re.escape(README_PATH)), _CODE, _SOURCE),
}
_WRITE_SET = re.compile(r"write_set-[0-9a-f]{16}\.bin")
_CHECKS_OF_LAUNCH = re.compile(r"checks-[0-9]{1,4}\.json")
_UNFINISHED = re.compile(
    rf"\.(?:checks\.json|{_CHECKS_OF_LAUNCH.pattern}|{_WRITE_SET.pattern})\.tmp-([0-9]+)-[0-9a-f]{{8}}"
)
# Beside what is listed, at the top: written after sealing; or what a killed process or NFS left behind.
_BESIDE = re.compile(
    rf"manifest\.(json|sha256)|checks\.json|{_WRITE_SET.pattern}"
    rf"|{_UNFINISHED.pattern}|\.nfs[0-9a-f]{{1,32}}"
)
_BESIDE_RANGE = re.compile(_BESIDE.pattern.replace(r"checks\.json|", f"{_CHECKS_OF_LAUNCH.pattern}|", 1))
_EXPECTED = {
    "memory": f"{INDEX_PATH}, {CHUNKS_PATH} or {CHUNKS_PATH}.1 to .15",
    "code": "code/kernel.STAGE",
    "source": "source/…",
    "files": f"{README_PATH}, code/kernel.STAGE or source/…",
}
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def listed_problem(name: str, part: str) -> str | None:
    """Why ``part`` of a manifest (memory, code, source, files) may not list ``name``, or None."""
    problem = path_problem(name)
    if problem is None and not any(pattern.fullmatch(name) for pattern in _LISTED[part]):
        problem = f"{name!r} is not a file that a manifest may list as {part}; expected {_EXPECTED[part]}"
    return problem


def is_write_set(name: str) -> bool:
    return _WRITE_SET.fullmatch(name) is not None


def unfinished_by(name: str) -> str | None:
    """The number of the process that began to write this file, if it is one that was not finished."""
    found = _UNFINISHED.fullmatch(name)
    return None if found is None else found[1]


def not_a_write_set(name: str) -> str:
    return f"write set in {name!r}; expected write_set-<16 hex>.bin"


def file_below_file(names: Iterable[str]) -> str | None:
    """A name that would have to lie below another file, or None."""
    files = set(names)
    return next((name for name in sorted(files) if any(above in files for above in _folders_of(name))), None)


def file_of_range(stored: StoredFile) -> str:
    """Where a range keeps a file that the manifest of one of its launches lists: equal ones once."""
    return stored.path if stored.path in MEMORY_PATHS else f"files/{stored.sha256}"


def manifest_of_launch(number: int) -> str:
    """The manifest of launch ``number`` of a range, counted from 0."""
    return f"launches/{number}.json"


def checks_of_launch(number: int) -> str:
    """What was found out about launch ``number`` of a range after sealing."""
    return f"checks-{number}.json"


class Grammar:
    """The names of one reproducer, or range: what its manifest lists, and what may lie beside that."""

    def __init__(self, listed: Collection[str], of_range: bool = False) -> None:
        self._beside = _BESIDE_RANGE if of_range else _BESIDE
        self._files = frozenset(listed)
        self._folders = frozenset(folder for name in self._files for folder in _folders_of(name))

    def problem(self, name: str, is_folder: bool = False) -> str | None:
        """Why ``name`` (a plain path) has no place in this reproducer, or None."""
        if is_folder:
            return None if name in self._folders else "not a folder of a reproducer: no listed file is in it"
        if name in self._files or self._beside.fullmatch(name):
            return None
        return "not a file of a reproducer: its manifest does not list it"


def refuse_other_files(root: Path, root_fd: int, grammar: Grammar) -> None:
    """Raise FormatError for the first thing in the folder that has no place there, links and devices too.

    Walks along descriptors, so that a folder which is exchanged meanwhile leads nowhere.
    """
    left = MAX_FOLDER_ENTRIES
    for name, is_folder in _walk(root, root_fd):
        left -= 1
        if left < 0:
            raise format_error(root, 0, f"holds more than {MAX_FOLDER_ENTRIES} entries")
        problem = grammar.problem(name, is_folder)
        if problem is not None:
            raise format_error(root / name, 0, f"{problem}; take it out of the folder")


def _walk(root: Path, root_fd: int) -> Iterator[tuple[str, bool]]:
    """(name from the top, whether it is a folder) of everything below, a folder before what it holds."""
    pending = [""]
    while pending:
        folder = pending.pop()
        if folder.count("/") >= MAX_PATH_DEPTH:
            raise format_error(root, 0, f"its folders are deeper than {MAX_PATH_DEPTH}")
        fd = _open_folder(root, root_fd, folder)
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    name = f"{folder}{entry.name}"
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if stat.S_ISLNK(mode):
                        raise format_error(root / name, 0, "a symbolic link; a reproducer has none")
                    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                        raise format_error(root / name, 0, "neither a folder nor a regular file")
                    yield name, stat.S_ISDIR(mode)
                    if stat.S_ISDIR(mode):
                        pending.append(f"{name}/")
        except OSError as error:
            raise unexpected_error.about(root / folder, error, "can't be read") from error
        finally:
            os.close(fd)


def _open_folder(root: Path, root_fd: int, folder: str) -> int:
    fd = os.dup(root_fd)
    try:
        for part in folder.split("/")[:-1]:
            below = os.open(part, _DIRECTORY_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = below
        # Not a duplicate: those share the position that a folder is read at.
        return os.open(".", _DIRECTORY_FLAGS, dir_fd=fd)
    except OSError as error:
        raise unexpected_error.about(root / folder, error, "can't be read") from error
    finally:
        os.close(fd)


def _folders_of(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
