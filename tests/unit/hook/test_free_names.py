"""The global names of a function are those that its instructions load, told without most of these."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path
from typing import Any

import pytest

LIBRARY = Path(ast.__file__).parent
# Of the standard library, with nested functions, classes and comprehensions of all kinds.
MODULES = ("dataclasses", "typing", "inspect", "enum", "argparse", "functools", "contextlib", "difflib")

ODD = """
def renamed():
    from os import path as where
    return where.join(path)
def attribute_and_local(x):
    return [load for load in x.load], (lambda load: load)(x)
def comprehension_and_global(x):
    return [size for size in x] + [size]
def declared():
    global counter
    counter = 1
def keyword(x):
    return x(size=1)
def private(x):
    class Inner:
        size = __hidden = x
        def method(self):
            return __hidden, size
    return Inner
"""


@pytest.mark.parametrize("name", [*MODULES, "odd"])
def test_free_names_are_those_that_are_loaded(package: Any, name: str) -> None:
    from kerncap_triton import source_text  # type: ignore[import-not-found,unused-ignore]

    text = ODD if name == "odd" else (LIBRARY / f"{name}.py").read_text()
    functions = [node for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert len(functions) > 5
    for function in functions:
        tree = ast.Module([function], [])
        nodes = source_text.parts(tree)
        assert nodes == list(ast.walk(tree))
        found = source_text.free_names(tree, nodes)
        code = compile(tree, "<text>", "exec", dont_inherit=True)
        every = set().union(*map(source_text._loaded, source_text._codes(code)))
        wanted = {each for each in every if not (each.startswith("__") and each.endswith("__"))}
        assert {each for each in found ^ wanted if not hasattr(builtins, each)} == set(), function.name
