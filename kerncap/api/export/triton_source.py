"""The source module of a Triton reproducer, as it goes into a script."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from kerncap.api.export.python_values import is_name
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.log import one_line


@dataclass(frozen=True)
class KernelSource:
    """The module's text, what of __future__ it needs, and its names."""

    text: str
    future: str
    entry: str
    names: frozenset[str]  # that the module binds
    functions: frozenset[str]


def kernel_source(reproducer: Reproducer, taken: Collection[str]) -> KernelSource:
    """The source of a reproducer. Raises UsageError for what no script can be made of.

    ``taken`` are the modules that the script imports: their names have to mean the same in the source.
    """
    manifest = reproducer.manifest
    if manifest.kernel.language != "triton" or manifest.launch.mode == "native":
        raise UsageError(
            f"{reproducer.path}: {one_line(manifest.kernel.name)} is a {manifest.kernel.language} kernel, "
            "and a script launches Triton ones: use --as cmake"
        )
    text = reproducer.source_text()
    if text is None or manifest.source is None:
        raise UsageError(
            f"{reproducer.path}: the kernel's source was not found at capture, and a script is made of it"
        )
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{reproducer.path}: the kernel's source is not Python: {error}") from error
    entry = manifest.source.entry
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if entry not in functions or not is_name(entry):
        raise UsageError(f"{reproducer.path}: the source has no function {one_line(entry)}")
    names = _bound(tree)
    for name in sorted(names & set(taken)):
        if not _imports_itself(tree, name):
            raise UsageError(f"{reproducer.path}: the kernel's source uses {name} as another name")
    body, future = _without_head(text, tree)
    return KernelSource(body, future, entry, frozenset(names), frozenset(functions))


def _bound(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        found |= _binds(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name.partition(".")[0]) for alias in node.names}
    return found


def _binds(node: ast.AST) -> set[str]:
    """The names that a node other than an import binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    return {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()


def _imports_itself(tree: ast.Module, name: str) -> bool:
    """Whether every binding of ``name`` is the module of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            if any(alias.asname == name != alias.name for alias in node.names):
                return False
        elif isinstance(node, ast.ImportFrom):
            if any((alias.asname or alias.name) == name for alias in node.names):
                return False
        elif name in _binds(node):
            return False
    return True


def _without_head(text: str, tree: ast.Module) -> tuple[str, str]:
    """The source without kerncap's words at its top, and the __future__ line that has to come first."""
    lines = text.splitlines()
    future: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            future += [alias.name for alias in node.names]
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    while lines and (not lines[0].strip() or lines[0].startswith("#")):
        lines.pop(0)
    return "\n".join(lines).strip("\n"), f"from __future__ import {', '.join(future)}\n" if future else ""
