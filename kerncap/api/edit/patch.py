"""Edits of a working copy as a patch against the application's own files.

A Triton kernel's editable module is put together of functions whose lines are the application's; the
manifest says which (`source.origins`). Edited lines go back the same way; what is not of the application
(a constant that was inlined, a name that was changed when two modules met) can't, and is said.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kerncap.errors import UsageError
from kerncap.format.schema import SourceOrigin

_NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True)
class Place:
    """A line of an original file (from 0), and what stands before its text there that the module left out."""

    file: str
    line: int
    indent: str = ""


@dataclass(frozen=True)
class Unmapped:
    """Edited lines [first, last] of the working copy that no original file has, and why."""

    first: int
    last: int
    why: str

    def __str__(self) -> str:
        lines = f"line {self.first}" if self.first >= self.last else f"lines {self.first} to {self.last}"
        return f"{lines}: {self.why}"


@dataclass
class Edits:
    """Replacements of line ranges [start, stop) by original file, and what found no place."""

    replaced: dict[str, list[tuple[int, int, list[str]]]] = field(default_factory=dict)
    unmapped: list[Unmapped] = field(default_factory=list)

    def applied(self, originals: Mapping[str, str]) -> dict[str, str]:
        """The original files as the edits make them."""
        changed = {}
        for file, edits in self.replaced.items():
            lines = lines_of(originals[file])
            newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
            for start, stop, text in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
                if start == len(lines) and lines and not lines[-1].endswith("\n"):
                    lines[-1] += newline
                lines[start:stop] = [line + newline for line in text]
            changed[file] = "".join(lines)
        return changed


def lines_of(text: str) -> list[str]:
    """Lines with their ends. Of a form feed or the like `splitlines` would make two."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def bare_lines(text: str) -> list[str]:
    """Lines without their ends."""
    return [line.rstrip("\r\n") for line in lines_of(text)]


def map_back(
    module: str, edited: str, origins: Sequence[SourceOrigin], originals: Mapping[str, str]
) -> Edits:
    """Edits of ``module`` as edits of ``originals`` (text by the application's path)."""
    before, after = bare_lines(module), bare_lines(edited)
    texts = {file: bare_lines(text) for file, text in originals.items()}
    places = _places(before, origins, texts)
    edits = Edits()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        # A new function goes with the empty lines behind it, not with those before.
        while kind == "insert" and not after[c] and d < len(after) and not after[d] and a < len(before):
            a, b, c, d = a + 1, b + 1, c + 1, d + 1
        if kind != "equal":
            _map_hunk(edits, places, before, (a, b), after[c:d], c)
    return edits


def _places(
    module: list[str], origins: Sequence[SourceOrigin], texts: Mapping[str, list[str]]
) -> list[Place | None]:
    """Where each line of the module is in an original file."""
    places: list[Place | None] = [None] * len(module)
    for origin in origins:
        text = texts.get(origin.original_file)
        if text is None:
            continue
        shift = origin.original_line - origin.line
        first, last = origin.line - 1, min(origin.line - 1 + origin.lines, len(module))
        for line in range(max(0, first), last):
            places[line] = _same(module[line], text, line + shift, origin.original_file)
        # Decorators stand above what the manifest counts.
        line = first - 1
        while line >= 0 and places[line] is None and module[line].strip():
            found = _same(module[line], text, line + shift, origin.original_file)
            if found is None:
                break
            places[line] = found
            line -= 1
    _place_unique(module, places, texts)
    return places


def _same(line: str, text: list[str], number: int, file: str) -> Place | None:
    """The place, if the original has the line there, be it further to the right."""
    if not 0 <= number < len(text):
        return None
    there = text[number]
    if not line.strip():
        return Place(file, number) if not there.strip() else None
    if not there.endswith(line) or there[: len(there) - len(line)].strip():
        return None
    return Place(file, number, there[: len(there) - len(line)])


def _place_unique(module: list[str], places: list[Place | None], texts: Mapping[str, list[str]]) -> None:
    """Imports and constants: a line that is there once in the module and once in all of the originals."""
    taken = {(place.file, place.line) for place in places if place is not None}
    where: dict[str, list[tuple[str, int]]] = {}
    for file, text in texts.items():
        for number, line in enumerate(text):
            where.setdefault(line, []).append((file, number))
    for number, line in enumerate(module):
        if places[number] is None and line.strip() and module.count(line) == 1:
            found = where.get(line, [])
            if len(found) == 1 and found[0] not in taken:
                places[number] = Place(*found[0])


