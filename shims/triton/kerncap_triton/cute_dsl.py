"""What CuTe DSL compiles its kernels from: one file of the session for each kernel, as it is traced.

Its kernels' names and images don't say which Python functions made them and with which values. The file has
the kernel's function and parameters, and the host function with its arguments, which a later compilation is
called with: types as MLIR writes them, and the values that were compiled in.

Source: nvidia-cutlass-dsl 4.8, base_dsl/dsl.py: `generate_original_ir` traces a host function, whether a
cache has its code or not, and `generate_kernel_operands_and_types` is called for each kernel on the way.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import json
import os
import sys
import threading
import types
from typing import Any, Dict, List, Optional

FOLDER = "cute-dsl"
_MAX_DEPTH = 8
_MAX_ITEMS = 4096
_PLAIN = (type(None), bool, int, float, str)


class _Traced(threading.local):
    def __init__(self) -> None:
        self.kernels: List[Dict[str, Any]] = []


def patch(session_path: str, module: Any) -> None:
    """Called once, right after the target imported ``cutlass.base_dsl.dsl``."""
    folder = os.path.join(os.path.dirname(os.path.abspath(session_path)), FOLDER)
    dsl = module.BaseDSL
    traced = _Traced()
    of_kernel, of_host = dsl.generate_kernel_operands_and_types, dsl.generate_original_ir

    @functools.wraps(of_kernel)
    def generate_kernel_operands_and_types(self: Any, *given: Any, **more: Any) -> Any:
        found = of_kernel(self, *given, **more)
        try:
            function, name, signature, values, named = given
            kernel = {"kernel": name, "function": _place(function)}
            kernel["parameters"] = _parameters(signature, values, named, found[1])
            traced.kernels.append(kernel)
        except Exception:
            pass  # another version of it: such a kernel has no file
        return found

    @functools.wraps(of_host)
    def generate_original_ir(self: Any, *given: Any, **more: Any) -> Any:
        outer, traced.kernels = traced.kernels, []
        try:
            host = _host(self, module, given)  # first: tracing may change the arguments
        except Exception:
            host = None
        try:
            found = of_host(self, *given, **more)
            if host is not None and traced.kernels:
                try:
                    _write(folder, traced.kernels, host)
                except Exception:
                    pass
            return found
        finally:
            traced.kernels = outer

    dsl.generate_kernel_operands_and_types = _as_part_of(module, generate_kernel_operands_and_types)
    dsl.generate_original_ir = _as_part_of(module, generate_original_ir)


def _as_part_of(module: Any, function: Any) -> Any:
    """The function with frames that look like the module's own: CuTe DSL takes the innermost frame that is
    not its own for the program's, in errors and line tables."""
    code = function.__code__.replace(co_filename=module.__file__)
    names = {**function.__globals__, "__name__": module.__name__}
    made = types.FunctionType(code, names, function.__name__, None, function.__closure__)
    return functools.update_wrapper(made, function.__wrapped__)


def _place(function: Any) -> Dict[str, Any]:
    """Where a function is defined; a decorated one's code may be a rewritten copy."""
    plain = inspect.unwrap(function)
    found = {"file": plain.__code__.co_filename, "name": plain.__qualname__, "module": plain.__module__}
    at = getattr(plain, "_decorator_location", None)
    file = getattr(at, "filename", None)
    found["file"] = os.path.abspath(file if isinstance(file, str) else found["file"])
    return found


def _parameters(signature: Any, values: Any, named: Any, types: Any) -> List[List[str]]:
    """Name and MLIR type of what the driver gets, if each value is one parameter; else the types only."""
    names = [*[name for name, _ in zip(signature.parameters, values)], *named]
    dynamic = []
    for name, value in zip(names, [*values, *named.values()]):
        number = type(signature.parameters[name].annotation).__name__ == "NumericMeta"
        # Asked for only: to get a value would put operations into the program's code.
        if number or any(
            hasattr(type(value), each) for each in ("ir_value", "type", "__extract_mlir_values__")
        ):
            dynamic.append(name)
    texts = [str(each) for each in types]
    if len(dynamic) != len(texts):
        dynamic = ["arg%d" % number for number in range(len(texts))]
    return [[name, text] for name, text in zip(dynamic, texts)]


