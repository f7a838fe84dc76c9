"""CUDA C++ and HIP: line tables, compile_commands.json, folders to search.

Without one, the reason is given. What the kernel's file is compiled with goes into a recipe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kerncap import env
from kerncap.capture.languages.language import Language
from kerncap.capture.source.native import (
    build_producer,
    compile_commands,
    definitions,
    folder_search,
    installed_library,
    layout,
    line_table,
)
from kerncap.capture.source.native.command_line import CommandLine
from kerncap.capture.source.native.command_line import parse as parse_command
from kerncap.capture.source.native.folder_search import Place
from kerncap.capture.source.native.line_table import LineTable
from kerncap.capture.source.native.locate import (
    QUICK_S,
    UNIT_SUFFIXES,
    Located,
    Locator,
    beside_program,
    starts,
)
from kerncap.capture.source.native.unit import Unit, collect, is_external, read_source
from kerncap.capture.source.wanted_source import FoundSource, SourceRequest
from kerncap.errors import CaptureError
from kerncap.format import kernel_names, schema
from kerncap.format.code_object import CodeObject, CodeObjectProblem
from kerncap.format.elf import ElfProblem
from kerncap.format.kernel_names import KernelName
from kerncap.log import one_line

PATIENT_S = 30.0  # when sealing
_INCLUDERS = 60


class CudaHip(Language):
    name = "cuda"

    def find(self, request: SourceRequest) -> FoundSource:
        kernel = kernel_names.parse(request.mangled, request.demangled)
        table, damage = None, None
        try:
            table = line_table.of_image(request.cubin, request.hsaco, request.ptx, request.mangled)
        except ElfProblem as error:
            damage = f"the image's line tables are damaged: {error}"
        located = Locator(request, kernel, table, PATIENT_S).locate()
        if located.place is None:
            reason = located.reason or damage or _why_nothing(request, table)
            return _nothing(kernel, reason)
        return _with_unit(request, kernel, table, located)

    def is_known(self, request: SourceRequest, image: Callable[[], bytes | None] | None) -> bool:
        kernel = kernel_names.parse(request.mangled, request.demangled)
        try:
            if Locator(request, kernel, None, QUICK_S).locate().place is not None:
                return True
            data = request.hsaco or request.cubin
            data = data if data is not None else image() if image is not None else None
            if data is None:
                return False
            table = line_table.from_code(data, request.mangled)
        except (ElfProblem, CaptureError, OSError, RecursionError):
            return False
        return table is not None and any(
            path.endswith(folder_search.SUFFIXES) and os.path.isfile(path) for path, _ in table.rows
        )


def _with_unit(
    request: SourceRequest, kernel: KernelName, table: LineTable | None, located: Located
) -> FoundSource:
    place = located.place
    assert place is not None
    databases = located.databases or compile_commands.find((*starts(request), Path(place.path).parent))
    notes = list(located.notes)
    info = _tool_info(request)
    hints = [*(table.files if table is not None else ()), *_project_headers(request)]
    unit, command, directory = _unit(request, kernel, table, databases, place, hints, notes, info)
    if unit is None:
        return _nothing(kernel, f"{place.path} can't be read any more")
    notes += unit.notes
    files, root, left = layout.tree(unit)
    notes += left
    places = {file.original: file.path for file in files}
    if place.path not in places or unit.main not in places:
        return _nothing(kernel, f"{place.path} can't be stored: {'; '.join(left) or 'a limit'}")
    if command.relocatable:
        flag = "-rdc=true" if request.tool == "nvcc" else "-fgpu-rdc"
        notes.append(f"compiled with {flag}: a rebuild links no device code of other units")
    if command.left_out:
        notes.append(f"options that a rebuild leaves out: {' '.join(command.left_out)[:300]}")
    build = layout.recipe(
        unit, files, root, command,
        arch=_arch(request, info),
        directory=directory,
        compiler=f"{info.tool} {info.version}" if info is not None else None,
        tool=request.tool,
    )  # fmt: skip
    return FoundSource(
        entry=kernel.base,
        language="hip" if request.tool == "hipcc" else "cuda",
        files=files,
        file=places[place.path],
        build=build,
        origins=_origins(kernel, place, unit),
        kernel_file=place.path,
        kernel_line=place.definition.line,
        notes=tuple(dict.fromkeys(one_line(env.hide_home(note)) for note in notes)),
    )


def _tool_info(request: SourceRequest) -> build_producer.ToolInfo | None:
    if request.hsaco is not None:
        return build_producer.of_code_object(request.hsaco)
    return build_producer.of_cubin(request.cubin) if request.cubin is not None else None


def _arch(request: SourceRequest, info: build_producer.ToolInfo | None) -> str | None:
    """What the image was compiled for, features included: "sm_90a", "gfx90a:xnack-"."""
    if request.hsaco is None:
        return (info.arch if info is not None else None) or request.arch
    try:
        found = CodeObject(request.hsaco)
    except CodeObjectProblem:
        return request.arch
    return f"{found.arch}{found.features}" if found.arch else request.arch


def _project_headers(request: SourceRequest) -> list[str]:
    found: list[str] = []
    for folder in request.source_dirs:
        for path in folder_search.files_below(os.path.abspath(folder)):
            found.append(path)
            if len(found) >= folder_search.MAX_FILES:
                return found
    return found


def _unit(
    request: SourceRequest,
    kernel: KernelName,
    table: LineTable | None,
    databases: tuple[compile_commands.Database, ...],
    place: Place,
    hints: list[str],
    notes: list[str],
    info: build_producer.ToolInfo | None,
) -> tuple[Unit | None, CommandLine, str | None]:
    """The unit that the kernel was compiled in, and its command line as far as that is known."""
    words = info.compiler_words() if info is not None and request.tool == "nvcc" else []
    if request.tool == "nvcc":
        # Both only allow more; what the program was compiled with is not known.
        words += ["--expt-relaxed-constexpr"] + (["--extended-lambda"] if kernel.has_lambda else [])
    elif table is not None:
        words.append("-g")  # as the image has line tables
    fallback = parse_command(request.tool, words, Path("/"))
    for main in _mains(request, kernel, table, databases, place):
        entry = next((each.entries[main] for each in databases if main in each.entries), None)
        command = entry.command(request.tool) if entry is not None else fallback
        unit = collect(main, command.folders, command.forced, hints=hints)
        if unit is None or not _includes(unit, place.path):
            continue
        if entry is None:
            notes.append(
                f"no compile_commands.json or build.ninja names {main}: a rebuild takes {request.tool}'s"
                f" defaults and {' '.join(command.options) or 'no options'}"
            )
        return unit, command, entry.directory if entry is not None else None
    notes.append(f"no unit that includes {place.path} was found: it is compiled by itself")
    return collect(place.path, (), hints=hints), fallback, None


def _includes(unit: Unit, kernel_file: str) -> bool:
    """Whether the unit has the kernel's file; an installed one comes with its library."""
    return kernel_file in unit.files or (
        is_external(kernel_file) and installed_library.add_library(unit, kernel_file)
    )