def _map_hunk(
    edits: Edits,
    places: list[Place | None],
    module: list[str],
    span: tuple[int, int],
    text: list[str],
    at: int,
) -> None:
    """Module lines [a, b) became ``text``, which begins at line ``at`` of the edited one (all from 0)."""
    a, b = span
    if a == b:
        target = _insertion(places, module, a)
        if target is None:
            why = "nothing of the application's files is next to it"
            edits.unmapped.append(Unmapped(at + 1, at + len(text), why))
            return
        file, line, indent = target
        edits.replaced.setdefault(file, []).append((line, line, _indented(text, indent)))
        return
    here = [place for place in places[a:b] if place is not None]
    consecutive = len(here) == b - a and all(
        one.file == here[0].file and one.line == here[0].line + number for number, one in enumerate(here)
    )
    if consecutive:
        edit = (here[0].line, here[0].line + b - a, _indented(text, _indent_of(here)))
        edits.replaced.setdefault(here[0].file, []).append(edit)
        return
    if b - a == len(text) > 1:  # line by line: some of them may have a place
        for number in range(b - a):
            if module[a + number] != text[number]:
                _map_hunk(edits, places, module, (a + number, a + number + 1), [text[number]], at + number)
        return
    lost = next((number for number in range(a, b) if places[number] is None), a)
    what = module[lost].strip() or "an empty line"
    edits.unmapped.append(
        Unmapped(
            at + 1, max(at + 1, at + len(text)), f"the application's files don't have `{what}` as it is here"
        )
    )


def _insertion(places: list[Place | None], module: list[str], at: int) -> tuple[str, int, str] | None:
    """File, line and indent for lines that go in before module line ``at``."""
    before = places[at - 1] if at > 0 else None
    if before is not None:
        return before.file, before.line + 1, before.indent
    following = at
    while following < len(module) and places[following] is None and _is_glue(module[following]):
        following += 1
    after = places[following] if following < len(module) else None
    if after is not None:
        return after.file, after.line, after.indent
    above = at - 1
    while above >= 0 and places[above] is None and _is_glue(module[above]):
        above -= 1
    last = places[above] if above >= 0 else None
    return None if last is None else (last.file, last.line + 1, last.indent)


def _is_glue(line: str) -> bool:
    """What stands between the pieces of a module: empty lines and comments."""
    return not line.strip() or line.startswith("#")


def _indent_of(places: list[Place]) -> str:
    """What the original has before all of them; an empty line has no say in it."""
    return max((place.indent for place in places), key=len)


def _indented(text: list[str], indent: str) -> list[str]:
    return [indent + line if line.strip() else line for line in text]


# --- the patch as text ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patch:
    """``text`` is empty if nothing is left to write; ``root`` is the folder that its paths begin at.

    ``unmapped``: edited lines that are not in it, and why. ``notes``: what else a reader must know.
    """

    text: str
    root: Path
    files: tuple[str, ...]
    unmapped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def unified(originals: Mapping[str, str], changed: Mapping[str, str]) -> Patch:
    """A patch that `patch -p1` and `git apply` take in ``root``.

    ``originals`` and ``changed`` are texts by the application's path, absolute or not.
    """
    root = _root(list(changed))
    parts, files = [], []
    for file in sorted(changed):
        name = _below(file, root)
        tab = "\t" if " " in name else ""  # it ends the name for who would end it at the space
        lines = list(
            difflib.unified_diff(
                lines_of(originals[file]), lines_of(changed[file]),
                f"a/{name}{tab}", f"b/{name}{tab}",
            )
        )  # fmt: skip
        if lines:
            files.append(file)
            parts += [line if line.endswith("\n") else line + "\n" + _NO_NEWLINE for line in lines]
    return Patch("".join(parts), root, tuple(files))


def _below(file: str, root: Path) -> str:
    name = os.path.relpath(file, root) if os.path.isabs(file) else os.path.normpath(file)
    if name.startswith("..") or any(not c.isprintable() for c in name):
        raise UsageError(f"{file!r}: a patch can't name this file")
    return name


def _root(files: list[str]) -> Path:
    """The repository that holds the files, where they are here; else the root of all paths."""
    absolute = [Path(file) for file in files if os.path.isabs(file)]
    if not absolute:
        return Path()
    for folder in absolute[0].parents:
        if (folder / ".git").exists():
            inside = all(each.is_relative_to(folder) for each in absolute)
            return folder if inside else Path(absolute[0].anchor)
    return Path(absolute[0].anchor)
