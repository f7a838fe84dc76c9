"""One compilation of a Python kernel by its own compiler, in a separate process: a `Request` on stdin, a
`Reply` on stdout, one line each; with ``versions`` as argument, which compilers there are.

Run as a file by the Python that has the compiler; imports nothing of kerncap. The module's own code runs
here.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import traceback
import types as python_types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PACKAGES = {
    "numba": ("numba-cuda", "numba"),
    "numba-cuda-mlir": ("numba-cuda-mlir",),
    "cutile": ("cuda-tile",),
    "cute-dsl": ("nvidia-cutlass-dsl",),
    "hiprtc": ("hip-python",),
}


@dataclass(frozen=True)
class Request:
    """``kernel`` is the captured name, ``arch`` as in "sm_90a"; PTX or a cubin is written to ``out``.

    ``types`` are those of a Numba kernel's arguments: a name, ["array", dtype, ndim, layout, mutable,
    aligned], ["tuple", …]. ``call`` is the file with the call that CuTe DSL compiled: the hook's record.
    """

    language: str
    module: str
    entry: str
    kernel: str
    arch: str
    out: str
    types: list[Any]
    call: str = ""


@dataclass(frozen=True)
class Reply:
    """``error`` is empty if it compiled, ``kernel`` then the name in the image. ``line``: of the error."""

    available: bool
    error: str = ""
    log: str = ""
    line: int | None = None
    kernel: str = ""


class _Missing(Exception):
    """The compiler can't be imported."""


def main() -> None:
    if sys.argv[1:] == ["versions"]:
        print(json.dumps({language: version(language) for language in PACKAGES}))
        return
    request = Request(**json.load(sys.stdin))
    reply = os.dup(1)
    os.dup2(2, 1)  # what the module prints must not come into the reply
    os.write(reply, json.dumps(vars(answer(request))).encode())


def version(language: str) -> str:
    """Of the language's compiler; empty if there is none. Imports nothing of it."""
    found = (each for name in PACKAGES[language] for each in importlib.metadata.distributions(name=name))
    return next((each.version for each in found), "")


def answer(request: Request) -> Reply:
    entry: list[Any] = []

    def load() -> Any:
        entry.append(_entry(request))
        return entry[0]

    try:
        kernel = _COMPILERS[request.language](request, load)
    except _Missing as error:
        return Reply(False, str(error))
    except Exception as error:
        what = f"{type(error).__name__}: {_first_line(str(error))}"[:2000]
        line = _line(error, request.module)
        function = next((getattr(each, "py_func", None) for each in entry), None)
        if line is None and function is not None:  # Numba often does not say: the kernel's own, then
            line = function.__code__.co_firstlineno
        return Reply(True, what, traceback.format_exc(), line)
    return Reply(True, kernel=kernel)


def _numba(request: Request, load: Callable[[], Any]) -> str:
    try:
        from numba import cuda, types
        from numba.cuda import dispatcher
    except Exception as error:
        raise _Missing(f"numba.cuda can't be imported: {error}") from error
    number = re.match(r"sm_(\d+)(\d)", request.arch)
    assert number is not None
    capability = (int(number[1]), int(number[2]))
    # Device functions are compiled for the current device, of which a compiler has no need.
    device = python_types.SimpleNamespace(compute_capability=capability)
    dispatcher.get_current_device = lambda: device
    entry = load()
    options = dict(getattr(entry, "targetoptions", {}))
    kept = {name: options[name] for name in _NUMBA_OPTIONS if options.get(name) is not None}
    given = tuple(_numba_type(each, types) for each in request.types)
    ptx, _ = cuda.compile(
        getattr(entry, "py_func", entry), given, device=False, abi="numba", cc=capability, **kept
    )
    if not isinstance(ptx, str):
        ptx = ptx.decode()
    ptx = ptx.rstrip("\0")
    with open(request.out, "w", encoding="utf-8") as file:
        file.write(ptx)
    found = re.search(r"\.entry\s+([\w$]+)", ptx)
    return found[1] if found is not None else ""


_NUMBA_OPTIONS = ("debug", "lineinfo", "fastmath", "opt", "launch_bounds")


def _numba_type(given: Any, types: Any) -> Any:
    if isinstance(given, str):
        return getattr(types, given)
    kind, *rest = given
    if kind == "tuple":
        return types.Tuple(tuple(_numba_type(each, types) for each in rest))
    dtype, ndim, layout, mutable, aligned = rest
    return types.Array(_numba_type(dtype, types), ndim, layout, readonly=not mutable, aligned=aligned)


def _numba_mlir(request: Request, load: Callable[[], Any]) -> str:
    """Linked to a cubin, as it does it itself: its PTX may be newer than the driver."""
    cuda, tools = _imported("numba_cuda_mlir.cuda"), _imported("numba_cuda_mlir.tools")
    number = re.match(r"sm_(\d+)(\d)", request.arch)
    assert number is not None
    tools._cached_cc = (int(number[1]), int(number[2]))  # of the current device, of which there is no need
    entry = load()
    types = tuple(_numba_type(each, _imported("numba_cuda_mlir.types")) for each in request.types)
    options = dict(getattr(entry, "targetoptions", {}))
    kept = {name: options[name] for name in _NUMBA_OPTIONS if options.get(name) is not None}
    cubin = cuda.compile_cubin(getattr(entry, "py_func", entry), types, **kept)
    with open(request.out, "wb") as file:
        file.write(bytes(cubin))
    return request.kernel


def _cutile(request: Request, load: Callable[[], Any]) -> str:
    """The captured name says all of the signature, and is the name of the new kernel."""
    compilation = _imported("cuda.tile.compilation")
    _, signature = compilation.demangle_kernel_name(request.kernel)
    compilation.export_kernel(
        load(), [signature], request.out, gpu_code=request.arch.rstrip("af"), output_format="cubin"
    )
    return request.kernel


