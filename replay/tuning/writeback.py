"""The result as code: an `@triton.autotune` list, or a unified diff against the application's own file."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kerncap.format import Reproducer
from kerncap.replay.tuning import cuda_text
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.space import OPTIONS


@dataclass(frozen=True)
class Patch:
    """A unified diff of one file; ``note`` is what it leaves to the reader, or why there is none."""

    text: str
    file: str = ""
    note: str = ""


def config_text(point: Point, name: str = "triton.Config") -> str:
    """``triton.Config({"BLOCK": 64}, num_warps=4)``."""
    kwargs = ", ".join(f'"{key}": {value!r}' for key, value in point.items() if key not in OPTIONS)
    options = "".join(f", {key}={value!r}" for key, value in point.items() if key in OPTIONS)
    return f"{name}({{{kwargs}}}{options})"


def configs_text(points: Sequence[Point], indent: str, name: str = "triton.Config") -> str:
    """The list, one configuration a line."""
    lines = "".join(f"{indent}    {config_text(point, name)},\n" for point in points)
    return f"[\n{lines}{indent}]"


def decorator(points: Sequence[Point], key: Sequence[str], indent: str = "", triton: str = "triton") -> str:
    """A ready `@triton.autotune(configs=[…], key=[…])`."""
    configs = configs_text(points, indent + "    ", f"{triton}.Config")
    names = ", ".join(f'"{each}"' for each in key)
    lines = (f"@{triton}.autotune(", f"    configs={configs},", f"    key=[{names}],", ")")
    return "".join(f"{indent}{line}\n" for line in lines)


def triton_patch(reproducer: Reproducer, points: Sequence[Point], key: Sequence[str]) -> Patch:
    """The application's file with these configurations; its own decorator is changed if it has one."""
    manifest = reproducer.manifest
    source = manifest.source
    if source is None:
        return Patch("", note="the kernel's file was not stored")
    for stored in source.originals:
        text = reproducer.file(stored).decode("utf-8", "replace")
        changed, note = _retuned(text, manifest.kernel.name, manifest.kernel.line or 0, points, key)
        if changed is not None:
            name = manifest.kernel.file or PurePosixPath(stored.path).name
            return Patch(diff(text, changed, name), name, note)
    return Patch("", note="the kernel's definition was not found in the application's stored files")


def cuda_patch(reproducer: Reproducer, point: Point) -> Patch:
    """The kernel's file with other numbers."""
    manifest = reproducer.manifest
    text = reproducer.source_text() or ""
    assert manifest.source is not None
    name = manifest.kernel.file or manifest.source.file.path
    return Patch(diff(text, cuda_text.edited(reproducer, point), name), name)


def _retuned(
    text: str, kernel: str, line: int, points: Sequence[Point], key: Sequence[str]
) -> tuple[str | None, str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None, ""
    definitions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == kernel]
    if not definitions:
        return None, ""
    definition = min(definitions, key=lambda node: abs(node.lineno - line))
    for each in definition.decorator_list:
        if isinstance(each, ast.Call) and _last(each.func) == "autotune":
            return _replaced(text, each, points, key)
    first = min([definition.lineno] + [each.lineno for each in definition.decorator_list])
    lines = text.splitlines(keepends=True)
    indent = " " * definition.col_offset
    module = _module(definition)
    new = decorator(points, key, indent, module)
    names = [name for name in points[0] if name not in OPTIONS] if points else []
    given = ", ".join([*names, *[name for name in (points[0] if points else {}) if name in OPTIONS]])
    note = (
        f"the launch must no longer pass {given}: the decorator does, and a grid has to follow it "
        "(lambda META: ...)"
    )
    return "".join([*lines[: first - 1], new, *lines[first - 1 :]]), note


def _replaced(
    text: str, call: ast.Call, points: Sequence[Point], key: Sequence[str]
) -> tuple[str | None, str]:
    """The text with other values for the decorator's configs and key; its other arguments stay."""
    found = {keyword.arg: keyword.value for keyword in call.keywords}
    given = dict(zip(("configs", "key"), call.args, strict=False)) | {k: v for k, v in found.items() if k}
    configs, names = given.get("configs"), given.get("key")
    if configs is None or names is None:
        return None, ""
    lines = text.splitlines(keepends=True)
    start = lines[configs.lineno - 1]
    indent = start[: len(start) - len(start.lstrip())]
    config = _config_name(configs) or f"{_prefix(call.func)}Config"
    key_text = "[" + ", ".join(f'"{each}"' for each in key) + "]"
    edits = [(configs, configs_text(points, indent, config))]
    if not _same_key(names, key):
        edits.append((names, key_text))
    for node, new in sorted(edits, key=lambda edit: -_offset(lines, edit[0].lineno, edit[0].col_offset)):
        begin = _offset(lines, node.lineno, node.col_offset)
        end = _offset(lines, node.end_lineno or node.lineno, node.end_col_offset or 0)
        data = text.encode()
        text = (data[:begin] + new.encode() + data[end:]).decode()
        lines = text.splitlines(keepends=True)
    return text, ""


def _offset(lines: Sequence[str], line: int, column: int) -> int:
    """Bytes from the start: columns of a syntax tree are bytes."""
    return sum(len(each.encode()) for each in lines[: line - 1]) + column


def _same_key(node: ast.expr, key: Sequence[str]) -> bool:
    return isinstance(node, ast.List) and [getattr(e, "value", None) for e in node.elts] == list(key)


def _config_name(node: ast.expr) -> str:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and _last(each.func) == "Config":
            return ast.unparse(each.func)
    return ""


def _prefix(node: ast.expr) -> str:
    return f"{ast.unparse(node.value)}." if isinstance(node, ast.Attribute) else ""


def _module(definition: ast.FunctionDef) -> str:
    """The name that the file has for Triton, from `@triton.jit`."""
    for each in definition.decorator_list:
        node = each.func if isinstance(each, ast.Call) else each
        if isinstance(node, ast.Attribute) and node.attr in ("jit", "heuristics"):
            return ast.unparse(node.value)
    return "triton"


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def diff(before: str, after: str, name: str) -> str:
    """A unified diff of the file ``name``."""
    plain = name.lstrip("/")
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{plain}", f"b/{plain}"
        )
    )
