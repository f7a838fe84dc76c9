"""NVIDIA Warp: the CUDA C++ that it generated and keeps in its kernel cache, and the Python function.

Source: warp 1.19: context.py (names `<key>_<8 hex>_cuda_kernel_forward`, folders `wp_<module>_<7 hex>`),
build.py (the cache's place), native/warp.cu (NVRTC's options; the fast_math and fuse_fp of a module are in
none of its files).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from kerncap.capture.languages import generated_cuda
from kerncap.capture.languages.generated_cuda import Recipe
from kerncap.capture.languages.language import Language, Parameter
from kerncap.capture.source import python_files, python_source
from kerncap.capture.source.lines import named_originals
from kerncap.capture.source.native.unit import read_source
from kerncap.capture.source.python_source import PythonFunction
from kerncap.capture.source.wanted_source import FoundFile, FoundSource, SourceRequest
from kerncap.format.kernel_names import KernelName

_NAME = re.compile(r"(\w+?)(?:_[0-9a-f]{8})?_cuda_kernel_(forward|backward)\Z")
_FOLDER = re.compile(r"wp_(.+?)(?:_[0-9a-f]{7})?\Z")
_LINE = re.compile(r"^\s*// def .*<L (\d+)>\s*$", re.MULTILINE)
_OPTIONS = (
    "--std=c++17", "-DNDEBUG", "-UWP_VERIFY_FP", "-DWP_ENABLE_MATHDX=0", "--fmad=true",
    "--device-as-default-execution-space", "--extra-device-vectorization",
)  # fmt: skip
_RECIPE = Recipe("nvrtc", _OPTIONS, (os.path.join("warp", "native"),))
_PATTERNS = ("wp_*/*.cu", "*/wp_*/*.cu")
_TYPES = {
    "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
    "int32": "int", "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long",
    "float16": "__half", "float32": "float", "float64": "double",
}  # fmt: skip


class Warp(Language):
    name = "warp"

    def parse_name(self, mangled: str, demangled: str) -> KernelName | None:
        found = _NAME.match(mangled)
        if found is None:
            return None
        return KernelName(found[1] if found[2] == "forward" else f"{found[1]}_backward")

    def parameters(
        self, mangled: str, demangled: str, declared: Sequence[Parameter] = ()
    ) -> Sequence[Parameter] | None:
        if _NAME.match(mangled) is None or not declared:
            return None
        return [
            (name.removeprefix("var_") if name else None, _plain(type_ or "")) for name, type_ in declared
        ]

    def find(self, request: SourceRequest) -> FoundSource | None:
        name = _NAME.match(request.mangled)
        if name is None or request.mapped_from is not None:
            return None
        chosen = os.environ.get("WARP_CACHE_PATH")
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        bases = (*request.source_dirs, Path(chosen) if chosen else Path(cache, "warp"))
        found = generated_cuda.newest_with(request.mangled, bases, _PATTERNS)
        if found is None:
            reason = "the .cu that Warp generated is not in its kernel cache: give the cache as --source-dir"
            return FoundSource(entry=request.mangled, missing=reason)
        note = "a rebuild takes Warp's default options: it records neither fast_math nor fuse_fp"
        return generated_cuda.source(request, *found, _RECIPE, (note,), _written(request, name[1], *found))

    def is_known(self, request: SourceRequest, image: Callable[[], bytes | None] | None) -> bool | None:
        return True if _NAME.match(request.mangled) and request.mapped_from is None else None


def _written(request: SourceRequest, key: str, path: str, text: str) -> tuple[str, int, FoundFile] | None:
    found = _python(request, key, path, text)
    if found is None:
        return None
    file, function = found
    ((name, data),) = named_originals({file: function.text}).items()
    return file, function.line, FoundFile(f"python/{name}", file, data)


def _python(request: SourceRequest, key: str, path: str, text: str) -> tuple[str, PythonFunction] | None:
    """The kernel's Python function: its module is in the folder's name, its line in the generated code."""
    folder = _FOLDER.match(os.path.basename(os.path.dirname(path)))
    line = _LINE.search(text, text.find(f"{request.mangled}("))
    if folder is None or line is None:
        return None
    module = folder[1].split(".")
    for file in python_files.candidates(request, module):
        is_it = module[0] == python_files.MAIN or Path(file).stem in (module[-1], "__init__")
        found = read_source(file) if is_it else None
        if found is not None:
            function = python_source.function(found.decode("utf-8", "replace"), (), [int(line[1])])
            if function is not None and function.node.name == key.rpartition("__")[2]:
                return file, function
    return None


def _plain(type_: str) -> str:
    """Warp's own names for C++'s types, an array's as that of its elements."""
    return re.sub(r"\bwp::(\w+)", lambda found: _TYPES.get(found[1], found[0]), type_)
