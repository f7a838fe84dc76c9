"""The part of a CMake project that compiles its code from the sources again, by the recorded options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kerncap import scratch
from kerncap.api.export.project_code import Module
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.build_options import is_accepted, is_plain_path
from kerncap.format.schema import Source, SourceBuild
from kerncap.log import one_line

_TEXT = """
# The kernel compiled again from {folder}, which may be edited: cmake --build . --target {target}
set(ARCH {arch} CACHE STRING "what it is compiled for")
find_program({variable} {compiler}{hints})
if({variable})
  set(REBUILT ${{CMAKE_CURRENT_BINARY_DIR}}/{target}.{suffix})
  add_custom_command(
    OUTPUT ${{REBUILT}}
    COMMAND {command}
    DEPENDS {depends}
    VERBATIM)
  add_custom_target({target} DEPENDS ${{REBUILT}})
  add_test(NAME build_{target} COMMAND ${{CMAKE_COMMAND}} --build ${{CMAKE_BINARY_DIR}} --target {target})
  set_tests_properties(build_{target} PROPERTIES FIXTURES_SETUP {target})
  add_test(NAME {target} COMMAND {name} {image}${{REBUILT}})
  set_tests_properties({target} PROPERTIES FIXTURES_REQUIRED {target})
endif()
"""
_WITHOUT_RECORD = ("--extended-lambda", "--expt-relaxed-constexpr")
_HINTS = {
    "cuda": " HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin",
    "hip": " HINTS ${ROCM_PATH} /opt/rocm PATH_SUFFIXES bin",
}
_HERE = "${CMAKE_CURRENT_SOURCE_DIR}/"


def rebuild(
    launches: Sequence[Reproducer], modules: Sequence[Module], folder: Path, vendor: str, name: str
) -> tuple[str, tuple[str, ...]]:
    """The text, and what a user should know; the sources are written into ``folder``.

    No text for a module whose launches have no source, several ones, or no record of how it was compiled.
    Raises UsageError for a record that holds what none may.
    """
    texts, notes = [], []
    for module in modules:
        of_module = [launches[number] for number in module.launches]
        only = len(modules) == 1
        text, note = _of_module(of_module, vendor, name, folder, "" if only else f"module_{module.number}/",
                                "" if len(launches) == 1 else f"{module.launches[0]}=")  # fmt: skip
        texts.append(text)
        if note:
            notes.append(note if len(launches) == 1 else f"launch {module.launches[0]}: {note}")
    return "".join(texts), tuple(notes)


def _of_module(
    launches: Sequence[Reproducer], vendor: str, name: str, folder: Path, below: str, image: str
) -> tuple[str, str]:
    reproducer = launches[0]
    source = reproducer.manifest.source
    if source is None:
        return "", ""
    files = (source.file, *source.originals)
    for stored in files:
        scratch.place_of(below + stored.path, folder).write_bytes(reproducer.file(stored))
    build, only = source.build, f"{below}source/ is only for reading"
    if build is None:
        return "", f"{only}: it is unknown how it was compiled"
    if build.tool not in ("nvcc", "hipcc"):
        return "", f"{only}: a program of {build.tool} is not compiled by this project"
    if any(_recipe(launch) != _recipe(reproducer) for launch in launches):
        return "", f"{only}: the launches of its code have several sources"
    _check(reproducer, source, build)
    arch = build.arch or reproducer.manifest.device.arch or ("sm_80" if vendor == "cuda" else "gfx90a")
    here = _HERE + below
    command = _nvcc(build, here) if vendor == "cuda" else _hipcc(build, here)
    return _TEXT.format(
        arch=_quoted(arch), variable="NVCC" if vendor == "cuda" else "HIPCC",
        compiler="nvcc" if vendor == "cuda" else "hipcc",
        hints=_HINTS[vendor],
        suffix="cubin" if vendor == "cuda" else "hsaco", command=" ".join(command),
        depends=" ".join(_quoted(below + stored.path) for stored in files), name=name, image=image,
        target=f"rebuilt_{image[:-1]}" if image else "rebuilt", folder=f"{below}source/",
    ), ""  # fmt: skip


def _recipe(launch: Reproducer) -> tuple[SourceBuild | None, set[tuple[str, str]]]:
    source = launch.manifest.source
    if source is None:
        return None, set()
    return source.build, {(stored.path, stored.sha256) for stored in (source.file, *source.originals)}


def _check(reproducer: Reproducer, source: Source, build: SourceBuild) -> None:
    listed = {stored.path for stored in (source.file, *source.originals)}
    folders = [each.stored for each in build.include_dirs if each.stored is not None]
    for path in (*listed, *folders):
        if not is_plain_path(path):
            raise UsageError(f"{reproducer.path}: a compiler can't be given a file called {one_line(path)}")
    for option in build.options:
        word, _, value = option.partition("=")
        if not is_accepted(build.tool, option) or (word == "-include" and value not in listed):
            raise UsageError(f"{reproducer.path}: the recipe's option {one_line(option)} is not allowed")


def _nvcc(build: SourceBuild, here: str) -> list[str]:
    words = ["${NVCC}", "-cubin", "-arch=${ARCH}", *_options(build, here)]
    if build.directory is None:  # nobody wrote down how: these change no code, they allow more
        words += [word for word in _WITHOUT_RECORD if word not in build.options]
    words += [
        f"{'-isystem=' if form == 'system' else '-I'}{_quoted(here + path)}" for form, path in _folders(build)
    ]
    if not build.unit.endswith(".cu"):
        words += ["-x", "cu"]
    return [*words, _quoted(here + build.unit), "-o", "${REBUILT}"]


def _hipcc(build: SourceBuild, here: str) -> list[str]:
    words = ["${CMAKE_COMMAND}", "-E", "env", "HIP_PLATFORM=amd", "${HIPCC}", "--cuda-device-only"]
    words += ["--no-gpu-bundle-output", "--offload-arch=${ARCH}", "-isystem", "${HIP_INCLUDE_DIR}"]
    words += ["${HIP_FLAGS}", *_options(build, here)]
    for form, path in _folders(build):
        words += [{"quote": "-iquote", "system": "-isystem"}.get(form, "-I"), _quoted(here + path)]
    return [*words, "-x", "hip", "-c", _quoted(here + build.unit), "-o", "${REBUILT}"]


def _folders(build: SourceBuild) -> list[tuple[str, str]]:
    return [(each.form, each.stored) for each in build.include_dirs if each.stored is not None]


def _options(build: SourceBuild, here: str) -> list[str]:
    words = []
    for option in build.options:
        word, equals, value = option.partition("=")
        if word == "-include" and equals:
            words += ["-include", _quoted(here + value)]
        elif word == "-mllvm" and equals:  # one word in a recipe, two for clang
            words += [word, _quoted(value)]
        else:
            words.append(_quoted(option))
    return words


def _quoted(text: str) -> str:
    """An argument of CMake; the project's own folder in front of it stays a variable."""
    head = _HERE if text.startswith(_HERE) else ""
    tail = text[len(head) :]
    for mark in ("\\", '"', "$", ";"):
        tail = tail.replace(mark, f"\\{mark}")
    return f'"{head}{tail}"'
