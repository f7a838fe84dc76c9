"""The unit of a candidate as files: what the reproducer stored, the user's edits laid over it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from kerncap import scratch
from kerncap.errors import ReplayError
from kerncap.format import Reproducer
from kerncap.format.build_options import is_accepted, is_plain_path
from kerncap.format.schema import Source, SourceBuild
from kerncap.printable import visible
from kerncap.replay.candidates.errors import BuildError

SOURCE = "source/"
GIVEN_HEADERS = f"{SOURCE}headers/"  # what NVRTC or HIPRTC was given from memory
MAX_CANDIDATE_BYTES = 64 << 20
BuildTool = Literal["nvcc", "nvrtc", "hipcc", "hiprtc"]
_HEADER_SUFFIXES = (".h", ".hpp", ".hh", ".hxx", ".cuh", ".inl", ".inc")


@dataclass
class StagedUnit:
    """``files`` maps stored paths (source/…) to bytes; ``edited`` are those that are not the stored ones."""

    build: SourceBuild
    files: dict[str, bytes]
    edited: list[str] = field(default_factory=list)
    candidate_folder: Path | None = None

    @property
    def unit(self) -> str:
        return self.build.unit

    def write(self, folder: Path) -> None:
        """Every file below ``folder``."""
        for path, data in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def digest(self) -> str:
        """The content of every file and the recipe."""
        found = hashlib.sha256(repr(self.build).encode())
        for path in sorted(self.files):
            data = self.files[path]
            found.update(f"{path}\0{len(data)}\0".encode())
            found.update(hashlib.sha256(data).digest())
        return found.hexdigest()

    def include_folders(self, staged: Path) -> list[tuple[str, str]]:
        """(form, folder): mirrors of the original folders first, so that an edit there takes effect; then
        the original ones that are here too, for what was not stored; the candidate's own last."""
        mirrors, originals = [], []
        for each in self.build.include_dirs:
            if each.stored is not None:
                mirrors.append((each.form, str(staged / each.stored)))
            here = os.path.expanduser(each.path)
            if os.path.isabs(here) and is_plain_path(here) and os.path.isdir(here):
                originals.append((each.form, here))
        own = [("quote", str(self.candidate_folder))] if self.candidate_folder is not None else []
        return mirrors + originals + [each for each in own if is_plain_path(each[1])]

    @property
    def is_closed(self) -> bool:
        """Whether nothing but the files themselves, and a toolkit, decides what comes out."""
        outside = [path for _, path in self.include_folders(Path("/nowhere")) if Path(path).is_dir()]
        return not outside or all((Path(path) / "cuda_runtime_api.h").is_file() for path in outside)

    def options(self, staged: Path, tool: str) -> list[str]:
        """The recorded options for ``tool``, the places of forced headers made absolute."""
        found: list[str] = []
        for option in self.build.options:
            if not is_accepted(tool, option):
                continue
            name, equals, value = option.partition("=")
            if name == "-include" and equals:
                found.append(f"{'--pre-include' if tool == 'nvrtc' else '-include'}={staged / value}")
            else:
                found.append(option)
        return found


def stage_stored(reproducer: Reproducer) -> StagedUnit:
    """The unit as it is stored. Raises BuildError as `stage` does."""
    source, build = _recipe(reproducer)
    stored = {file.path: file for file in (source.file, *source.originals)}
    return StagedUnit(build, {path: reproducer.file(file) for path, file in stored.items()})


