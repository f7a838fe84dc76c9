"""Mutants of a kernel's source: one operator, bound, constant or mask is another one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

_OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Add, ast.Div), ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mod,), ast.Mod: (ast.FloorDiv,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt,), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
}  # fmt: skip
_CALLS = {
    "max": "min",
    "min": "max",
    "maximum": "minimum",
    "minimum": "maximum",
    "exp": "exp2",
    "log": "log2",
}


@dataclass(frozen=True)
class Mutant:
    """``what`` was done at ``line`` of the source, and the whole source after it."""

    what: str
    line: int
    source: str


def mutants(source: str) -> list[Mutant]:
    """All of the functions under `triton.jit`, in the order of the source; each is changed in one place."""
    tree = ast.parse(source)
    found = []
    for put, node in _places(tree):
        for what, changed in _changes(node):
            put(ast.copy_location(changed, node))
            text = ast.unparse(ast.fix_missing_locations(tree))
            found.append(Mutant(what, getattr(node, "lineno", 0), text))
        put(node)
    return found


def _places(tree: ast.Module) -> Iterator[tuple[Callable[[ast.AST], None], ast.AST]]:
    """Nodes of the kernels' bodies, with what puts another one in their place."""
    for one in tree.body:
        if isinstance(one, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in one.decorator_list):
            for statement in one.body:
                # What an assertion or a `while` tests may end the launch, or never end it.
                if not isinstance(statement, ast.While | ast.Assert):
                    for parent in list(ast.walk(statement)):
                        yield from _children(parent)


def _children(parent: ast.AST) -> Iterator[tuple[Callable[[ast.AST], None], ast.AST]]:
    for name, value in list(ast.iter_fields(parent)):
        if isinstance(value, ast.AST):
            yield partial(setattr, parent, name), value
        elif isinstance(value, list):
            for at, one in enumerate(list(value)):
                if isinstance(one, ast.AST):
                    yield partial(value.__setitem__, at), one


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.BinOp):
        for operator in _OPERATORS.get(type(node.op), ()):
            yield (
                f"{type(node.op).__name__} is {operator.__name__}",
                ast.BinOp(node.left, operator(), node.right),
            )
        if isinstance(node.op, ast.Add | ast.Mult):
            yield "operands turned round", ast.BinOp(node.right, node.op, node.left)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for comparison in _COMPARISONS.get(type(node.ops[0]), ()):
            what = f"{type(node.ops[0]).__name__} is {comparison.__name__}"
            yield what, ast.Compare(node.left, [comparison()], node.comparators)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value is not True:
        if node.value is False:
            return
        values = (
            (node.value + 1, node.value - 1)
            if isinstance(node.value, int)
            else (node.value * 1.01, -node.value)
        )
        for value in values:
            if value != node.value and abs(value) < 1 << 20:
                yield f"{node.value} is {value}", ast.Constant(value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _CALLS:
            func = ast.Attribute(node.func.value, _CALLS[node.func.attr], node.func.ctx)
            yield f"{node.func.attr} is {func.attr}", ast.Call(func, node.args, node.keywords)
        for at, keyword in enumerate(node.keywords):
            if keyword.arg == "mask" and not isinstance(keyword.value, ast.Constant):
                mask = ast.parse(f"({ast.unparse(keyword.value)}) & (tl.program_id(0) > 0)", mode="eval").body
                rest = [*node.keywords[:at], ast.keyword("mask", mask), *node.keywords[at + 1 :]]
                yield "not in the first program", ast.Call(node.func, node.args, rest)
            elif keyword.arg == "other":
                rest = [
                    *node.keywords[:at],
                    ast.keyword("other", ast.Constant(1.0)),
                    *node.keywords[at + 1 :],
                ]
                yield "other is 1", ast.Call(node.func, node.args, rest)
