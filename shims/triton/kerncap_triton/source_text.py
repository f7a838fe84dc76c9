"""The text of a function as it was when it was imported, and the names in it; nothing of it runs.

Runs in the target, under the rules of `source_graph`.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

from .source_values import jit_kind

MAX_TEXT = 1 << 20  # characters of one function


def source_text(obj: Any, raw: types.FunctionType) -> tuple[str | None, int, str | None]:
    """(text, first line, doubt) of a function; the text is None if it can't be found."""
    if raw.__name__ == "<lambda>":
        return _lambda_text(raw)
    live = getattr(obj, "src", None) if jit_kind(obj) else None  # the user may have replaced it
    doubt = "no source text"
    first = None
    for text, line in _texts(obj, raw):
        text = textwrap.dedent(text)
        if len(text) > MAX_TEXT:
            return None, 0, "more than %d characters" % MAX_TEXT
        if isinstance(live, str) and live.strip() not in text:
            continue
        if _same_code(raw.__code__, text):
            return text, line, None
        first = first or (text, line)
    if isinstance(live, str):
        same = first is not None
        return (
            live,
            getattr(obj, "starting_line_number", 0),
            None if same else "its text was replaced at run time",
        )
    if first:
        return first[0], first[1], "its file changed since it was imported: the text may not be what ran"
    return None, 0, doubt


def _texts(obj: Any, raw: types.FunctionType) -> Iterator[tuple[str, int]]:
    """Texts that may be the function's, the likeliest first: as of import, as cached, as on disk now."""
    kept = getattr(obj, "raw_src", None)
    if isinstance(kept, (list, tuple)):
        yield "".join(kept), obj.starting_line_number
    code = raw.__code__
    lines: list[str] = []
    for refresh in (False, True):
        if refresh:
            linecache.checkcache(code.co_filename)
        lines = linecache.getlines(code.co_filename, raw.__globals__)
        if 0 < code.co_firstlineno <= len(lines):
            yield "".join(inspect.getblock(lines[code.co_firstlineno - 1 :])), code.co_firstlineno
    try:
        definitions = [
            each for each in ast.walk(ast.parse("".join(lines))) if isinstance(each, ast.FunctionDef)
        ]
    except SyntaxError:
        return
    for each in definitions:  # moved by an edit above it
        if each.name == raw.__name__:
            start = min([each.lineno] + [one.lineno for one in each.decorator_list])
            yield "".join(lines[start - 1 : each.end_lineno]), start


def _lambda_text(raw: types.FunctionType) -> tuple[str | None, int, str | None]:
    try:
        lines, line = inspect.getsourcelines(raw)
        text = textwrap.dedent("".join(lines))
        tree = _parse_leniently(text)
    except (OSError, TypeError, SyntaxError):
        return None, 0, "a lambda without source text"
    for each in ast.walk(tree):
        if isinstance(each, ast.Lambda):
            part = ast.get_source_segment(text, each)
            if part and _same_code(raw.__code__, part):
                return part if "\n" not in part else "(%s)" % part, line, None
    return None, 0, "a lambda that its source lines do not show"


def _parse_leniently(text: str) -> ast.Module:
    """A lambda's lines may be the middle of a call: drop what stands before it until it parses."""
    for start in [0] + [at for at in range(len(text)) if text.startswith("lambda", at)]:
        for end in [len(text)] + [at for at in range(len(text) - 1, start, -1) if text[at] in ",)]}\n"]:
            try:
                return ast.parse(text[start:end])
            except SyntaxError:
                continue
    raise SyntaxError("no lambda")


def _same_code(code: types.CodeType, text: str) -> bool:
    """Whether ``text`` compiles to ``code``, as far as names and constants tell."""
    try:
        module = compile(text, "<text>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return any(_gist(code) == _gist(each) for each in _codes(module) if each.co_name == code.co_name)


def _gist(code: types.CodeType) -> tuple[Any, ...]:
    constants = [repr(each) for each in code.co_consts if not isinstance(each, types.CodeType)]
    names = sorted(set(code.co_names) | set(code.co_freevars))
    return names, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], constants


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for each in _codes(constant):
                yield each


def parts(tree: ast.AST) -> list[ast.AST]:
    """All nodes of a tree, as `ast.walk` gives them, in less than half its time."""
    found = [tree]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
    return found


def free_names(tree: ast.Module, nodes: list[ast.AST]) -> set[str]:
    """The global names that a module of this tree loads: Python's own scoping decides, nothing runs.

    ``nodes``: its `parts`.
    """
    names, others, has_class = set(), set(), False
    for node in nodes:
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            others.add(node.attr)
        elif isinstance(node, ast.alias):
            others.update(node.name.split("."))
        elif isinstance(node, ast.Global):
            others.update(node.names)
        elif isinstance(node, ast.ClassDef):
            has_class = True
    found = set()
    for code in _codes(compile(tree, "<names>", "exec", dont_inherit=True)):
        if code.co_flags & inspect.CO_OPTIMIZED and not has_class:
            held = names.intersection(code.co_names)
            # Of a function these are the globals, unless one is something else there, too.
            if held.isdisjoint(others) and held.isdisjoint(
                code.co_varnames + code.co_cellvars + code.co_freevars
            ):
                found |= held
                continue
        found |= _loaded(code)
    return {name for name in found if not (name.startswith("__") and name.endswith("__"))}


def _loaded(code: types.CodeType) -> set[str]:
    """The global names that its instructions load."""
    instructions = list(dis.get_instructions(code))
    stored = {each.argval for each in instructions if each.opname == "STORE_NAME"}
    found = {each.argval for each in instructions if each.opname == "LOAD_GLOBAL"}
    by_name = [each for each in instructions if each.opname in ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")]
    return found | {each.argval for each in by_name if each.argval not in stored}


def chains(nodes: list[ast.AST]) -> dict[str, list[tuple[str, ...]]]:
    """Root name -> the attribute chains that the text of a tree's `parts` hangs on it, longest form."""
    attributes = [each for each in nodes if isinstance(each, ast.Attribute)]
    inner = {id(each.value) for each in attributes}
    found: dict[str, list[tuple[str, ...]]] = {}
    for each in attributes:
        if id(each) in inner:
            continue
        path: list[str] = []
        root: ast.expr = each
        while isinstance(root, ast.Attribute):
            path.append(root.attr)
            root = root.value
        if isinstance(root, ast.Name):
            found.setdefault(root.id, []).append(tuple(reversed(path)))
    return found


def position(nodes: list[ast.AST]) -> Callable[[str], tuple[Any, ...]]:
    """A key that sorts names by their first place in a tree's `parts`."""
    first: dict[str, tuple[int, int]] = {}
    for each in nodes:
        if isinstance(each, ast.Name):
            at = (each.lineno, each.col_offset)
            first[each.id] = min(first.get(each.id, at), at)
    return lambda name: (first.get(name, (1 << 30, 0)), name)