def stage(reproducer: Reproducer, candidate: Path) -> StagedUnit:
    """The unit with ``candidate`` in the place of the file that it is an edit of.

    A candidate that is named like a stored file (by the most of its path) replaces that file; any other
    replaces the unit. Files beside it that lie as stored ones lie beside the replaced one are edits too.
    Raises BuildError for a reproducer without a recipe, or whose recipe holds what none may hold.
    """
    source, build = _recipe(reproducer)
    stored = {file.path: file for file in (source.file, *source.originals)}
    replaced = _replaced(candidate, build, stored)
    folder = os.path.dirname(replaced)
    files: dict[str, bytes] = {replaced: _read(candidate)}
    for path, file in stored.items():
        if path == replaced:
            continue
        beside = candidate.parent / os.path.relpath(path, folder)
        is_edit = beside.is_file() and not path.startswith(GIVEN_HEADERS)
        files[path] = _read(beside) if is_edit else reproducer.file(file)
    changed = [path for path in files if hashlib.sha256(files[path]).hexdigest() != stored[path].sha256]
    return StagedUnit(build, files, changed, candidate.resolve().parent)


def stage_new(like: Reproducer | None, tool: BuildTool, path: Path, text: bytes) -> StagedUnit:
    """A unit that no application had: ``text``, of the file ``path``, for ``tool``.

    If there is a launch that it is compiled ``like``, it has its compiler, options, include folders and
    headers. Raises BuildError for a recipe that holds what none may hold.
    """
    name = path.name if is_plain_path(path.name) else f"candidate{path.suffix}"
    build, files = SourceBuild(tool=tool, unit=f"{SOURCE}{name}"), {}
    if like is not None:
        source, recipe = _recipe(like)
        files = {file.path: like.file(file) for file in (source.file, *source.originals)}
        unit = f"{os.path.dirname(recipe.unit)}/{name}"
        build = msgspec.structs.replace(recipe, unit=unit, name_expressions=())
    build = msgspec.structs.replace(build, name=name)
    return StagedUnit(build, {**files, build.unit: text}, candidate_folder=path.resolve().parent)


def _recipe(reproducer: Reproducer) -> tuple[Source, SourceBuild]:
    source = reproducer.manifest.source
    if source is None or source.build is None:
        why = f" ({source.missing[0]})" if source is not None and source.missing else ""
        raise BuildError(
            f"{reproducer.path}: it does not say how its kernel was compiled{why}; "
            "a .cubin, .ptx or .hsaco file can be a candidate"
        )
    build = source.build
    listed = {file.path for file in (source.file, *source.originals)}
    for path in listed:
        if not path.startswith(SOURCE) or not is_plain_path(path):
            raise BuildError(f"{reproducer.path}: a compiler can't be given a file called {visible(path)}")
    for folder in build.include_dirs:
        if folder.stored is not None and not is_plain_path(folder.stored):
            raise BuildError(
                f"{reproducer.path}: the recipe's folder {visible(folder.stored)} is not allowed"
            )
    for option in build.options:
        name, _, value = option.partition("=")
        if not is_accepted(build.tool, option) or (name == "-include" and value not in listed):
            raise BuildError(f"{reproducer.path}: the recipe's option {visible(option)} is not allowed")
    return source, build


def _replaced(candidate: Path, build: SourceBuild, files: Iterable[str]) -> str:
    parts = candidate.absolute().parts
    scored = []
    for path in files:
        own = path.split("/")
        same = 0
        while same < len(own) and same < len(parts) and own[-1 - same] == parts[-1 - same]:
            same += 1
        scored.append((same, path == build.unit, path))
    best = max(scored)
    if best[0] > 0:
        return best[2]
    if candidate.suffix in _HEADER_SUFFIXES and not build.unit.endswith(_HEADER_SUFFIXES):
        names = ", ".join(sorted(path.removeprefix(SOURCE) for path in files)[:8])
        raise BuildError(f"{candidate}: a header that the unit does not have; it has {names}")
    return build.unit


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_CANDIDATE_BYTES:
            raise ReplayError(
                f"{path}: more than {MAX_CANDIDATE_BYTES >> 20} MiB, too large for a source file"
            )
        return path.read_bytes()
    except OSError as error:
        raise ReplayError(f"{path}: {error.strerror or error}") from error


def private_folder() -> AbstractContextManager[str]:
    """Where a compiler works."""
    return scratch.temporary("build")
