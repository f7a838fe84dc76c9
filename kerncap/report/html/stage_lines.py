"""Which line of the source each line of a compiled stage comes from, if its text says so.

Lenient on purpose: what is not understood links to nothing. Sources: MLIR's location attributes, LLVM's
DILocation metadata, the ``.file`` and ``.loc`` directives of PTX and of LLVM's assemblers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Place = tuple[str, int]  # file, line
_DEPTH = 16

_MLIR_DEFINITION = re.compile(r"^#(loc\w*) = loc\((.*)\)\s*$")
_MLIR_USE = re.compile(r" loc\((#loc\w*|\"(?:[^\"\\]|\\.)*\":\d+:\d+)\)$")
_MLIR_INLINE = re.compile(r" loc\((?:\"[^\"]*\"\()?#loc\w*\)?\)")
_MLIR_FILE = re.compile(r"\"((?:[^\"\\]|\\.)*)\":(\d+):\d+")
_MLIR_REFERENCE = re.compile(r"#(loc\w*)")

_LLVM_DEFINITION = re.compile(r"^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)\s*$")
_LLVM_USE = re.compile(r",? !dbg !(\d+)")
_LLVM_FIELD = re.compile(r"(\w+): (\"[^\"]*\"|!?\w+)")

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+")


@dataclass(frozen=True)
class Linked:
    """The lines to show, the place in the source of each, and what was taken out of the text."""

    lines: list[str]
    places: list[Place | None]
    left_out: str = ""


def link(stage: str, lines: Sequence[str]) -> Linked:
    """``lines`` of a stage's text with their places; locations are taken out where they are noise."""
    if stage in ("ttir", "ttgir", "source", "ttsharedir"):
        return _mlir(lines)
    if stage == "llir":
        return _llvm(lines)
    return _assembly(lines)


# --- MLIR ----------------------------------------------------------------------------------------------


def _mlir(lines: Sequence[str]) -> Linked:
    table = {found[1]: found[2] for found in map(_MLIR_DEFINITION.match, lines) if found}
    resolved: dict[str, Place | None] = {}

    def resolve(text: str, depth: int = 0) -> Place | None:
        direct = _MLIR_FILE.search(text)
        if direct and int(direct[2]):
            return direct[1], int(direct[2])
        for name in _MLIR_REFERENCE.findall(text)[:4] if depth < _DEPTH else ():
            if name not in resolved:
                resolved[name] = None  # a location that names itself ends here
                resolved[name] = resolve(table.get(name, ""), depth + 1)
            if resolved[name] is not None:
                return resolved[name]
        return None

    shown, places, hidden = [], [], 0
    for line in lines:
        if _MLIR_DEFINITION.match(line):
            hidden += 1
            continue
        use = _MLIR_USE.search(line)
        places.append(resolve(use[1]) if use else None)
        shown.append(_MLIR_INLINE.sub("", _MLIR_USE.sub("", line)))
    return Linked(shown, places, f"{hidden:,} lines that define locations" if hidden else "")


# --- LLVM ----------------------------------------------------------------------------------------------


def _llvm(lines: Sequence[str]) -> Linked:
    nodes = {}
    for line in lines:
        found = _LLVM_DEFINITION.match(line)
        if found:
            nodes[found[1]] = (found[2], dict(_LLVM_FIELD.findall(found[3])))
    shown, places, hidden = [], [], 0
    for line in lines:
        if _LLVM_DEFINITION.match(line):
            hidden += 1
            continue
        use = _LLVM_USE.search(line)
        places.append(_llvm_place(nodes, use[1]) if use else None)
        shown.append(_LLVM_USE.sub("", line))
    return Linked(shown, places, f"{hidden:,} lines of debug metadata" if hidden else "")


def _llvm_place(nodes: dict[str, tuple[str, dict[str, str]]], number: str) -> Place | None:
    """Of the innermost function: what was inlined from is not followed."""
    kind, fields = nodes.get(number, ("", {}))
    line = fields.get("line", "")
    if kind not in ("DILocation", "DISubprogram") or not line.isdecimal() or not int(line):
        return None
    for _ in range(_DEPTH):
        if "filename" in fields:
            name, folder = fields["filename"].strip('"'), fields.get("directory", "").strip('"')
            return (name if name.startswith("/") or not folder else f"{folder}/{name}"), int(line)
        following = fields.get("file") or fields.get("scope") or ""
        kind, fields = nodes.get(following.lstrip("!"), ("", {}))
    return None


# --- assembly ------------------------------------------------------------------------------------------


def _assembly(lines: Sequence[str]) -> Linked:
    files: dict[str, str] = {}
    for line in lines:
        found = _FILE.match(line)
        if found:
            files[found[1]] = f"{found[2]}/{found[3]}" if found[3] else found[2]
    places: list[Place | None] = []
    current: Place | None = None
    for line in lines:
        found = _LOC.match(line)
        if found:
            known = found[1] in files and int(found[2]) > 0
            current = (files[found[1]], int(found[2])) if known else None
        stripped = line.strip()
        is_code = bool(stripped) and not stripped.startswith((".", "//", ";", "{", "}", ")"))
        places.append(current if is_code or found else None)
        if stripped.startswith(("}", ".section", "s_endpgm")):
            current = None
    return Linked(list(lines), places)


def matcher(files: Iterable[str]) -> Callable[[str], int | None]:
    """From a file's name in compiled text to its number in ``files``: equal, else by the longest common end.

    A path that was made relative, or came from another machine, still ends the same.
    """
    known = list(files)
    cache: dict[str, int | None] = {}

    def find(name: str) -> int | None:
        if name not in cache:
            cache[name] = _best(name, known)
        return cache[name]

    return find


def _best(name: str, known: Sequence[str]) -> int | None:
    if name in known:
        return known.index(name)
    parts = [part for part in name.split("/") if part not in ("", ".", "..")]
    best, length = None, 0
    for number, other in enumerate(known):
        others = [part for part in other.split("/") if part not in ("", ".", "..")]
        common = 0
        while common < min(len(parts), len(others)) and parts[-1 - common] == others[-1 - common]:
            common += 1
        if common > length:
            best, length = number, common
    return best
