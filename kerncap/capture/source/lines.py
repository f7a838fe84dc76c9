"""The lines of an assembled module: text that grows, and small pieces of it made safe to put there."""

from __future__ import annotations

import ast
import re

from kerncap.capture.source.source_graph import ImportRef, ModuleRef, Node
from kerncap.errors import CaptureError
from kerncap.format.schema import SourceOrigin

_OPTIONS = frozenset(("version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline"))


class Lines:
    """Text that grows, and which of its lines are which function's."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._line = 1
        self.origins: list[SourceOrigin] = []

    def add(self, text: str) -> None:
        self._parts.append(text)
        self._line += text.count("\n")

    def add_function(self, name: str, text: str, node: Node, before: int) -> None:
        """``before`` counts the lines above `def` in the original; those above it here may be fewer."""
        try:
            above = ast.parse(text).body[0].lineno - 1
        except SyntaxError as error:  # an edit went wrong: better no module than one that cannot load
            raise CaptureError(f"the text of {node.name} no longer parses: {error}") from error
        lines = text.count("\n") - above
        if node.file:
            origin = SourceOrigin(
                name=name,
                line=self._line + above,
                lines=lines,
                original_file=node.file,
                original_line=node.line + before,
            )
            self.origins.append(origin)
        self.add(text)

    def text(self) -> str:
        return "".join(self._parts)


def import_line(name: str, ref: ModuleRef | ImportRef) -> str:
    if isinstance(ref, ModuleRef):
        return f"import {ref.name}" if name == ref.name else f"import {ref.name} as {name}"
    return f"from {ref.module} import {ref.attribute}" + ("" if name == ref.attribute else f" as {name}")


def checked_options(text: str) -> str:
    """The literal keyword arguments of `@triton.jit`, written again; anything else is left out."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError, MemoryError):
        return ""
    parts = []
    for each in call.keywords if isinstance(call, ast.Call) else []:
        try:
            value = ast.literal_eval(each.value)
        except (ValueError, TypeError, SyntaxError):
            continue
        if each.arg in _OPTIONS and isinstance(value, (bool, int, str, list)):
            parts.append(f"{each.arg}={ascii(value)}")
    return ", ".join(parts)


def comment_text(text: str) -> str:
    """Text that stays within one comment line, whatever it holds."""
    return "".join(each if each.isprintable() else "?" for each in text)


def named_originals(files: dict[str, str]) -> dict[str, bytes]:
    originals: dict[str, bytes] = {}
    for path, text in files.items():
        base = re.sub(r"[^A-Za-z0-9_.-]", "_", path.rpartition("/")[2]).lstrip(".")[-100:] or "source.py"
        name, number = base, 2
        while name in originals:
            name, number = f"{number}-{base}", number + 1
        originals[name] = text.encode("utf-8", "replace")
    return originals
