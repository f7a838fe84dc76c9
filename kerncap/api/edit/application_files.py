"""The application's own files behind a working copy, as the reproducer keeps them, and the patch for them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from kerncap.api.edit.patch import Edits, Patch, bare_lines, map_back, unified
from kerncap.api.edit.working_copy import Unit, WorkingCopy
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.schema import Source, SourceOrigin


def patch_of(reproducer: Reproducer, copy: WorkingCopy) -> Patch:
    """The edits of the copy against the application's files as they were at capture.

    Lines that no file of the application has are named in ``unmapped``. Raises UsageError for a compiled
    stage, which no file of the application holds.
    """
    source = reproducer.manifest.source
    if copy.unit.stage != "source" or source is None:
        raise UsageError(f"--apply: {copy.unit.stage} is compiled; no file of the application holds it")
    if source.language not in ("python", "numba", "python-dsl") or not source.origins:
        originals, changed = _files(source, copy.unit, copy.read())
        unmapped: list[str] = []
    else:
        originals, edits = _module(reproducer, source, copy)
        changed = edits.applied(originals)
        unmapped = [f"{copy.file.name}, {each}" for each in edits.unmapped]
    changed = {file: text for file, text in changed.items() if text != originals[file]}
    notes = [note for file in changed if (note := _differs_here(file, originals[file]))]
    return dataclasses.replace(unified(originals, changed), unmapped=tuple(unmapped), notes=tuple(notes))


def _files(source: Source, unit: Unit, now: Mapping[str, bytes]) -> tuple[dict[str, str], dict[str, str]]:
    """Native files, whole: their text by the application's path, as captured and as edited."""
    before, after = {}, {}
    for path, data in unit.files.items():
        name = _native_name(source, unit.stored.get(path, path)) or path
        before[name], after[name] = _text(data), _text(now.get(path, data))
    return before, after


def _native_name(source: Source, stored: str) -> str:
    build = source.build
    if build is None:
        return ""
    if stored == build.unit:
        return build.name
    return next((name for name, path in build.headers.items() if path == stored), "")


def _module(reproducer: Reproducer, source: Source, copy: WorkingCopy) -> tuple[dict[str, str], Edits]:
    stored = {file.path: _text(reproducer.file(file)) for file in source.originals}
    originals: dict[str, str] = {}
    for origin in source.origins:
        if origin.original_file not in originals:
            mine = [each for each in source.origins if each.original_file == origin.original_file]
            module = bare_lines(_text(copy.unit.files[copy.unit.main]))
            text = _stored_as(origin.original_file, stored, mine, module)
            if text is not None:
                originals[origin.original_file] = text
    module_text = _text(copy.unit.files[copy.unit.main])
    edited = _text(copy.read().get(copy.unit.main, b""))
    return originals, map_back(module_text, edited, source.origins, originals)


def _stored_as(
    file: str, stored: Mapping[str, str], origins: list[SourceOrigin], module: list[str]
) -> str | None:
    """The text of an application's file; files of one name are distinguished by the functions in them."""
    base = re.sub(r"[^A-Za-z0-9_.-]", "_", file.rpartition("/")[2]).lstrip(".")[-100:]
    found = [
        text
        for path, text in stored.items()
        if re.fullmatch(rf"(\d+-)?{re.escape(base)}", PurePosixPath(path).name)
    ]
    if len(found) < 2:
        return found[0] if found else None

    def same(text: str) -> int:
        lines = bare_lines(text)
        pairs = ((o.line - 1 + n, o.original_line - 1 + n) for o in origins for n in range(o.lines))
        return sum(
            a < len(module) and b < len(lines) and lines[b].strip() == module[a].strip() for a, b in pairs
        )

    return max(found, key=same)


def _differs_here(file: str, captured: str) -> str:
    """What a reader must know of the file that is on this machine under the same name."""
    try:
        here = Path(file).read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
    if here == captured:
        return ""
    return f"{file} has changed since the capture: the patch is against what it was then"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
