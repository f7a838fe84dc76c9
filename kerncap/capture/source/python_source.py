"""A function in a Python file: where it is, and what of the file it takes to run it elsewhere.

Reads the text only; nothing of it is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kerncap.format.schema import SourceOrigin

Function = ast.FunctionDef | ast.AsyncFunctionDef
LOCALS = "<locals>"
_MAX_CHARACTERS = 4 << 20


@dataclass(frozen=True)
class PythonFunction:
    """``node``, the definitions around it, outermost first, and the file's statement that holds it all.
    ``path`` is its qualified name, ``line`` that of its `def`."""

    module: ast.Module
    text: str
    path: tuple[str, ...]
    node: Function
    around: tuple[ast.stmt, ...]
    statement: ast.stmt

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def parameters(self) -> tuple[str, ...]:
        given = self.node.args
        return tuple(each.arg for each in (*given.posonlyargs, *given.args))


@dataclass(frozen=True)
class Standalone:
    """A module with one function and what that uses: ``entry`` is its place in it (``Class.method``)."""

    text: str
    entry: str
    origins: list[SourceOrigin]


def parse(text: str) -> ast.Module | None:
    """The file's syntax tree; None if this Python can't parse it."""
    try:
        return ast.parse(text) if len(text) <= _MAX_CHARACTERS else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def function(text: str, qualified: Sequence[str] = (), lines: Iterable[int] = ()) -> PythonFunction | None:
    """The function of that qualified name (``("f", "<locals>", "g")``), or without one the innermost that
    has one of ``lines``; of several the one with a line, else the last, as Python would have it."""
    wanted, numbers = tuple(qualified), set(lines)
    every = [each for each in _every(text) if not wanted or each.path == wanted]
    with_line = [each for each in every if any(line in _span(each.node) for line in numbers)]
    if wanted:
        best = with_line or every
        return best[-1] if best else None
    return max(with_line, key=lambda each: len(each.around), default=None)


def only(text: str, name: str, lines: Iterable[int] = ()) -> PythonFunction | None:
    """The function of that name, wherever it is defined; None unless there is exactly one, or one that has
    some of ``lines``."""
    numbers = set(lines)
    found = [each for each in _every(text) if each.node.name == name]
    if len(found) > 1:
        found = [each for each in found if not numbers.isdisjoint(_span(each.node))]
    return found[0] if len(found) == 1 else None


def standalone(found: PythonFunction, original: str, also: Iterable[str] = ()) -> Standalone | str:
    """The module that the function needs, cut out of ``original``, or one line that says why it can't be.

    Top-level statements are taken that bind a name it uses, or one of ``also``, and so on for those;
    ``if __name__ == …`` never.
    """
    enclosing = [each for each in found.around if isinstance(each, Function)]
    used = names(found.node)
    for outer in enclosing:
        caught = sorted(used & _bound_in(outer) - {found.node.name})
        if caught:
            return f"{found.node.name} uses {', '.join(caught)} of {outer.name}: the value is not in the file"
    lines = [f"{line}\n" for line in found.text.split("\n")]  # as the parser counts them: no form feeds
    top = found.node if enclosing else found.statement
    taken = _closure(found.module, used | names(top) | set(also), without=found.statement)
    text: list[str] = []
    origins: list[SourceOrigin] = []
    for statement in sorted({*taken, top}, key=_first):
        first, last = _first(statement), statement.end_lineno or statement.lineno
        piece = "".join(lines[first - 1 : last])
        if statement is found.node and enclosing:
            piece = _dedented(piece, found.node.col_offset)
        if isinstance(statement, Function | ast.ClassDef) and text:
            text.append("\n\n")
        start = "".join(text).count("\n") + 1
        name = getattr(statement, "name", None) or ", ".join(sorted(_binds(statement)))
        origins.append(
            SourceOrigin(
                name=name[:4096], line=start, lines=piece.count("\n"),
                original_file=original[:4096], original_line=first,
            )
        )  # fmt: skip
        text.append(piece)
    classes = [each.name for each in found.around if isinstance(each, ast.ClassDef)] if not enclosing else []
    made = Standalone("".join(text), ".".join([*classes, found.node.name]), origins)
    if parse(made.text) is None:
        return f"{found.node.name} can't be cut out of its file"
    return made


def _every(text: str) -> list[PythonFunction]:
    module = parse(text)
    return [
        PythonFunction(module, text, path, node, around, statement)
        for statement in (module.body if module is not None else ())
        for path, node, around in _functions([statement], (), ())
        if module is not None
    ]


def _functions(
    body: Sequence[ast.stmt], path: tuple[str, ...], around: tuple[ast.stmt, ...]
) -> Iterator[tuple[tuple[str, ...], Function, tuple[ast.stmt, ...]]]:
    if len(path) > 64:
        return
    for statement in body:
        if isinstance(statement, Function):
            yield (*path, statement.name), statement, around
            yield from _functions(statement.body, (*path, statement.name, LOCALS), (*around, statement))
        elif isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body, (*path, statement.name), (*around, statement))
        else:  # if, for, with, try, match: what they define has no part of theirs in its name
            for inner in _bodies(statement):
                yield from _functions(inner, path, around)


def _bodies(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, ())
    for each in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield each.body


def _span(node: Function) -> range:
    return range(_first(node), (node.end_lineno or node.lineno) + 1)


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def names(*nodes: ast.AST) -> set[str]:
    """The names in some syntax trees."""
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def _bound_in(outer: Function) -> set[str]:
    """The names that a function binds: parameters, assignments, definitions, imports."""
    given = outer.args
    found = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    found |= {each.arg for each in (given.vararg, given.kwarg) if each is not None}
    for statement in outer.body:
        found |= _binds(statement)
    return found


def _binds(statement: ast.stmt) -> set[str]:
    if isinstance(statement, Function | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {each.asname or each.name.partition(".")[0] for each in statement.names}
    found: set[str] = set()
    for each in ast.walk(statement):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        elif isinstance(each, Function | ast.ClassDef):
            found.add(each.name)
        elif isinstance(each, ast.Import | ast.ImportFrom):
            found |= {name.asname or name.name.partition(".")[0] for name in each.names}
    return found


def _closure(module: ast.Module, used: set[str], without: ast.stmt) -> list[ast.stmt]:
    binders = [(each, _binds(each)) for each in module.body if each is not without and not _is_main(each)]
    taken: list[ast.stmt] = [each for each in module.body if _is_future(each)]
    wanted = set(used)
    while True:
        more = [each for each, bound in binders if each not in taken and bound & wanted]
        if not more:
            return taken
        for each in more:
            taken.append(each)
            wanted |= names(each)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in names(statement.test)


def _dedented(piece: str, columns: int) -> str:
    """Without as many columns in front of each line as the function's own have."""
    lines = piece.splitlines(keepends=True)
    return "".join(line[columns:] if not line[:columns].strip() else line for line in lines)
