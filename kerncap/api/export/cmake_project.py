"""Launches with their code and parameters as a CMake project in CUDA or HIP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from kerncap import scratch
from kerncap.api.export import code_addresses, project_code
from kerncap.api.export.launch_header import launch_header
from kerncap.api.export.memory_blocks import Contents, require_values
from kerncap.api.export.memory_records import MemoryRecords
from kerncap.api.export.project_words import Words, notes_on
from kerncap.api.export.rebuild import rebuild
from kerncap.api.export.static_variables import idle_static_variables
from kerncap.api.export.templates import filled
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer
from kerncap.replay import hip_code_places
from kerncap.replay.ranges.joined_memory import SharedMemory, share
from kerncap.replay.ranges.memory_between_launches import Timeline

_INCLUDES = {"cuda": "#include <cuda.h>", "hip": "#include <hip/hip_runtime_api.h>"}


def write_native(launches: Sequence[Reproducer], words: Words, folder: Path) -> tuple[str, ...]:
    """Write the project of one launch, or of a range's, into ``folder``; what a user should know of it.

    Raises UsageError, naming what keeps a launch from being exported.
    """
    vendor = ""
    for number, launch in enumerate(launches):
        with _named(launches, number):
            require_values(launch)
            vendor = project_code.require_native(launch)
            ended = launch.manifest.oracle.kind
            if ended in ("fault", "timeout") and number + 1 < len(launches):
                raise UsageError(
                    f"{launch.path}: it ended with a {ended}, so nothing is known of those after it; "
                    "kerncap slice makes a reproducer of it"
                )
    shared = _shared(launches)
    left_out: set[int] = set()
    for number, launch in enumerate(launches):
        with _named(launches, number):
            contents = Contents(launch)
            code_addresses.require_none(launch, contents)
            if vendor == "hip":
                left_out |= {
                    shared.places[number][index].region for index in idle_static_variables(launch, contents)
                }
    modules = project_code.modules(launches, shared, vendor)
    project_code.write_images(launches, modules, folder)
    variables = [
        i for i, region in enumerate(shared.regions) if region.kind == "global" and not region.module
    ]
    with scratch.folder("range") as made, (folder / "memory.bin").open("wb") as file:
        timeline = Timeline(launches, shared, made)
        records = MemoryRecords(launches, shared, timeline, variables, left_out)
        for data in records:
            file.write(data)
    name = f"replay_{words.stem}"
    values = {"TITLE": _comment(words.title), "FACTS": _comment(words.facts), "NAME": name}
    device = (
        filled(f"device_{vendor}.cpp.in", {}).rstrip("\n") + "\n" + filled("beside.cpp.in", {}).rstrip("\n")
    )
    program = filled(
        "main.cpp.in",
        {**values, "TITLE": _comment(words.title, "//"), "FACTS": _comment(words.facts, "//"),
         "INCLUDES": _INCLUDES[vendor], "DEVICE": device},
    )  # fmt: skip
    _write(folder / "main.cpp", program)
    _write(folder / "launch.h", launch_header(launches, vendor, shared, modules, records.words, left_out))
    recipe, notes = rebuild(launches, modules, folder, vendor, name)
    _write(
        folder / "CMakeLists.txt", filled(f"{vendor}.cmake.in", {**values, "REBUILD": recipe}).rstrip() + "\n"
    )
    return (*_notes(launches), *notes)


@contextlib.contextmanager
def _named(launches: Sequence[Reproducer], number: int) -> Iterator[None]:
    """Of several launches a message says which one it is about."""
    try:
        yield
    except UsageError as error:
        if len(launches) == 1:
            raise
        path = launches[number].path
        text = str(error).removeprefix(f"{path}: ")
        raise UsageError(f"{path}: launch {number}: {text}") from error


def _shared(launches: Sequence[Reproducer]) -> SharedMemory:
    try:
        return share([launch.manifest for launch in launches])
    except BackendUnavailable as error:
        raise UsageError(f"{launches[0].path}: {error.reason}") from error


def _notes(launches: Sequence[Reproducer]) -> Iterator[str]:
    for number, launch in enumerate(launches):
        for note in _notes_on(launch):
            yield note if len(launches) == 1 else f"launch {number}: {note}"


def _notes_on(launch: Reproducer) -> Iterator[str]:
    manifest = launch.manifest
    oracle = manifest.oracle.kind
    yield from notes_on(launch)
    if oracle in ("fault", "timeout"):
        yield f"in the application the launch ended with a {oracle}: the project passes if it does not"
    elif oracle != "trusted":
        yield f"the application's result is {oracle}: agreeing with it does not prove the kernel right"
    if hip_code_places.is_unplaced(launch):
        yield "nothing says where the application had the code: a pointer to a function leads elsewhere"
    if any(region.kind == "managed" for region in manifest.regions):
        yield "managed memory is plain device memory in the project"


def _comment(text: str, mark: str = "#") -> str:
    """Lines of a comment; the first one's mark stands in the template."""
    return f"\n{mark} ".join(text.splitlines())


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
