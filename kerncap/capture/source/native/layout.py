"""Where the files of a unit go below source/: the application's own tree, from the folder that they share.

Files keep their places to one another, so that `#include "../x.h"` means the same there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from kerncap import env
from kerncap.capture.source.native.command_line import CommandLine, Form
from kerncap.capture.source.native.unit import Unit
from kerncap.capture.source.wanted_source import FoundFile
from kerncap.format import schema
from kerncap.format.stored_files import path_problem

MAX_PATH = 900  # of 1024, the folder's own name and source/ counted in
_MAX_NAME = 4096


def tree(unit: Unit) -> tuple[tuple[FoundFile, ...], str, list[str]]:
    """The unit's files with their places, the folder that they share, and notes on those left out."""
    root = _shared_folder(unit)
    files: list[FoundFile] = []
    notes: list[str] = []
    taken: set[str] = set()
    for path, data in unit.files.items():
        place = place_of(path, root)
        if path_problem(f"source/{place}") or len(place) > MAX_PATH or place in taken:
            notes.append(f"{path} can't be stored under its own name")
            continue
        taken.add(place)
        files.append(FoundFile(place, path, data))
    return tuple(files), root, notes


def place_of(path: str, root: str) -> str:
    """The place of an absolute path below source/."""
    relative = os.path.relpath(path, root) if root != "/" else _without_home(path).lstrip("/")
    return re.sub(r"[\x00-\x1f\\]", "_", relative)


def _without_home(path: str) -> str:
    hidden = env.hide_home(path)
    return "home" + hidden[1:] if hidden.startswith("~") else hidden


def _shared_folder(unit: Unit) -> str:
    """The deepest folder that holds every file, and every include folder that a file was found below."""
    folders = [os.path.dirname(path) for path in unit.files]
    folders += [
        folder
        for folder, _ in unit.folders
        if len(folder) > 1 and any(path.startswith(folder + "/") for path in unit.files)
    ]
    try:
        return os.path.commonpath(folders)
    except ValueError:
        return "/"


def recipe(
    unit: Unit,
    files: Sequence[FoundFile],
    root: str,
    command: CommandLine,
    *,
    arch: str | None,
    directory: str | None,
    compiler: str | None,
    tool: Literal["nvcc", "nvrtc", "hipcc"] = "nvcc",
) -> schema.SourceBuild:
    """How to compile the unit with ``tool``, its folders named both here and below source/."""
    places = {file.original: file.path for file in files}
    return schema.SourceBuild(
        tool=tool,
        unit=f"source/{places[unit.main]}",
        arch=arch,
        name=env.hide_home(unit.main)[:_MAX_NAME],
        options=command.options + _forced(command, unit, places),
        headers={
            env.hide_home(path)[:_MAX_NAME]: f"source/{place}"
            for path, place in places.items()
            if path != unit.main
        },
        include_dirs=include_folders(unit.folders, places.values(), root),
        external=tuple(name[:_MAX_NAME] for name in unit.external),
        directory=env.hide_home(directory)[:_MAX_NAME] if directory else None,
        compiler=compiler,
    )


def _forced(command: CommandLine, unit: Unit, places: dict[str, str]) -> tuple[str, ...]:
    """Headers that the command line includes are named by their place: `-include=source/…`."""
    found: list[str] = []
    for name in command.forced:
        tail = "/" + os.path.normpath(name).lstrip("./")
        path = next((each for each in unit.files if each == name or each.endswith(tail)), None)
        if path is not None and path in places:
            found.append(f"-include=source/{places[path]}")
    return tuple(found)


def include_folders(
    folders: Sequence[tuple[str, Form]], places: Iterable[str], root: str
) -> tuple[schema.IncludeFolder, ...]:
    """The folders of a command line; those that hold a stored file with their mirror."""
    kept = list(places)
    found: list[schema.IncludeFolder] = []
    for folder, form in folders[:4096]:
        mirror = None
        if folder == root or folder.startswith(root.rstrip("/") + "/"):
            mirror = place_of(folder, root) if folder != root else "."
            inside = mirror == "." or any(place.startswith(mirror + "/") for place in kept)
            mirror = mirror if inside else None
        stored = None if mirror is None else "source" if mirror == "." else f"source/{mirror}"
        found.append(schema.IncludeFolder(path=env.hide_home(folder)[:_MAX_NAME], form=form, stored=stored))
    return tuple(found)
