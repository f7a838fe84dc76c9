"""TTIR texts of the tests: real ones by name, and one-function modules around a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Module, Operation, walk

DATA = Path(__file__).parent / "data"
NAMES = sorted(path.stem for path in DATA.glob("*.ttir"))


def text(name: str) -> str:
    return (DATA / f"{name}.ttir").read_text()


def real(name: str) -> Module:
    return read_module(text(name))


def around(lines: str, arguments: str = "%a: i32, %b: i32, %p: !tt.ptr<f32>, %c: i1") -> str:
    return f"module {{\n  tt.func public @k({arguments}) {{\n{lines}\n    tt.return\n  }}\n}}\n"


def operations(module: Module, name: str | None = None) -> list[Operation]:
    return list(_operations(module, name))


def one(lines: str, name: str, arguments: str = "%a: i32, %b: i32, %p: !tt.ptr<f32>, %c: i1") -> Operation:
    """The only operation of that name in a kernel of those lines."""
    (found,) = operations(read_module(around(lines, arguments)), name)
    return found


def _operations(module: Module, name: str | None) -> Iterator[Operation]:
    for function in module.functions.values():
        if function.body is not None:
            for operation in walk(function.body):
                if name is None or operation.name == name:
                    yield operation