def _cute_dsl(request: Request, load: Callable[[], Any]) -> str:
    """Compiles the host function, as it is that which says how its kernels are specialised."""
    folder = os.path.join(os.path.dirname(request.out), "dump")
    os.mkdir(folder)
    os.environ.update(CUTE_DSL_ARCH=request.arch, CUTE_DSL_KEEP="cubin", CUTE_DSL_DUMP_DIR=folder)
    cute = _imported("cutlass.cute")
    with open(request.call, encoding="utf-8") as file:
        call = json.load(file)
    host = load()
    name = call["host"]["module"]
    for each in vars(sys.modules[_MODULE]).values():
        if isinstance(each, type) and each.__module__ == _MODULE:
            each.__module__ = name  # a kernel's name has that of its class
    values = [_cute_value(described, name) for _, described in call["arguments"]]
    named = {"OptLevel": "--opt-level {}", "PtxasOptions": "--ptxas-options '{}'"}
    given = call["options"]
    options = [form.format(given[option]) for option, form in named.items() if given.get(option)]
    cubin = cute.compile(host, *values, options=" ".join(options)).__cubin__
    if not isinstance(cubin, bytes):
        raise ValueError("CuTe DSL gave no cubin")
    with open(request.out, "wb") as made:
        made.write(cubin)
    return request.kernel


def _cute_value(described: dict[str, Any], own: str) -> Any:
    """What `kerncap_triton.cute_dsl` described; ``own`` is the name that the candidate's module had."""
    match described:
        case {"kind": "float", "value": text}:
            return float.fromhex(text)
        case {"number": kind, "value": value}:
            return getattr(importlib.import_module("cutlass"), kind)(_cute_value(value, own))
        case {"value": value}:
            return value
        case {"items": items, "kind": kind}:
            found = [_cute_value(each, own) for each in items]
            return tuple(found) if kind == "tuple" else found
        case {"entries": entries}:
            return {name: _cute_value(each, own) for name, each in entries.items()}
        case {"global": module, "name": name}:
            return _attribute(module, name, own)
        case {"object": module, "name": name, "state": state}:
            kind = _attribute(module, name, own)
            made = kind.__new__(kind)
            known = {each: value for each, value in state.items() if "unknown" not in value}
            vars(made).update({each: _cute_value(value, own) for each, value in known.items()})
            return made
        case {"stream": True}:
            return importlib.import_module("cuda.bindings.driver").CUstream(0)
        case {"tensor": text, "dtype": dtype}:
            return _cute_tensor(text, dtype)
        case {"pointer": text, "dtype": dtype}:
            cute, runtime = (
                importlib.import_module("cutlass.cute"),
                importlib.import_module("cutlass.cute.runtime"),
            )
            space, align = re.search(r"(gmem|smem|generic)", text), re.search(r"align<(\d+)>", text)
            return runtime.make_ptr(
                getattr(importlib.import_module("cutlass"), dtype), 1 << 20,
                getattr(cute.AddressSpace, space[1] if space is not None else "generic"),
                assumed_align=int(align[1]) if align is not None else None,
            )  # fmt: skip
    raise ValueError(
        f"an argument is {described.get('unknown', 'of an unknown kind')}, which has no description"
    )


def _cute_tensor(text: str, dtype: str) -> Any:
    """A tensor without memory, of an MLIR type."""
    ir: Any = importlib.import_module("cutlass._mlir.ir")
    runtime: Any = importlib.import_module("cutlass.cute.runtime")

    class Described(runtime._FakeTensor):  # type: ignore[misc]
        element_type = getattr(importlib.import_module("cutlass"), dtype)

        def __init__(self) -> None:
            pass

        def __get_mlir_types__(self) -> list[Any]:
            return [ir.Type.parse(text)]

        def __str__(self) -> str:
            return text

    return Described()


def _attribute(module: str, name: str, own: str) -> Any:
    found: Any = sys.modules[_MODULE] if module == own else importlib.import_module(module)
    for each in name.split("."):
        found = getattr(found, each)
    return found


_MODULE = "_kerncap_candidate"
_COMPILERS: dict[str, Callable[[Request, Callable[[], Any]], str]] = {
    "numba": _numba,
    "numba-cuda-mlir": _numba_mlir,
    "cutile": _cutile,
    "cute-dsl": _cute_dsl,
}


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise _Missing(f"{name} can't be imported: {error}") from error


def _entry(request: Request) -> Any:
    spec = importlib.util.spec_from_file_location(_MODULE, request.module)
    assert spec is not None and spec.loader is not None
    found: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    sys.dont_write_bytecode = True
    spec.loader.exec_module(found)
    for name in request.entry.split("."):
        found = getattr(found, name)
    return found


def _first_line(text: str) -> str:
    """What is wrong, without the terminal's colours and without the step of Numba's that says it."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in ")), lines[0] if lines else "")


def _line(error: BaseException, module: str) -> int | None:
    """The line of the module that the error is about: the compiler's own place, the parser's, or the
    innermost frame's."""
    for place, name in (
        (error, "lineno"),
        (getattr(error, "loc", None), "line"),
    ):  # a SyntaxError's, cuTile's
        if getattr(place, "filename", None) == module and isinstance(getattr(place, name, None), int):
            return int(getattr(place, name))
    base = os.path.basename(module)
    said = re.findall(rf'(?:"(?:[^"]*/)?{re.escape(base)}", line |/{re.escape(base)}:)(\d+)', str(error))
    if said:
        return int(said[-1])
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == module), None)


if __name__ == "__main__":
    main()
