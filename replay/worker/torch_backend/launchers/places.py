"""Where in a user's file an error is: its line and column, counted from 1."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ...protocol import Place

_AT = re.compile(
    r"(?:^|[\s\"'(])(?P<file>[^\s\"'():]+\.(?:ttir|ttgir|llir|ptx|mlir|ll))"
    r"\"?(?::(?P<line>\d+)(?::(?P<column>\d+))?|, line (?P<only>\d+))"
)
_LLVM_LINE = re.compile(r"(?:lineno|line(?: number)?):? ?(\d+)")


def said(error: BaseException) -> str:
    """What the innermost of Triton's own errors says: the outer ones repeat the call that led there."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__


def of_error(error: BaseException, path: Path) -> Place | None:
    """The innermost cause of an error that lies in ``path``; None if no cause does."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    for cause in reversed(causes):
        place = _of_one(cause, path)
        if place is not None:
            return place
    return None


def _of_one(error: BaseException, path: Path) -> Place | None:
    if isinstance(error, SyntaxError):
        if error.filename != str(path) or error.lineno is None:
            return None
        return Place(str(path), error.lineno, error.offset)
    node: Any = getattr(error, "node", None)
    text = getattr(error, "src", None)
    if isinstance(text, str) and hasattr(node, "lineno"):  # Triton's CompilationError
        return _of_function(text, node.lineno, node.col_offset, path)
    line = line_of_traceback(error, path)
    return None if line is None else Place(str(path), line)


def _of_function(text: str, line: int, column: int, path: Path) -> Place | None:
    """The place in the file of one in a function's own text, which starts at its ``def``, not indented."""
    wanted = [each.strip() for each in text.rstrip().split("\n")]
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for start in range(len(lines) - len(wanted) + 1):
        if all(lines[start + i].strip() == each for i, each in enumerate(wanted)):
            indent = len(lines[start]) - len(lines[start].lstrip())
            return Place(str(path), start + line, column + indent + 1)
    return None


def line_of_traceback(error: BaseException, path: Path) -> int | None:
    """The last line of ``path`` that an error's traceback goes through."""
    found, frame = None, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(path):
            found = frame.tb_lineno
        frame = frame.tb_next
    return found


def of_log(log: str, path: Path) -> Place | None:
    """The first place that a compiler of an intermediate language names in what it printed."""
    at = _AT.search(log)
    if at is not None:
        column = at["column"]
        return Place(str(path), int(at["line"] or at["only"]), int(column) if column else None)
    found = _LLVM_LINE.search(log)
    return Place(str(path), int(found[1])) if found else None
