"""Parameters that the application computes of others: `@triton.heuristics({"EVEN_K": lambda args: …})`.

The decorator is read in the stored copy of the application's file, and worked out as grids are.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.replay.tuning.formula import Evaluator, Unknown

_MAX_SOURCE = 4 << 20


class Heuristics:
    """The heuristics of one kernel; ``names`` are the parameters that they give."""

    def __init__(self, functions: Mapping[str, ast.Lambda], constants: Mapping[str, Any]) -> None:
        self._functions = dict(functions)
        self._constants = dict(constants)

    @property
    def names(self) -> list[str]:
        return list(self._functions)

    def reads(self, name: str) -> set[str]:
        """The arguments that a derived parameter depends on."""
        return {
            node.value
            for node in ast.walk(self._functions[name])
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The derived parameters for ``arguments``, each seeing those before it. Raises Unknown."""
        known = dict(arguments)
        found: dict[str, Any] = {}
        for name, function in self._functions.items():
            parameters = [*function.args.posonlyargs, *function.args.args]
            if not parameters:
                raise Unknown(f"{name} takes no arguments")
            try:
                scope = {**self._constants, parameters[0].arg: known}
                known[name] = found[name] = Evaluator(scope).value(function.body)
            except Unknown as error:
                raise Unknown(f"{name}: {error}") from None
        return found

    def without(self, name: str) -> Heuristics:
        """All but one."""
        return Heuristics({k: v for k, v in self._functions.items() if k != name}, self._constants)


def of(reproducer: Reproducer) -> Heuristics:
    """The heuristics of the captured kernel; none where its file was not stored, or has none."""
    manifest = reproducer.manifest
    source = manifest.source
    if source is None or source.language != "python":
        return Heuristics({}, {})
    for stored in source.originals:
        if stored.size > _MAX_SOURCE:
            continue
        try:
            tree = ast.parse(reproducer.file(stored).decode("utf-8", "replace"))
        except (SyntaxError, ValueError, RecursionError, MemoryError, KerncapError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == manifest.kernel.name:
                functions = _heuristics(node)
                if functions:
                    return Heuristics(functions, _constants(tree))
    return Heuristics({}, {})


def _heuristics(definition: ast.FunctionDef) -> dict[str, ast.Lambda]:
    found: dict[str, ast.Lambda] = {}
    for decorator in definition.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        name = decorator.func.attr if isinstance(decorator.func, ast.Attribute) else ""
        name = decorator.func.id if isinstance(decorator.func, ast.Name) else name
        given = [*decorator.args, *[keyword.value for keyword in decorator.keywords]]
        if name != "heuristics" or not given or not isinstance(given[0], ast.Dict):
            continue
        for label, value in zip(given[0].keys, given[0].values, strict=True):
            if isinstance(label, ast.Constant) and isinstance(value, ast.Lambda):
                found[str(label.value)] = value
    return found


def _constants(tree: ast.Module) -> dict[str, Any]:
    """The file's own numbers: `WARP = 32`, each assigned once."""
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in seen:
                found.pop(name, None)
            elif isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float | str):
                found[name] = node.value.value
            seen.add(name)
    return found
