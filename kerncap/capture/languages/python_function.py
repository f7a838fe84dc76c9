"""A kernel that is one Python function of the program's, in a language whose own compiler rebuilds it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal, TypeAlias

from kerncap import env
from kerncap.capture.languages.language import Parameter
from kerncap.capture.source import python_files, python_source
from kerncap.capture.source.lines import named_originals
from kerncap.capture.source.native import line_table
from kerncap.capture.source.native.unit import read_source
from kerncap.capture.source.python_source import PythonFunction
from kerncap.capture.source.wanted_source import FoundFile, FoundSource, SourceRequest
from kerncap.format import schema
from kerncap.format.elf import ElfProblem

SOURCE_NAME = "kernel.py"
Tool: TypeAlias = Literal["numba", "numba-cuda-mlir", "cutile", "cute-dsl"]


def find(request: SourceRequest, name: str, tool: Tool) -> FoundSource:
    """The function called ``name``, cut out of its file with what it uses, and the recipe to compile it.

    It is looked for in the files that line tables name, then in those of the Python stack.
    """
    rows = line_rows(request)
    for path in python_files.candidates(request, (), [path for path, _ in rows]):
        data = read_source(path)
        text = data.decode("utf-8", "replace") if data is not None else ""
        function = python_source.only(text, name, [line for file, line in rows if file == path])
        if function is not None:
            return source(request, function, path, tool)
    reason = f"no Python file with {name} was found: run from its folder, or give --source-dir"
    return FoundSource(entry=name, missing=reason)


def line_rows(request: SourceRequest) -> list[tuple[str, int]]:
    """Files and lines that the image's line tables name for the kernel."""
    try:
        table = line_table.of_image(request.cubin, None, request.ptx, request.mangled)
    except ElfProblem:
        return []
    folder = str(request.cwd or "/")
    rows = table.rows if table is not None else ()
    return [(os.path.normpath(os.path.join(folder, path)), line) for path, line in rows]


def source(
    request: SourceRequest,
    found: PythonFunction,
    path: str,
    tool: Tool,
    why: str = "",
    host: PythonFunction | None = None,
    also: Iterable[str] = (),
) -> FoundSource:
    """The function as the kernel's source. ``why`` it can't be rebuilt, if the compiler lacks something.

    ``host`` is the function of the same file that the compiler is called for, if that is not the kernel;
    ``also`` are names of the file that the call needs.
    """
    language: Literal["numba", "python-dsl"] = "numba" if tool.startswith("numba") else "python-dsl"
    ((base, data),) = named_originals({path: found.text}).items()
    whole = FoundFile(f"original/{base}", path, data)
    declared: tuple[Parameter, ...] = tuple((each, None) for each in found.parameters)
    made = python_source.standalone(found if host is None else host, env.hide_home(path), also)
    if isinstance(made, str) or why:
        return FoundSource(
            entry=found.node.name, language=language, files=(whole,), file=whole.path, kernel_file=path,
            kernel_line=found.line, parameters=declared,
            missing=f"no rebuild: {made if isinstance(made, str) else why}",
        )  # fmt: skip
    return FoundSource(
        entry=made.entry if host is None else ".".join(found.path),
        language=language,
        files=(FoundFile(SOURCE_NAME, path, made.text.encode()), whole),
        file=SOURCE_NAME,
        build=schema.SourceBuild(
            tool=tool,
            unit=f"source/{SOURCE_NAME}",
            arch=request.arch,
            name=env.hide_home(path)[:4096],
            directory=env.hide_home(str(request.cwd)) if request.cwd else None,
        ),
        origins=tuple(made.origins),
        kernel_file=path,
        kernel_line=found.line,
        parameters=declared,
    )
