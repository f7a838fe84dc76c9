"""Kernels that other compilers made of Python: Pallas, jax-triton.

The function is found by line tables that name Python files, and of Pallas by its name too: the kernel has
the function's. kerncap can't compile it again; the source is stored for reading.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from kerncap.capture.languages.language import Language
from kerncap.capture.source import python_files, python_source
from kerncap.capture.source.lines import named_originals
from kerncap.capture.source.native import line_table
from kerncap.capture.source.native.unit import read_source
from kerncap.capture.source.python_source import PythonFunction
from kerncap.capture.source.wanted_source import FoundFile, FoundSource, SourceRequest
from kerncap.format.elf import ElfProblem
from kerncap.format.kernel_names import KernelName

# Source: jax.experimental.mosaic.gpu.core names the host function `<name>_mosaic_gpu` (in 0.4 to 0.5
# `mosaic_gpu_<name>`), and MLIR's outlining adds `_kernel`.
_MOSAIC = re.compile(r"(?:mosaic_gpu_(\w+)_kernel|(\w+)_mosaic_gpu(?:_kernel(?:_\d+)?)?)\Z")
_LAUNCHERS = frozenset(("pallas_call", "kernel", "core_map", "as_gpu_kernel"))
_BUNDLED = os.path.join("jax", "experimental", "pallas", "ops", "gpu")


class PythonDsl(Language):
    name = "python-dsl"

    def parse_name(self, mangled: str, demangled: str) -> KernelName | None:
        found = _MOSAIC.match(mangled)
        return None if found is None else KernelName(found[1] or found[2])

    def find(self, request: SourceRequest) -> FoundSource | None:
        name = self.parse_name(request.mangled, request.demangled)
        base = name.base if name is not None else request.mangled
        found = _by_lines(request, base)
        if found is None and request.mapped_from is None and (request.python_stack or name is not None):
            found = _by_name(request, base)
        if found is None:
            return None
        path, function = found
        ((stored, data),) = named_originals({path: function.text}).items()
        return FoundSource(
            entry=function.node.name,
            language="python-dsl",
            files=(FoundFile(stored, path, data),),
            file=stored,
            kernel_file=path,
            kernel_line=function.line,
            notes=("its compiler is not one that kerncap can run: edits are of --stage ptx",),
        )

    def is_known(self, request: SourceRequest, image: Callable[[], bytes | None] | None) -> bool | None:
        return True if _MOSAIC.match(request.mangled) else None


def _by_lines(request: SourceRequest, base: str) -> tuple[str, PythonFunction] | None:
    """The function that most of the kernel's lines of Python lie in; one of its name before any other."""
    try:
        table = line_table.of_image(request.cubin, request.hsaco, request.ptx, request.mangled)
    except ElfProblem:
        return None
    lines: dict[str, list[int]] = {}
    for path, line in table.rows if table is not None else ():
        if path.endswith(".py"):
            lines.setdefault(os.path.join(str(request.cwd or "/"), path), []).append(line)
    best: tuple[bool, bool, int, str, PythonFunction] | None = None
    for path, numbers in list(lines.items())[:64]:
        text = _text(path)
        function = python_source.function(text, (), numbers) if text is not None else None
        if function is not None:
            own = not python_files.is_installed(path)
            rank = (function.node.name == base, own, len(numbers), path, function)
            best = max(best, rank, key=lambda each: each[:3]) if best is not None else rank
    return None if best is None else best[3:]


def _by_name(request: SourceRequest, base: str) -> tuple[str, PythonFunction] | None:
    """The one function that the program, or one of Pallas' own files, hands to Pallas for such a kernel."""
    found: list[tuple[str, PythonFunction]] = []
    for path in _files(request):
        text = _text(path)
        if text is None or base not in text or not any(each in text for each in _LAUNCHERS):
            continue
        module = python_source.parse(text)
        for name in sorted(_launched_as(module, base)) if module is not None else ():
            function = python_source.only(text, name)
            if function is not None:
                found.append((path, function))
    return found[0] if len(found) == 1 else None


def _files(request: SourceRequest) -> Iterator[str]:
    yield from (path for path in python_files.candidates(request, ()) if not python_files.is_installed(path))
    for folder in python_files.installed(python_files.stack_files(request)):
        yield from map(str, sorted(Path(folder, _BUNDLED).glob("*.py"))[:256])


def _launched_as(module: ast.Module, base: str) -> set[str]:
    """What launches of a kernel called ``base`` are given: functions, and names of anything else.

    A kernel is called as its function is, unless the launch has a ``name``.
    """
    launches: list[tuple[str | None, set[str]]] = []
    assigned: dict[str, set[str]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _last_name(node.func) in _LAUNCHERS:
            launches.append((_name_given(node), python_source.names(*node.args)))
        elif isinstance(node, ast.FunctionDef):
            used = [each for decorator in node.decorator_list for each in ast.walk(decorator)]
            if any(_last_name(each) in _LAUNCHERS for each in used):
                given = (_name_given(each) for each in used if isinstance(each, ast.Call))
                launches.append((next(filter(None, given), None), {node.name}))
        elif isinstance(node, ast.Assign):  # kernel = functools.partial(body, ...)
            for target in python_source.names(*node.targets):
                assigned.setdefault(target, set()).update(python_source.names(node.value))
    found: set[str] = set()
    for name, passed in launches:
        while more := {name for each in passed for name in assigned.get(each, ())} - passed:
            passed |= more
        found |= passed if name == base else passed & {base} if name is None else set()
    return found


def _name_given(call: ast.Call) -> str | None:
    given = (each.value for each in call.keywords if each.arg == "name")
    return next((str(each.value) for each in given if isinstance(each, ast.Constant)), None)


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(path: str) -> str | None:
    data = read_source(path)
    return None if data is None else data.decode("utf-8", "replace")
