"""The languages that kernels are written in, one file each: their names, parameters and sources.

A new one is a file here and a line in `_BUILT_IN`, or a class that another package names as an entry point
of the group `kerncap.languages`. Only `load_installed` imports those, and only `capture` and `list` call it:
opening a stranger's reproducer asks no language for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import TypeVar

from kerncap import log
from kerncap.capture.languages import ptx
from kerncap.capture.languages.cuda_hip import CudaHip
from kerncap.capture.languages.cute_dsl import CuteDsl
from kerncap.capture.languages.cutile import CuTile
from kerncap.capture.languages.language import Language, Parameter
from kerncap.capture.languages.numba import Numba
from kerncap.capture.languages.python_dsl import PythonDsl
from kerncap.capture.languages.runtime_program import RuntimeProgram
from kerncap.capture.languages.tilelang import TileLang
from kerncap.capture.languages.triton import Triton
from kerncap.capture.languages.vendor_libraries import VendorLibraries
from kerncap.capture.languages.warp import Warp
from kerncap.capture.source.wanted_source import FoundFile, FoundSource, SourceRequest
from kerncap.format import kernel_names
from kerncap.format.kernel_names import KernelName

__all__ = [
    "GROUP", "FoundFile", "FoundSource", "Language", "Parameter", "SourceRequest", "find", "is_known",
    "load_installed", "parameters", "parse_name",
]  # fmt: skip

Answer = TypeVar("Answer")
GROUP = "kerncap.languages"
# The first that knows a kernel answers for it; the last takes every kernel.
_BUILT_IN: tuple[Language, ...] = (
    Triton(),
    RuntimeProgram(),
    Numba(),
    CuTile(),
    CuteDsl(),
    Warp(),
    TileLang(),
    PythonDsl(),
    VendorLibraries(),
    CudaHip(),
)
_installed: dict[str, Language] = {}


def load_installed() -> None:
    """Import the languages that other packages bring; one that is broken is named and left out."""
    for each in entry_points(group=GROUP):
        if each.name not in _installed:
            try:
                language = each.load()()
                if not isinstance(language, Language):
                    raise TypeError("it is not a kerncap.capture.languages.Language")
                _installed[each.name] = language
            except Exception as error:  # another package's code
                log.line(log.one_line(f"language {each.name} ({each.value}): {error}; it is left out"))


def parse_name(mangled: str, demangled: str = "") -> KernelName:
    """The parts of a kernel's name, as its language says them."""
    found = _first(lambda language: language.parse_name(mangled, demangled))
    return found if found is not None else kernel_names.parse(mangled, demangled)


def parameters(
    mangled: str, demangled: str, declared: Sequence[Parameter] = ()
) -> Sequence[Parameter] | None:
    """Names and C++ types of the parameters; None if the kernel's name does not say (``extern "C"``).

    ``declared`` is how the kernel's source has them.
    """
    found = _first(lambda language: language.parameters(mangled, demangled, declared))
    if found is not None:
        return found
    types = kernel_names.parse(mangled, demangled).parameters
    if types is None:  # a C name: only the source says them
        return declared or None
    return [(None, each) for each in types if each not in ("void", "")]


def find(request: SourceRequest) -> FoundSource:
    """The source of a kernel; ``missing`` says in one line why it was not found. Only reads files."""
    found = _first(lambda language: language.find(request))
    assert found is not None  # the last language has an answer for every kernel
    return found if found.file is not None else ptx.instead_of(found, request)


def is_known(request: SourceRequest, image: Callable[[], bytes | None] | None = None) -> bool:
    """Whether `find` would find the source proper. Follows no header, reads no image unasked."""
    return bool(_first(lambda language: language.is_known(request, image)))


def _first(ask: Callable[[Language], Answer | None]) -> Answer | None:
    """The answer of the first language that has one. An installed one that fails is not asked again."""
    for name, language in list(_installed.items()):
        try:
            found = ask(language)
        except Exception as error:  # another package's code
            _installed.pop(name, None)
            log.line(log.one_line(f"language {name}: {type(error).__name__}: {error}; it is left out"))
            continue
        if found is not None:
            return found
    return next((found for language in _BUILT_IN if (found := ask(language)) is not None), None)
