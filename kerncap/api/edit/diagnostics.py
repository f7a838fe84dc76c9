"""What a compiler or Python said about a candidate, at the lines that the user edits.

Each compiler has its own way to name a place; here all become file, line and column of the working copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncap.log import from_here
from kerncap.report.documents.edit_and_compare import Diagnostic

_SHOWN_BEFORE = 2  # lines of context
_MOST = 8
_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in .*)?$')
# nvcc and NVRTC: `unit.cu(12): error: text`; warnings are no reason.
_EDG = re.compile(
    r"^(?P<file>[^\s():][^():\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.+)$"
)
# MLIR and clang: `file:12:4: error: text`, `loc("file":12:4): error: text`.
_MLIR = re.compile(
    r'^(?:loc\()?"?(?P<file>[^\s":]+)"?:(?P<line>\d+):(?P<column>\d+)\)?: (?:fatal )?error: (?P<text>.+)$'
)
_PTXAS = re.compile(
    r"^ptxas (?P<file>[^\s,]+|application ptx input), line (?P<line>\d+); (?:error|fatal)\s*: (?P<text>.+)$"
)
# Triton: "at 12:4:", the lines of the function up to there, a caret, the cause.
_TRITON = re.compile(r"\bat (?P<line>\d+):(?P<column>\d+):$")
_CARET = re.compile(r"^[\s|]*[~^]*\^[~^]*\s*$")


@dataclass(frozen=True)
class Texts:
    """The edited files: how a compiler may call each, and the text that it was given.

    ``shown`` is what the user knows a file as.
    """

    texts: Mapping[str, str]  # by the path in the unit
    shown: Mapping[str, str]
    names: Mapping[str, str]  # what a compiler may say -> path in the unit
    main: str

    def find(self, said: str) -> str | None:
        """The edited file that is meant; None for others (a toolkit's header, Triton itself)."""
        if said in self.names:
            return self.names[said]
        base = said.rpartition("/")[2]
        same = [path for path in self.texts if path.rpartition("/")[2] == base]
        if "/" not in said and len(same) == 1:
            return same[0]
        # A temporary folder before a path that the unit has, by whole components.
        ends = [path for path in self.texts if "/" in path and said.endswith("/" + path)]
        return max(ends, key=len, default=None)


def diagnose(texts: Texts, message: str, *logs: str) -> list[Diagnostic]:
    """The places in ``logs`` (tracebacks, compilers' words), the most telling first, none twice."""
    found: list[Diagnostic] = []
    for log in logs:
        lines = log.splitlines()
        for reader in (_triton, _compilers, _traceback):
            here = reader(texts, lines, message)
            found += here
            if here:
                break
    unique = {(each.file, each.line, each.message): each for each in reversed(found)}
    return list(reversed(unique.values()))[:_MOST]


def at(texts: Texts, path: str, line: int, column: int | None, message: str) -> Diagnostic:
    """A place of an edited file, with the lines before it."""
    text = texts.texts.get(path, "").split("\n")
    line = max(1, min(line, len(text)))
    first = max(1, line - _SHOWN_BEFORE)
    context = tuple((number, text[number - 1].rstrip("\r")) for number in range(first, line + 1))
    return Diagnostic(texts.shown.get(path, path), line, column, message, context)


_Reader = Callable[[Texts, list[str], str], list[Diagnostic]]


def _compilers(texts: Texts, lines: list[str], _message: str) -> list[Diagnostic]:
    found = []
    for number, line in enumerate(lines):
        for pattern in (_EDG, _MLIR, _PTXAS):
            match = pattern.match(line.strip())
            if match is None:
                continue
            said = match["file"]
            path = texts.main if pattern is _PTXAS else texts.find(said)
            if path is None:
                continue
            at_line = int(match["line"])
            column = (
                int(match["column"])
                if pattern is _MLIR
                else _column_of_caret(texts, path, at_line, lines[number + 1 :])
            )
            found.append(at(texts, path, at_line, column, f"error: {match['text'].strip()}"))
            break
    return found


def _column_of_caret(texts: Texts, path: str, line: int, following: Sequence[str]) -> int | None:
    """nvcc repeats the line and puts a caret under the place."""
    text = texts.texts.get(path, "").split("\n")
    if len(following) < 2 or not 0 < line <= len(text) or not _CARET.match(following[1]):
        return None
    shift = following[0].find(text[line - 1].strip()) if text[line - 1].strip() else -1
    if shift < 0:
        return None
    own = len(text[line - 1]) - len(text[line - 1].lstrip())
    return max(1, following[1].index("^") - shift + own + 1)


def _triton(texts: Texts, lines: list[str], message: str) -> list[Diagnostic]:
    """Triton counts from the function's `def`: the function is the one whose text it repeats."""
    for number, line in enumerate(lines):
        match = _TRITON.search(line.rstrip())
        if match is None:
            continue
        shown = []
        for later in lines[number + 1 :]:
            if _CARET.match(later):
                break
            shown.append(later)
        else:
            continue
        cause = next((each.strip() for each in lines[number + 2 + len(shown) :] if each.strip()), message)
        for path, text in texts.texts.items():
            place = _of_function(text.split("\n"), shown, int(match["line"]))
            if place is not None:
                at_line, indent = place
                return [at(texts, path, at_line, int(match["column"]) + indent + 1, cause)]
    return []


def _of_function(text: list[str], shown: list[str], line: int) -> tuple[int, int] | None:
    """The line (from 1) of ``text`` that is the last of ``shown``, itself line ``line`` of a function."""
    shown = [each.rstrip() for each in shown]
    if not shown or not shown[-1].strip():
        return None
    for start in range(len(text)):
        last = start + line - 1
        first = last - len(shown) + 1
        if not re.match(r"\s*(async\s+)?def\s", text[start]) or first < 0 or last >= len(text):
            continue
        indent = len(text[start]) - len(text[start].lstrip())
        if all(text[first + n].rstrip()[indent:] == each for n, each in enumerate(shown)):
            return last + 1, indent
    return None


def _traceback(texts: Texts, lines: list[str], message: str) -> list[Diagnostic]:
    """The innermost frame in an edited file of the first traceback that has one."""
    best: Diagnostic | None = None
    for number, line in enumerate(lines):
        match = _FRAME.match(line)
        path = texts.find(match["file"]) if match is not None else None
        if match is not None and path is not None:
            at_line = int(match["line"])
            column = _column_of_caret(texts, path, at_line, lines[number + 1 :])
            best = at(texts, path, at_line, column, _last_of_traceback(lines[number + 1 :]) or message)
        elif best is not None and line.startswith(("The above", "During handling")):
            break
    return [best] if best is not None else []


def _last_of_traceback(lines: Sequence[str]) -> str:
    """The exception's own line: the first that is not indented after the frames."""
    for line in lines:
        if line and not line[0].isspace() and not line.startswith("Traceback"):
            return line.strip()
    return ""


def texts_of(
    files: Mapping[str, bytes], shown: Mapping[str, Path], names: Mapping[str, str], main: str
) -> Texts:
    """`Texts` of bytes; what is no UTF-8 is shown as it can be."""
    return Texts(
        {path: data.decode("utf-8", "replace") for path, data in files.items()},
        {path: from_here(place) for path, place in shown.items()}, dict(names), main,
    )  # fmt: skip
