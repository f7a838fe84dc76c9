"""A program that NVRTC or HIPRTC compiled, as the shim recorded it: its source, headers and options become
files and a recipe.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from kerncap import env
from kerncap.capture.languages.language import Language, Parameter
from kerncap.capture.source.native import command_line, definitions, layout, unit
from kerncap.capture.source.wanted_source import FoundFile, FoundSource, SourceRequest
from kerncap.errors import CaptureError
from kerncap.format import kernel_names, schema
from kerncap.format.kernel_names import KernelName
from kerncap.log import one_line

MAX_RECORD_BYTES = 256 << 20
_MAX_NAME = 4096


class _Program(msgspec.Struct):
    source: str
    name: str | None = None
    headers: dict[str, str] = {}
    options: list[str] = []
    lowered: dict[str, str] = {}  # name expression: mangled


class RuntimeProgram(Language):
    name = "runtime-program"

    def find(self, request: SourceRequest) -> FoundSource | None:
        if request.program is None:
            return None
        kernel = kernel_names.parse(request.mangled, request.demangled)
        try:
            return found_program(request, request.program, kernel)
        except (ValueError, CaptureError) as error:
            return FoundSource(entry=kernel.base, missing=one_line(env.hide_home(str(error))))

    def is_known(self, request: SourceRequest, image: Callable[[], bytes | None] | None) -> bool | None:
        return True if request.program is not None or request.origin in ("nvrtc", "hiprtc") else None


def found_program(request: SourceRequest, record: Path, kernel: KernelName) -> FoundSource:
    """The recorded program of a kernel. Raises ValueError with what is wrong with it."""
    tool: Literal["nvrtc", "hiprtc"] = "hiprtc" if request.on_amd else "nvrtc"
    program = _read(record)
    name = program.name or "default_program"
    command = command_line.parse(tool, program.options, request.cwd or Path("/"))
    headers = _given_headers(program)
    # On disk nothing has the program's name; what it includes lies in the folders of its options.
    here = os.path.join(str(request.cwd or "/"), os.path.basename(name) or "program")
    # By default NVRTC searches the program's own folder.
    if tool == "nvrtc" and "-no-source-include" not in "".join(program.options):
        folders = dict.fromkeys((*command.folders, (os.path.dirname(here), "angle")))
        command = dataclasses.replace(command, folders=tuple(folders))
    collected = unit.collect(here, command.folders, command.forced, text=program.source.encode())
    assert collected is not None
    del collected.files[collected.main]
    given = {header.original for header in headers}
    external = tuple(each for each in collected.external if each not in given)
    files, root, notes = layout.tree(collected) if collected.files else ((), "/", [])
    files = tuple(_below(file, "include") for file in files)
    place = _file_name(name, tool)
    stored = (FoundFile(place, name, program.source.encode()), *headers, *files)
    build = schema.SourceBuild(
        tool=tool,
        unit=f"source/{place}",
        arch=next(iter(command.architectures), None) or request.arch,
        name=env.hide_home(name)[:_MAX_NAME],
        options=command.options,
        headers={
            **{env.hide_home(each.original)[:_MAX_NAME]: f"source/{each.path}" for each in files},
            **{each.original[:_MAX_NAME]: f"source/{each.path}" for each in headers},
        },
        include_dirs=_folders(command, files, root),
        external=external,
        name_expressions=_expressions(program, request.mangled),
        directory=env.hide_home(str(request.cwd)) if request.cwd else None,
    )
    if command.left_out:
        notes.append(f"options that a rebuild leaves out: {' '.join(command.left_out)[:300]}")
    notes += [note for note in collected.notes if not _only_given(note, given)]
    definition = _definition(program.source, kernel)
    return FoundSource(
        entry=kernel.base,
        language="hip" if request.on_amd else "cuda",
        files=stored,
        file=place,
        build=build,
        origins=() if definition is None else (_origin(definition, name),),
        kernel_file=name,
        kernel_line=None if definition is None else definition.line,
        parameters=_parameters(definition),
        notes=tuple(env.hide_home(note) for note in notes),
    )


def _below(file: FoundFile, folder: str) -> FoundFile:
    """The file below another folder of source/."""
    return FoundFile(f"{folder}/{file.path}", file.original, file.data)


def _read(path: Path) -> _Program:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_RECORD_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the recorded program can't be read ({error.strerror})") from error
    if len(data) > MAX_RECORD_BYTES:
        raise ValueError(f"the recorded program has more than {MAX_RECORD_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(data, type=_Program)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the recorded program is damaged: {error}") from error


def _given_headers(program: _Program) -> tuple[FoundFile, ...]:
    """Headers that were passed from memory, below source/headers/, their names made plain."""
    found: list[FoundFile] = []
    taken: set[str] = set()
    for number, (name, text) in enumerate(list(program.headers.items())[: schema.MAX_MAP]):
        parts = [re.sub(r"[^\w.+@-]", "_", part)[:200] for part in name.split("/")]
        plain = "/".join(part for part in parts if part.strip(".")) or f"header-{number}"
        if len(plain) > layout.MAX_PATH or plain.count("/") > 24 or plain in taken:
            plain = f"{number}-{plain.rpartition('/')[2]}"
        taken.add(plain)
        found.append(FoundFile(f"headers/{plain}", name, text.encode()))
    return tuple(found)


def _expressions(program: _Program, mangled: str) -> tuple[str, ...]:
    """The kernel's own name expression first; a name that does not fit is left out."""
    ordered = sorted(program.lowered.items(), key=lambda item: item[1] != mangled)
    return tuple(expression for expression, _ in ordered if len(expression) <= _MAX_NAME)[: schema.MAX_MAP]


def _file_name(name: str, tool: str) -> str:
    plain = re.sub(r"[^\w.+@-]", "_", os.path.basename(name)).strip(".")[:120] or "program"
    if tool == "hiprtc":
        return plain if plain.endswith((".hip", ".cpp")) else f"{plain}.hip"
    return plain if plain.endswith((".cu", ".cuh", ".cpp")) else f"{plain}.cu"


def _folders(
    command: command_line.CommandLine, files: tuple[FoundFile, ...], root: str
) -> tuple[schema.IncludeFolder, ...]:
    places = [file.path.removeprefix("include/") for file in files]
    return tuple(
        folder
        if folder.stored is None
        else msgspec.structs.replace(folder, stored=folder.stored.replace("source", "source/include", 1))
        for folder in layout.include_folders(command.folders, places, root)
    )


def _only_given(note: str, given: set[str]) -> bool:
    """Whether a note on headers that were not found names only some that were given from memory."""
    prefix = "headers that were not found when the source was collected: "
    return note.startswith(prefix) and set(note.removeprefix(prefix).split(", ")) <= given


def _definition(text: str, kernel: KernelName) -> definitions.Definition | None:
    found = definitions.matching(kernel, definitions.definitions(text, frozenset((kernel.base,))))
    return found[0] if len(found) == 1 else None


def _parameters(definition: definitions.Definition | None) -> tuple[Parameter, ...]:
    pairs = definition.parameter_pairs if definition is not None and not definition.is_template else None
    return tuple((name, type_) for type_, name in pairs or ())


def _origin(definition: definitions.Definition, name: str) -> schema.SourceOrigin:
    return schema.SourceOrigin(
        name=definition.name,
        line=definition.first,
        lines=definition.last - definition.first + 1,
        original_file=env.hide_home(name)[:_MAX_NAME],
        original_line=definition.first,
    )
