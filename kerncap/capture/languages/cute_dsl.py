"""CuTe DSL's `@cute.kernel`: the hook wrote down which functions, and which call, were compiled to it.

Source: nvidia-cutlass-dsl 4.8: base_dsl/dsl.py, mangle_name (`kernel_cutlass_<function>_<arguments>_<n>`,
cut after 180 characters); cute/typing.py (a tensor is its address and what of its layout is dynamic).
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kerncap import env
from kerncap.capture.languages import python_function
from kerncap.capture.languages.language import Language, Parameter
from kerncap.capture.source import python_source
from kerncap.capture.source.native.unit import read_source
from kerncap.capture.source.python_source import PythonFunction
from kerncap.capture.source.wanted_source import FoundFile, FoundSource, SourceRequest
from kerncap.format.kernel_names import KernelName

FOLDER = "cute-dsl"  # of a session; `kerncap_triton.cute_dsl` writes it
CALL = "call.json"
_MAX_BYTES = 4 << 20
_NAME = re.compile(r"kernel_cutlass_(\w+?)(?:_(\d+))?\Z")
# Where the arguments begin in a name: how CuTe writes tensors, atoms, objects and constants.
_ARGUMENTS = re.compile(
    r"_(?:tensorptr|ptr[fiu]?\d|Tiled(?:Copy|MMA|Mma)|(?:Copy|Mma)_?Atom|Layout_|None|True|False|\d|"
    r"((?:__main__)?[A-Za-z0-9]+)_object_at_)"
)
_MEMREF = re.compile(r"!cute\.memref<(\w+), (\w+)(?:, align<\d+>)?, \"?(.*?)\"?>\Z")
_POINTER = re.compile(r"!cute\.ptr<(\w+)[,>]")
_TYPES = {
    "i1": "bool", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long long",
    "u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long long",
    "f16": "__half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double", "f8E4M3FN": "__nv_fp8_e4m3",
    "f8E5M2": "__nv_fp8_e5m2", "ui8": "unsigned char", "ui32": "unsigned int", "si32": "int",
}  # fmt: skip


class _Place(msgspec.Struct):
    file: str
    name: str
    module: str


class _Call(msgspec.Struct):
    kernel: str
    function: _Place
    host: _Place
    parameters: list[tuple[str, str]]
    arguments: list[tuple[str, dict[str, Any]]]
    arch: str = ""


class CuteDsl(Language):
    name = "cute-dsl"

    def parse_name(self, mangled: str, demangled: str) -> KernelName | None:
        found = _NAME.match(mangled)
        if found is None:
            return None
        arguments = _ARGUMENTS.search(found[1])
        base = found[1][: arguments.start()] if arguments is not None and arguments.start() else found[1]
        base = base.rstrip("_") or base  # a number is an argument without a text
        owner = arguments[1].removeprefix("__main__") if arguments is not None and arguments[1] else ""
        readable = f"{base}({_readable(found[1][len(base) :])})"
        return KernelName(base, readable=f"{owner}.{readable}" if owner else readable)

    def parameters(
        self, mangled: str, demangled: str, declared: Sequence[Parameter] = ()
    ) -> Sequence[Parameter] | None:
        return declared or None if _NAME.match(mangled) else None

    def find(self, request: SourceRequest) -> FoundSource | None:
        call, data = _read(request)
        if call is None:
            return None
        request = dataclasses.replace(request, arch=call.arch or request.arch)
        path = os.path.normpath(call.function.file)
        text = _text(path)
        kernel = python_source.function(text, call.function.name.split(".")) if text is not None else None
        if text is None or kernel is None:
            reason = f"{path} has no {call.function.name} any more"
            return FoundSource(entry=call.function.name.rpartition(".")[2], missing=reason)
        host = python_source.function(text, call.host.name.split("."))
        why = _why_not(call, host)
        found = python_function.source(request, kernel, path, "cute-dsl", why, host, _own_names(call))
        declared = tuple(map(_parameter, call.parameters))
        if found.build is None:
            return dataclasses.replace(found, parameters=declared)
        stored = env.hide_home(data.decode()).encode()
        return dataclasses.replace(
            found,
            files=(*found.files, FoundFile(CALL, "the call that CuTe DSL compiled", stored)),
            parameters=declared,
        )

    def is_known(self, request: SourceRequest, image: Callable[[], bytes | None] | None) -> bool | None:
        return True if _file(request) is not None else None


def _file(request: SourceRequest) -> Path | None:
    """The hook's file on this kernel."""
    if request.session is None:
        return None
    name = hashlib.sha256(request.mangled.encode()).hexdigest()[:32]
    path = request.session / FOLDER / f"{name}.json"
    return path if path.is_file() else None


def _read(request: SourceRequest) -> tuple[_Call | None, bytes]:
    path = _file(request)
    if path is None:
        return None, b""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            return None, b""
        call = msgspec.json.decode(data, type=_Call)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, b""
    return (call, data) if call.kernel == request.mangled else (None, b"")


def _why_not(call: _Call, host: PythonFunction | None) -> str:
    """Why the kernel can't be compiled again; empty if it can."""
    if call.host.file != call.function.file or host is None:
        return f"{call.host.name}, which launches it, is in another file"
    for name, described in call.arguments:
        if "unknown" in described:
            return f"{name} of {call.host.name} is {described['unknown']}, which kerncap can't pass again"
    return ""


def _own_names(call: _Call) -> set[str]:
    """What the call's arguments name of the module that the host function is in."""
    found: set[str] = set()
    left: list[Any] = [described for _, described in call.arguments]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if call.host.module in (each.get("global"), each.get("object")):
                found.add(str(each.get("name")).partition(".")[0])
            left += each.values()
        elif isinstance(each, list):
            left += each
    return found


def _parameter(each: tuple[str, str]) -> Parameter:
    name, type_ = each
    memref, pointer = _MEMREF.match(type_), _POINTER.match(type_)
    if memref is not None:
        element = _TYPES.get(memref[1], "void")
        # By value if some of its layout is: the address comes first.
        return name, f"cute::Tensor<{element}>" if "?" in memref[3] else f"{element}*"
    if pointer is not None:
        return name, f"{_TYPES.get(pointer[1], 'void')}*"
    return name, _TYPES.get(type_)


def _readable(arguments: str) -> str:
    """The tensors of a name: `tensorptrf32gmemalign16o1` as `f32*`; the rest only tells kernels apart."""
    found = re.findall(r"tensorptr(f8E\w\dM\dFN|bf16|[fiu]\d+)", arguments)
    return ", ".join(f"{each}*" for each in found) or ("…" if arguments else "")


def _text(path: str) -> str | None:
    data = read_source(path)
    return None if data is None else data.decode("utf-8", "replace")
