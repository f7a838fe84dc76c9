"""The line of a `tl.multiple_of` and its like: TTIR hangs a promise on what made the value, lines before."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from kerncap.sanitizer.diagnose.render import source_text
from kerncap.sanitizer.ttir.ir import Location

_HINTS = frozenset(("multiple_of", "max_contiguous", "max_constancy"))


def hint_location(location: Location, hint: str, sources: Mapping[str, str]) -> Location:
    """Where the source calls ``tl.<hint>`` on the value that was made at ``location``.

    ``location`` itself if the source is unavailable or does not show the call.
    """
    if not location.frames:
        return location
    frame = location.frames[0]
    text = source_text(frame.file, sources)
    line = None if text is None else _line_of_call(text, frame.line, hint)
    if line is None or line == frame.line:
        return location
    return replace(location, frames=(replace(frame, line=line, column=0), *location.frames[1:]))


@lru_cache(maxsize=256)
def _line_of_call(text: str, made_at: int, hint: str) -> int | None:
    body = _function_around(text, made_at)
    if body is None:
        return None
    calls = [call for call in ast.walk(body) if isinstance(call, ast.Call) and _name_of(call) == hint]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    for call in calls:
        subject = _subject(call)
        if subject is not None and _spans(subject, made_at) and not isinstance(subject, ast.Name):
            return call.lineno
    names = set(_assigned_at(body, made_at))
    for call in calls:
        subject = _subject(call)
        if isinstance(subject, ast.Name) and subject.id in names and call.lineno >= made_at:
            return call.lineno
    return None


@lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _function_around(text: str, line: int) -> ast.FunctionDef | None:
    """The innermost one."""
    module = _parsed(text)
    around = [
        one
        for one in (ast.walk(module) if module is not None else ())
        if isinstance(one, ast.FunctionDef) and _spans(one, line)
    ]
    return max(around, key=lambda one: one.lineno, default=None)


def _spans(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _name_of(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _subject(call: ast.Call) -> ast.expr | None:
    """What the hint is about; of a hint within a hint, what the inner one is about."""
    subject = call.args[0] if call.args else None
    while isinstance(subject, ast.Call) and _name_of(subject) in _HINTS and subject.args:
        subject = subject.args[0]
    return subject


def _assigned_at(body: ast.FunctionDef, line: int) -> Iterator[str]:
    for one in ast.walk(body):
        if isinstance(one, ast.Assign | ast.AugAssign | ast.AnnAssign) and _spans(one, line):
            for target in one.targets if isinstance(one, ast.Assign) else [one.target]:
                yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))
