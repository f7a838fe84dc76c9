"""A reproducer's source: which lines of its module are which lines of the application's files."""

from __future__ import annotations

import re

from kerncap.format import Reproducer, schema

_LOCATION = re.compile(r'"((?:[^"\\\n]|\\.)*)":(\d+):(\d+)')
_MAX_LINE = 1 << 20  # of a file that is put together from its functions alone


def texts_of(reproducer: Reproducer) -> dict[str, str]:
    """Source texts by the names that TTIR's locations may use: the module, and the files that it is from."""
    source, text = reproducer.manifest.source, reproducer.source_text()
    if source is None or text is None or source.language != "python":
        return {}
    texts = {source.file.path: text}
    module = text.splitlines()
    stored = [
        reproducer.file(file).decode("utf-8", errors="replace")
        for file in source.originals
        if _is_python(file)
    ]
    for origin in source.origins:
        if origin.original_file in texts:
            continue
        whole = next((one for one in stored if _holds(one.splitlines(), origin, module)), None)
        texts[origin.original_file] = whole or _pieces(source, origin.original_file, module)
    return texts


def with_original_places(ttir: str, module_file: str, source: schema.Source) -> str:
    """TTIR of the module in ``module_file`` with the places that the application's compilation would give.

    Lines that come from nowhere else get the module's path in the reproducer.
    """

    def place(found: re.Match[str]) -> str:
        if _unescaped(found[1]) != module_file:
            return found[0]
        line, column = int(found[2]), int(found[3])
        for origin in source.origins:
            if origin.line <= line < origin.line + origin.lines:
                line, name = origin.original_line + line - origin.line, origin.original_file
                return f'"{_escaped(name)}":{line}:{column}'
        return f'"{_escaped(source.file.path)}":{line}:{column}'

    return _LOCATION.sub(place, ttir)


def _is_python(file: schema.StoredFile) -> bool:
    return file.path.endswith(".py")


def _holds(original: list[str], origin: schema.SourceOrigin, module: list[str]) -> bool:
    """Whether an original has the function's first line where the manifest says that it comes from."""
    here, there = origin.line - 1, origin.original_line - 1
    if not (0 <= here < len(module) and 0 <= there < len(original)):
        return False
    return module[here].strip() == original[there].strip() != ""


def _pieces(source: schema.Source, name: str, module: list[str]) -> str:
    """What the module has of a file, each line where it was; the others are blank."""
    lines: list[str] = []
    for origin in source.origins:
        if origin.original_file != name or not 1 <= origin.original_line < _MAX_LINE:
            continue
        piece = module[max(0, origin.line - 1) : max(0, origin.line - 1) + origin.lines]
        start = origin.original_line - 1
        lines += [""] * (start + len(piece) - len(lines))
        lines[start : start + len(piece)] = piece
    return "\n".join(lines)


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")


def _escaped(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", re.sub(r"[\x00-\x1f\x7f]", "?", text))
