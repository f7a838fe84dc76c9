"""CUDA C++ that a compiler generated and keeps in its own cache: for Warp and TileLang."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kerncap import env
from kerncap.capture.source import python_files
from kerncap.capture.source.native import command_line, definitions, layout
from kerncap.capture.source.native.unit import collect, read_source
from kerncap.capture.source.wanted_source import FoundFile, FoundSource, SourceRequest
from kerncap.format import schema

MAX_FILES = 4096


@dataclass(frozen=True)
class Recipe:
    """``headers`` are folders of include files below an installed package's site-packages."""

    tool: Literal["nvcc", "nvrtc"]
    options: tuple[str, ...]
    headers: tuple[str, ...]


def newest_with(kernel: str, bases: Iterable[Path], patterns: Iterable[str]) -> tuple[str, str] | None:
    """Path and text of the file written last that defines the kernel; ``patterns`` as of `Path.glob`."""
    every = [(base, pattern) for base in bases for pattern in patterns]
    found = {
        str(path): path.stat().st_mtime
        for base, pattern in every
        for _, path in zip(range(MAX_FILES), base.glob(pattern), strict=False)
    }
    for path in sorted(found, key=lambda each: -found[each]):
        data = read_source(path)
        if data is not None and f"{kernel}(".encode() in data:
            return path, data.decode("utf-8", "replace")
    return None


def source(
    request: SourceRequest,
    path: str,
    text: str,
    recipe: Recipe,
    notes: Iterable[str] = (),
    written: tuple[str, int, FoundFile] | None = None,
) -> FoundSource:
    """The generated file with its headers as the kernel's unit.

    ``written``: the place that people wrote it at (file, line), and that file for the reproducer.
    """
    every = definitions.definitions(text, frozenset((request.mangled,)))
    definition = next((each for each in every if each.name == request.mangled), None)
    packages = python_files.installed(python_files.stack_files(request))
    folders = [os.path.join(folder, name) for name in recipe.headers for folder in packages]
    here = [folder for folder in folders if os.path.isdir(folder)]
    unit = collect(path, [(folder, "angle") for folder in here])
    assert unit is not None  # it was read already
    files, root, said = layout.tree(unit)
    command = command_line.parse(recipe.tool, recipe.options, Path("/"))
    build = layout.recipe(
        unit, files, root, command, arch=request.arch, directory=None, compiler=None, tool=recipe.tool
    )
    if not here:
        said += ["the headers of its compiler were not found: a rebuild needs them"]
    file, line = path, definition.line if definition is not None else None
    if written is not None:
        file, line = written[:2]
    origins: tuple[schema.SourceOrigin, ...] = ()
    if definition is not None:
        origin = schema.SourceOrigin(
            name=request.mangled[:4096], line=definition.first, lines=definition.last - definition.first + 1,
            original_file=env.hide_home(path)[:4096], original_line=definition.first,
        )  # fmt: skip
        origins = (origin,)
    pairs = definition.parameter_pairs if definition is not None else None
    return FoundSource(
        entry=request.mangled,
        files=(*files, *(() if written is None else (written[2],))),
        file=next(each.path for each in files if each.original == unit.main),
        build=build,
        origins=origins,
        kernel_file=file,
        kernel_line=line,
        parameters=tuple((name, type_) for type_, name in pairs or ()),
        notes=(*said, *notes),
    )
