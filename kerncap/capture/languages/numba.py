"""Numba's `@cuda.jit`, by numba-cuda or numba-cuda-mlir: the Python function.

It is found by line tables, the Python stack, or its module's name, which numba-cuda-mlir's names lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kerncap.capture.languages import python_function
from kerncap.capture.languages.language import Language, Parameter
from kerncap.capture.source import python_files, python_source
from kerncap.capture.source.native.unit import read_source
from kerncap.capture.source.wanted_source import FoundSource, SourceRequest
from kerncap.format import numba_names
from kerncap.format.kernel_names import KernelName
from kerncap.format.numba_names import NumbaName


class Numba(Language):
    name = "numba"

    def parse_name(self, mangled: str, demangled: str) -> KernelName | None:
        name = numba_names.parse(mangled)
        if name is None:
            return None
        types = None if name.types is None else tuple(map(str, name.types))
        return KernelName(name.path[-1], name.path[:-1], None, types, readable=str(name))

    def parameters(
        self, mangled: str, demangled: str, declared: Sequence[Parameter] = ()
    ) -> list[Parameter] | None:
        name = numba_names.parse(mangled)
        if name is None or name.types is None:
            return None
        found = numba_names.parameters(name, tuple(each or "" for each, _ in declared))
        return None if found is None else list(found)

    def find(self, request: SourceRequest) -> FoundSource | None:
        name = numba_names.parse(request.mangled)
        if name is None:
            return None
        if name.by_mlir:  # its name has no module
            return python_function.find(request, name.path[-1], "numba-cuda-mlir")
        why = "its argument types are not known" if name.types is None else ""
        rows = python_function.line_rows(request)
        for path in python_files.candidates(request, name.path[:-1], [path for path, _ in rows]):
            data = read_source(path)
            lines = [line for file, line in rows if file == path]
            text = data.decode("utf-8", "replace") if data is not None else ""
            for qualified in _qualified_names(name, path):
                found = python_source.function(text, qualified, lines)
                if found is not None:
                    return python_function.source(request, found, path, "numba", why)
        where = ".".join(name.path)
        return FoundSource(
            entry=name.path[-1],
            missing=f"no Python file with {where} was found: run from its folder, or give --source-dir",
        )

    def is_known(self, request: SourceRequest, image: Callable[[], bytes | None] | None) -> bool | None:
        """Yes for every kernel of Numba's: its file is found once the Python stack is known."""
        return None if numba_names.parse(request.mangled) is None else True


def _qualified_names(name: NumbaName, path: str) -> Iterator[tuple[str, ...]]:
    """What of the name comes after the module's, for a module in the file ``path``."""
    if name.path[0] == python_files.MAIN:
        yield name.path[1:]
        return
    parts = Path(path).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    for length in range(len(name.path) - 1, 0, -1):
        if parts[-length:] == name.path[:length]:
            yield name.path[length:]
