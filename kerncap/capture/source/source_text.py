"""One function's text and exact edits in it: by position in the syntax tree, never by search and replace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kerncap.errors import CaptureError

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass
class FunctionText:
    """A definition's text, its tree and the edits that are still to be made."""

    source: str
    name: str
    definition: ast.stmt = field(init=False)
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            tree = ast.parse(self.source)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise CaptureError(f"the text of {self.name} does not parse: {error}") from error
        if len(tree.body) != 1 or self._defined(tree.body[0]) != self.name:
            raise CaptureError(f"the text of {self.name} is not one definition of that name")
        self.definition = tree.body[0]
        self._bytes = self.source.encode("utf-8", "surrogatepass")
        self._starts = [0]
        for line in self._bytes.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    @staticmethod
    def _defined(statement: ast.stmt) -> str | None:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return statement.name
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            return target.id if isinstance(target, ast.Name) else None
        return None

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[end_line - 1] + end_column

    def segment(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self._bytes[start:end].decode("utf-8", "surrogatepass")

    def replace(self, node: ast.expr, expected: str | None, text: str) -> None:
        """Replace what ``node`` covers; ``expected`` guards against wrong positions (old f-strings)."""
        start, end = self.span(node)
        if expected is not None and re.sub(rb"[\s\\()]", b"", self._bytes[start:end]).decode() != expected:
            self.problems.append(f"{expected} could not be renamed in line {node.lineno} of {self.name}")
            return
        self.edits.append((start, end, text.encode()))

    def rename_definition(self, new: str) -> None:
        statement = self.definition
        start = self.span(statement)[0]
        pattern = rb"(?:(?:async\s+)?def|class)\s+()" + re.escape(self.name.encode()) + rb"\b"
        if isinstance(statement, ast.Assign):
            pattern = rb"()" + re.escape(self.name.encode()) + rb"\b"
        found = re.compile(pattern).match(self._bytes, start)
        if found is None:
            self.problems.append(f"{self.name} could not be renamed")
            return
        self.edits.append((found.start(1), found.end(), new.encode()))

    def replace_decorators(self, text: str) -> None:
        """Put ``text`` in the place of every decorator; comments between them stay."""
        statement = self.definition
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return
        first = self._starts[statement.lineno - 1]
        for each in statement.decorator_list:
            end = self._starts[each.end_lineno or each.lineno]
            start = self._bytes.rindex(b"@", 0, self.span(each)[0])
            self.edits.append((self._bytes.rfind(b"\n", 0, start) + 1, min(end, first), b""))
        self.edits.append((first, first, f"{text}\n".encode()))

    def result(self) -> str:
        out, at = [], 0
        for start, end, text in sorted(self.edits, key=lambda edit: (edit[0], edit[1])):
            if start < at:
                self.problems.append(f"two edits of {self.name} overlap")
                continue
            out += [self._bytes[at:start], text]
            at = end
        out.append(self._bytes[at:])
        try:
            return b"".join(out).decode("utf-8").strip("\n") + "\n"
        except UnicodeDecodeError as error:
            raise CaptureError(f"the text of {self.name} is not Unicode: {error}") from error


def global_names(definition: ast.stmt, skip: frozenset[int] = frozenset()) -> Iterator[ast.Name]:
    """The names in a module-level definition that refer to the module's scope, by Python's scoping rules.

    Subtrees whose id is in ``skip`` are left out.
    """
    yield from _visit(definition, (), skip)


def chain_at(name: ast.Name, parents: dict[int, ast.Attribute]) -> list[ast.Attribute]:
    """The attribute nodes that hang on ``name``, shortest first."""
    chain: list[ast.Attribute] = []
    node: ast.expr = name
    while id(node) in parents:
        node = parents[id(node)]
        assert isinstance(node, ast.Attribute)
        chain.append(node)
    return chain


def annotations_of(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    arguments = definition.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [one for one in (arguments.vararg, arguments.kwarg) if one]
    return [each for each in [*(one.annotation for one in every), definition.returns] if each is not None]


def identifiers(definition: ast.stmt) -> Iterator[str]:
    for each in ast.walk(definition):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.arg):
            yield each.arg


def attribute_parents(definition: ast.stmt) -> dict[int, ast.Attribute]:
    return {id(each.value): each for each in ast.walk(definition) if isinstance(each, ast.Attribute)}


_Scopes = tuple["tuple[str, frozenset[str]]", ...]  # ("function" | "class", names), outermost first


def _visit(node: ast.AST, scopes: _Scopes, skip: frozenset[int]) -> Iterator[ast.Name]:
    if id(node) in skip:
        return
    if isinstance(node, ast.Name):
        if not _bound(node.id, scopes):
            yield node
    elif isinstance(node, _FUNCTIONS):
        yield from _visit_function(node, scopes, skip)
    elif isinstance(node, ast.ClassDef):
        for each in [*node.decorator_list, *node.bases, *[one.value for one in node.keywords]]:
            yield from _visit(each, scopes, skip)
        local = ("class", _assigned(node.body))
        for statement in node.body:
            yield from _visit(statement, (*scopes, local), skip)
    elif isinstance(node, _COMPREHENSIONS):
        yield from _visit(node.generators[0].iter, scopes, skip)
        targets = frozenset(
            each.id for one in node.generators for each in ast.walk(one.target) if isinstance(each, ast.Name)
        )
        inner = (*_without_class(scopes), ("function", targets))
        for position, one in enumerate(node.generators):
            for each in [one.target, *one.ifs, *([one.iter] if position else [])]:
                yield from _visit(each, inner, skip)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            yield from _visit(part, inner, skip)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _visit(child, scopes, skip)


def _visit_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scopes: _Scopes, skip: frozenset[int]
) -> Iterator[ast.Name]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [one for one in (arguments.vararg, arguments.kwarg) if one]
    outside: list[ast.expr] = [*arguments.defaults, *[one for one in arguments.kw_defaults if one]]
    if isinstance(node, ast.Lambda):
        body: list[ast.AST] = [node.body]
        local = frozenset(one.arg for one in every)
    else:
        body = list(node.body)
        outside += [*node.decorator_list, *[one.annotation for one in every if one.annotation]]
        outside += [node.returns] if node.returns else []
        local = (frozenset(one.arg for one in every) | _assigned(node.body)) - _declared(node.body)
    for each in outside:
        yield from _visit(each, scopes, skip)
    for statement in body:
        yield from _visit(statement, (*_without_class(scopes), ("function", local)), skip)


def _without_class(scopes: _Scopes) -> _Scopes:
    """A class's names are not seen by the functions in it."""
    return tuple(scope for scope in scopes if scope[0] != "class")


def _bound(name: str, scopes: _Scopes) -> bool:
    return any(name in names for _, names in scopes)


def _own(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of functions and classes inside it."""
    todo: list[ast.AST] = list(statements)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(node, _COMPREHENSIONS):  # only a walrus leaks out of it
            todo += [each for each in ast.walk(node) if isinstance(each, ast.NamedExpr)]
            continue
        todo += ast.iter_child_nodes(node)


def _assigned(statements: list[ast.stmt]) -> frozenset[str]:
    names: set[str] = set()
    for node in _own(statements):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return frozenset(names)


def _declared(statements: list[ast.stmt]) -> frozenset[str]:
    found = [each for each in _own(statements) if isinstance(each, ast.Global)]
    return frozenset(name for each in found for name in each.names)
