"""Reproducers in folders: by the beginning of a name, the last one, all."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncap.errors import KerncapError, UsageError
from kerncap.format import schema
from kerncap.format.folder import is_range
from kerncap.format.launch_range import LaunchRange
from kerncap.format.reader import Reproducer
from kerncap.printable import visible

LAST = "last"
_MANIFEST = "manifest.json"
MOST_SHOWN = 5
_NEAR = 0.75  # 1 is the same; one wrong letter of four is this


@dataclass(frozen=True)
class Found:
    """A folder that has a manifest; ``problem`` says why it can't be read. Times are seconds since 1970."""

    path: Path
    sealed_s: float
    size_bytes: int
    manifest: schema.Manifest | schema.RangeManifest | None
    problem: str = ""


def named(path: Path, places: Sequence[Path]) -> Path:
    """The reproducer that ``path`` means: itself if there is one, ``last``, or the beginning of a name.

    A name is looked for in ``places``, or in the folder that ``path`` names; links are not followed. A path
    that means nothing is returned as it is. Raises UsageError for the beginning of several names, and for a
    misspelt one with the nearest.
    """
    if os.path.lexists(path) or not path.name:
        return path
    there = reproducers_in(places if path.name == str(path) else (path.parent,))
    if str(path) == LAST:
        return max(there, key=_sealed_s, default=path)
    matching = [each for each in there if each.name.startswith(path.name)]
    if len(matching) > 1:
        shown = ", ".join(visible(each) for each in matching[:MOST_SHOWN])
        more = f" and {len(matching) - MOST_SHOWN} more" if len(matching) > MOST_SHOWN else ""
        raise UsageError(f"{visible(path)}: the beginning of {shown}{more}; give more of the name")
    if not matching and (near := _nearest(path.name, there)):
        raise UsageError(f"{visible(path)}: no such reproducer; did you mean {visible(near)}?")
    return matching[0] if matching else path


def _nearest(name: str, there: Sequence[Path]) -> Path | None:
    """By the whole name, or by its beginning: few people type all of it."""
    spelled = {spelling: each for each in there for spelling in (each.name[: len(name)], each.name)}
    near = difflib.get_close_matches(name, spelled, 1, _NEAR)
    return spelled[near[0]] if near else None


def reproducers_in(folders: Sequence[Path]) -> list[Path]:
    """Those in the folders, or in a folder there (of a rank, of a test); through no link; each once."""
    found: dict[Path, None] = {}
    for folder in folders:
        for one in _subfolders(folder):
            found.update(dict.fromkeys([one] if _is_one(one) else filter(_is_one, _subfolders(one))))
    return list(found)


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except OSError:
        return []
    return [folder / name for name in names]


def _is_one(folder: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(folder / _MANIFEST).st_mode)
    except OSError:
        return False


def _sealed_s(folder: Path) -> float:
    try:
        return os.lstat(folder / _MANIFEST).st_mtime
    except OSError:
        return 0.0


def looked_at(folders: Sequence[Path]) -> Iterator[Found]:
    """Each with its manifest, the newest first; memory is not read."""
    for path in sorted(folders, key=_sealed_s, reverse=True):
        sealed_s = _sealed_s(path)
        try:
            with LaunchRange.open(path) if is_range(path) else Reproducer.open(path) as opened:
                size = sum(file.size for file in opened.listed().values())
                yield Found(path, sealed_s, size, opened.manifest)
        except KerncapError as error:
            yield Found(path, sealed_s, 0, None, str(error))