def _host(dsl: Any, module: Any, given: Any) -> Dict[str, Any]:
    _, _, function, _, _, _, values, named, signature = given[:9]
    positional = [
        name for name, each in signature.parameters.items() if each.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    arguments = [[name, _described(value, module, 0)] for name, value in zip(positional, values)]
    arguments += [[name, _described(value, module, 0)] for name, value in named.items()]
    version = getattr(sys.modules.get("cutlass"), "__version__", "")
    options = {}
    for option, value in getattr(dsl.compile_options, "options", {}).items():
        name = getattr(option, "__name__", "")
        if name in ("OptLevel", "PtxasOptions", "EnableAssertions"):
            options[name] = value.value
    arch = getattr(dsl.compile_options, "gpu_arch", "") or dsl.envar.arch
    return {
        "host": _place(function), "arguments": arguments, "options": options, "arch": str(arch),
        "version": str(version),
    }  # fmt: skip


def _described(value: Any, module: Any, depth: int) -> Dict[str, Any]:
    """A value so that another process can pass one that compiles to the same."""
    if depth > _MAX_DEPTH:
        return {"unknown": "nested too deeply"}
    if type(value) in _PLAIN:
        return {"value": value.hex(), "kind": "float"} if type(value) is float else {"value": value}
    if isinstance(value, enum.Enum):
        return {"global": type(value).__module__, "name": "%s.%s" % (type(value).__qualname__, value.name)}
    if type(value) in (tuple, list) and len(value) <= _MAX_ITEMS:
        items = [_described(each, module, depth + 1) for each in value]
        return {"items": items, "kind": type(value).__name__}
    if type(value) is dict and len(value) <= _MAX_ITEMS and all(type(each) is str for each in value):
        return {"entries": {name: _described(each, module, depth + 1) for name, each in value.items()}}
    if inspect.isclass(value) or inspect.isfunction(value):
        return {"global": value.__module__, "name": value.__qualname__}
    return _object(value, module, depth)


def _object(value: Any, module: Any, depth: int) -> Dict[str, Any]:
    kind = type(value)
    if kind.__name__ == "CUstream" or kind.__name__ == "Stream":
        return {"stream": True}
    try:
        adapter = module.JitArgAdapterRegistry.get_registered_adapter(value)
        adapted = adapter(value) if adapter else value
        types: Optional[List[str]] = [str(each) for each in module.get_mlir_types(adapted)]
    except Exception:
        adapted, types = value, None
    name = type(adapted).__name__
    if types:
        dtype = getattr(adapted, "dtype", None) or getattr(adapted, "element_type", None)
        if len(types) == 1 and "memref" in types[0] and inspect.isclass(dtype):
            return {"tensor": types[0], "dtype": dtype.__name__}
        if len(types) == 1 and "!cute.ptr" in types[0] and inspect.isclass(dtype):
            return {"pointer": types[0], "dtype": dtype.__name__}
        if name in ("Boolean",) or (
            len(types) == 1 and isinstance(getattr(adapted, "value", None), (int, float))
        ):
            return {"number": name, "value": _described(adapted.value, module, depth + 1)}
        return {"unknown": "%s (%s)" % (name, ", ".join(types))}
    if kind.__module__ != "builtins" and isinstance(getattr(value, "__dict__", None), dict):
        state = {each: _described(one, module, depth + 1) for each, one in vars(value).items()}
        return {"object": kind.__module__, "name": kind.__qualname__, "state": state}
    return {"unknown": kind.__name__}


def _write(folder: str, kernels: List[Dict[str, Any]], host: Dict[str, Any]) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for kernel in kernels:
        name = hashlib.sha256(kernel["kernel"].encode()).hexdigest()[:32]
        unfinished = os.path.join(folder, "%s.%d.%d" % (name, os.getpid(), threading.get_ident()))
        with open(unfinished, "w", encoding="utf-8") as file:
            json.dump({**kernel, **host}, file)
        os.replace(unfinished, os.path.join(folder, name + ".json"))
