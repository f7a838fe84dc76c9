"""Sources and compiled stages as lines, each stage's lines linked to those of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kerncap.format import schema
from kerncap.log import size
from kerncap.report.html.images import code_lines, summary
from kerncap.report.html.material import Material, plain
from kerncap.report.html.stage_lines import link, matcher

MAX_LINES = 20_000
MAX_LINE = 1600  # characters; TTGIR's function headers are long
MAX_CHARACTERS = 2 << 20  # of one file
MAX_SOURCES = 24
MAX_STAGES = 24
_IMAGES = ("cubin", "hsaco", "fatbin")
_LANGUAGES = {".py": "python", ".ptx": "ptx", ".json": "json"}
MAX_TEXT_BYTES = 64 << 20
_MAX_IMAGE_BYTES = 256 << 20


@dataclass(frozen=True)
class SourceFile:
    """A source file of the reproducer; ``original``: the application's name for it, if known."""

    path: str
    original: str
    language: str
    lines: list[str]
    cut: str = ""


class Sources:
    """The reproducer's sources, and where in them a place that a compiler or a tool names is."""

    def __init__(self, material: Material) -> None:
        self.files: list[SourceFile] = []
        self._origins = []
        source, shown = material.truth.source, material.manifest.get("source")
        if source is None or shown is None:
            self._find = matcher(())
            return
        originals = _original_names(shown)
        stored = [source.file, *(file for file in source.originals if file.path != source.file.path)]
        paths = [shown["file"]["path"], *(
            file["path"] for file in shown.get("originals", ()) if file["path"] != shown["file"]["path"]
        )]  # fmt: skip
        if len(stored) > MAX_SOURCES:
            material.left_out.append(f"{len(stored) - MAX_SOURCES:,} of {len(stored):,} source files")
        for file, path in list(zip(stored, paths, strict=True))[:MAX_SOURCES]:
            lines, cut = _lines(material, file)
            self.files.append(SourceFile(path, originals.get(path, ""), _language(path, shown), lines, cut))
        self._origins = list(shown.get("origins", ()))
        self._of_origin = matcher([origin["original_file"] for origin in self._origins])
        self._find = matcher([file.original or file.path for file in self.files])
        self._stored = matcher([file.path for file in self.files])

    def place(self, file: object, line: object) -> tuple[int, int] | None:
        """(number of the file, line in it) for a place that a tool names."""
        if not isinstance(file, str) or not isinstance(line, int) or not self.files:
            return None
        near = self._of_origin(file)
        if near is not None:
            name = self._origins[near]["original_file"]
            for origin in self._origins:
                inside = line - origin["original_line"]
                if origin["original_file"] == name and 0 <= inside < max(1, origin["lines"]):
                    return self._checked(0, origin["line"] + inside)
        number = self._find(file)
        if number is None:
            number = self._stored(file)
        return None if number is None else self._checked(number, line)

    def _checked(self, number: int, line: int) -> tuple[int, int] | None:
        return (number, line) if 0 < line <= len(self.files[number].lines) else None


def _original_names(source: dict[str, Any]) -> dict[str, str]:
    build = source.get("build")
    if not build:
        return {}
    names = {stored: original for original, stored in build.get("headers", {}).items()}
    names[build["unit"]] = build.get("name", "")
    return names


def _language(path: str, source: dict[str, Any]) -> str:
    for ending, language in _LANGUAGES.items():
        if path.endswith(ending):
            return language
    return "python" if source.get("language", "python") in ("python", "numba", "python-dsl") else "c"


def _lines(material: Material, stored: schema.StoredFile) -> tuple[list[str], str]:
    if stored.size > MAX_TEXT_BYTES:
        return [], f"all of its {size(stored.size)}"
    return text_lines(material.read(stored))


def text_lines(data: bytes) -> tuple[list[str], str]:
    """The file's lines, safe to show, and what was cut off its end."""
    text = data.decode("utf-8", "replace")
    whole = text.split("\n")
    if whole and not whole[-1]:
        whole.pop()
    lines, left = [], MAX_CHARACTERS
    for line in whole[:MAX_LINES]:
        # Cut before tabs are widened: a line may be the whole file.
        shown = plain(line[: 2 * MAX_LINE].rstrip("\r").expandtabs(4), MAX_LINE)
        left -= len(shown) + 1
        if left < 0:
            break
        lines.append(shown)
    cut = f"{len(whole) - len(lines):,} of {len(whole):,} lines" if len(lines) < len(whole) else ""
    return lines, cut


def stages(material: Material, sources: Sources) -> list[dict[str, Any]]:
    """For each compiled stage its lines, and the file and line that each comes from (-1 and 0: not known)."""
    found = []
    codes = material.truth.code
    if len(codes) > MAX_STAGES:
        material.left_out.append(f"{len(codes) - MAX_STAGES:,} of {len(codes):,} compiled stages")
    for code in codes[:MAX_STAGES]:
        stage = plain(code.stage, 40)
        item: dict[str, Any] = {"stage": stage, "bytes": code.file.size, "notes": []}
        if code.stage in _IMAGES or _is_binary(code.stage, code.file):
            item |= _image(material, code, sources)
        else:
            item |= _text(material, code, sources)
        found.append(item)
    return found


def _is_binary(stage: str, stored: schema.StoredFile) -> bool:
    return stored.path.endswith((".bin", ".o", ".so")) or stage == "object"


def _image(material: Material, code: schema.CodeFile, sources: Sources) -> dict[str, Any]:
    if code.file.size > _MAX_IMAGE_BYTES:
        lines = [f"{size(code.file.size)}: too large to be looked into here"]
        return {"lines": lines, "files": [], "places": [], "image": True}
    data = material.read(code.file)
    lines = [plain(line, MAX_LINE) for line in summary(data)]
    there: list[tuple[int, int] | None] = [None] * len(lines)
    kernel = material.truth.kernel
    for line, file, number in code_lines(data, kernel.mangled or kernel.name):
        lines.append(plain(line, MAX_LINE))
        there.append(sources.place(file, number))
    linked = any(there)
    return {
        "lines": lines, "image": True,
        "files": [-1 if place is None else place[0] for place in there] if linked else [],
        "places": [0 if place is None else place[1] for place in there] if linked else [],
    }  # fmt: skip


def _text(material: Material, code: schema.CodeFile, sources: Sources) -> dict[str, Any]:
    lines, cut = _lines(material, code.file)
    linked = link(code.stage, lines)
    files, places = [], []
    for place in linked.places:
        there = None if place is None else sources.place(*place)
        files.append(-1 if there is None else there[0])
        places.append(0 if there is None else there[1])
    notes = [f"not shown: {linked.left_out}"] if linked.left_out else []
    if cut:
        notes.append(f"cut: {cut}")
        material.left_out.append(f"{plain(code.stage, 40)}: {cut}")
    if not any(places):
        files, places = [], []
    return {"lines": linked.lines, "files": files, "places": places, "notes": notes, "image": False}
