"""Gluon's layouts, which a launch passes as constexprs: made again of the text that their `repr` gives."""

from __future__ import annotations

import ast
import dataclasses
import sys
from typing import Any

_PACKAGE = "triton.experimental.gluon."


def layout_of(value: dict[str, Any]) -> Any:
    """The layout that a manifest's opaque value is, or None. Raises ValueError if it can't be made here."""
    if not value.get("type_name", "").startswith(_PACKAGE):
        return None
    return rebuilt(value["repr"])


def rebuilt(text: str) -> Any:
    """The layout that prints as ``text``: dataclasses of Gluon, of literals and of each other.

    Nothing else is called. Raises ValueError for any other text.
    """
    import triton.experimental.gluon.language as gl

    try:
        return _made(ast.parse(text, mode="eval").body, gl)
    except (AssertionError, SyntaxError, MemoryError) as error:
        raise ValueError(f"no layout prints as {text[:80]}") from error


def _made(node: ast.expr, gl: Any) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        kind = _class(node.func.id, gl)
        fields = {each.name for each in dataclasses.fields(kind) if each.init}
        given = {each.arg: _made(each.value, gl) for each in node.keywords if each.arg in fields}
        return kind(**given)
    if isinstance(node, ast.List | ast.Tuple):
        items = [_made(each, gl) for each in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    return ast.literal_eval(node)


def _class(name: str, gl: Any) -> Any:
    """One of the language's layouts, also of a vendor's part that the kernel's source has imported."""
    parts = [gl, *(module for key, module in list(sys.modules.items()) if key.startswith(gl.__name__ + "."))]
    for part in parts:
        kind = getattr(part, name, None)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__.startswith(_PACKAGE):
            return kind
    raise ValueError(f"Gluon here has no layout {name}")