def _mains(
    request: SourceRequest,
    kernel: KernelName,
    table: LineTable | None,
    databases: tuple[compile_commands.Database, ...],
    place: Place,
) -> Iterator[str]:
    """Units that may be the one, the likeliest first; the caller checks that it includes the file.

    A line table names a unit only if that has code of its own, so a header's unit may have to be searched.
    """
    if place.path.endswith(UNIT_SUFFIXES):
        yield place.path
        return
    for path in table.files if table is not None else ():
        if path.endswith(UNIT_SUFFIXES) and os.path.isfile(path):
            yield path
    folder = os.path.dirname(place.path)
    known = [file for each in databases for file in each.entries]
    known += [
        file for each in request.source_dirs for file in folder_search.files_below(os.path.abspath(each))
    ]
    for beside in dict.fromkeys((folder, os.path.dirname(folder), *beside_program(request))):
        known += folder_search.files_in(beside)
    name = os.path.basename(place.path).encode()
    ranked: list[tuple[int, int, str]] = []
    for number, path in enumerate(dict.fromkeys(known)):
        data = (
            read_source(path) if path.endswith(UNIT_SUFFIXES) and number < folder_search.MAX_FILES else None
        )
        if data is not None:
            likely = (name in data) + 2 * (kernel.base.encode() in data) + path.endswith((".cu", ".hip"))
            ranked.append((-likely, number, path))
    yield from [path for _, _, path in sorted(ranked)[:_INCLUDERS]]


def _origins(kernel: KernelName, place: Place, unit: Unit) -> tuple[schema.SourceOrigin, ...]:
    """The kernel's lines; those of the functions whose lambdas it was given, too."""
    found = [_origin(place)]
    for function in kernel.enclosing_functions():
        for path, data in unit.files.items():
            if function.encode() in data:
                text = data.decode("utf-8", "replace")
                every = definitions.definitions(text, frozenset((function,)))
                found += [_origin(Place(path, each)) for each in every if each.name == function]
    return tuple(dict.fromkeys(found))[:256]


def _origin(place: Place) -> schema.SourceOrigin:
    each = place.definition
    return schema.SourceOrigin(
        name=each.name[:4096],
        line=each.first,
        lines=each.last - each.first + 1,
        original_file=env.hide_home(place.path)[:4096],
        original_line=each.first,
    )


def _why_nothing(request: SourceRequest, table: LineTable | None) -> str:
    if table is not None and not os.path.isfile(table.rows[0][0]):
        return f"the line tables name {table.rows[0][0]}, which is not on this machine: give --source-dir"
    if table is not None:
        return (
            f"the line tables name {table.rows[0][0]}, which holds no kernel of that name: give --source-dir"
        )
    where = (
        f" of {os.path.basename(request.mapped_from)}" if request.mapped_from else ", which came from memory,"
    )
    return (
        f"the image{where} has no line tables and no source of that name was found: "
        f"compile with {'hipcc -g' if request.tool == 'hipcc' else 'nvcc -lineinfo'}, or give --source-dir"
    )


def _nothing(kernel: KernelName, reason: str) -> FoundSource:
    return FoundSource(entry=kernel.base, missing=one_line(env.hide_home(reason)))
