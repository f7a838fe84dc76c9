"""What an object of the target is: a jit function, something that a replay can import, a plain value.

Runs in the target, under the rules of `source_graph`.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any, Optional

LIBRARIES = ("triton", "torch", "numpy")  # what a replay has anyway; all else is inlined
JIT_OPTIONS = ("version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline")
MAX_WRAPPERS = 16
MAX_STRING = 1 << 20
_STDLIB = os.path.dirname(os.path.abspath(os.__file__))


def jit_kind(obj: Any) -> str | None:
    """``jit``, ``gluon``, ``constexpr_function``, or None for anything else."""
    for base in type(obj).__mro__:
        if base.__module__.partition(".")[0] == "triton":
            if base.__name__ == "GluonJITFunction":
                return "gluon"
            if base.__name__ in ("JITFunction", "InterpretedFunction"):
                return "jit"
            if base.__name__ == "ConstexprFunction":
                return "constexpr_function"
    return None


def unwrap(fn: Any) -> Any:
    """The jit function inside autotuners, heuristics and Inductor's wrappers."""
    for _ in range(MAX_WRAPPERS):
        inner = getattr(fn, "fn", None)
        if jit_kind(fn) or inner is None:
            return fn
        fn = inner
    return fn


def raw_function(obj: Any) -> types.FunctionType | None:
    """The Python function inside a jit function, a cache wrapper or `functools.wraps`."""
    for _ in range(MAX_WRAPPERS):
        if isinstance(obj, types.FunctionType):
            inner = obj.__dict__.get("__wrapped__")
            if inner is None:
                return obj
            obj = inner
        elif isinstance(obj, types.MethodType):
            obj = obj.__func__
        else:
            obj = getattr(obj, "fn", None) or getattr(obj, "__wrapped__", None)
    return None


def is_library(module: Any) -> bool:
    """Whether a replay can import this module: triton, torch, numpy, the standard library."""
    name = getattr(module, "__name__", "") or ""
    if sys.modules.get(name) is not module:
        return False
    root = name.partition(".")[0]
    path: Optional[str] = getattr(module, "__file__", None)
    if root in LIBRARIES:
        # Inductor files its generated kernels under torch's name: where the file lies decides
        package = os.path.dirname(getattr(sys.modules.get(root), "__file__", None) or "")
        return bool(package) and (path is None or path.startswith(package + os.sep))
    if root not in getattr(sys, "stdlib_module_names", ()) or root == "__main__":
        return False
    inside = path is not None and os.path.abspath(path).startswith(_STDLIB + os.sep)
    return path is None or (inside and "site-packages" not in path and "dist-packages" not in path)


def import_of(obj: Any, name: str) -> list[str] | None:
    """[module, attribute] from which a replay gets the very same object, or None."""
    raw = obj if isinstance(obj, (type, types.BuiltinFunctionType)) else (raw_function(obj) or obj)
    last = name.rpartition(".")[2]
    own = (
        getattr(raw, "__module__", None),
        getattr(raw, "__qualname__", None) or getattr(raw, "__name__", None),
    )
    places = [own, (own[0], last)]
    if isinstance(own[0], str) and own[0].partition(".")[0] == "triton":
        places += [("triton.language", last), ("triton.language", own[1])]
    for place, attribute in places:
        module = sys.modules.get(place) if isinstance(place, str) else None
        if module is None or not is_library(module) or not isinstance(attribute, str) or "." in attribute:
            continue
        found = vars(module).get(attribute)
        patched = getattr(found, "__kwdefaults__", None) or {}  # the interpreter's, around the original
        if found is obj or patched.get("member") is obj:
            return [str(place), attribute]
    return None


def is_triton(obj: Any, name: str, module: str) -> bool:
    return type(obj).__name__ == name and type(obj).__module__ == module


def opaque(obj: Any) -> dict[str, Any]:
    try:
        text = repr(obj)[:200]
    except Exception:
        text = "?"
    return {"opaque": text, "type": "%s.%s" % (type(obj).__module__, type(obj).__qualname__)}


def plain_value(obj: Any) -> dict[str, Any] | None:
    """The encoded Value of a scalar, a string, a dtype; None for all else."""
    kind = type(obj)
    if obj is None:
        return {"kind": "none"}
    if kind is bool:
        return {"kind": "bool", "value": obj}
    if kind is int and abs(obj) < 10**40:
        return {"kind": "int", "value": str(obj)}
    if kind is float:
        return {"kind": "float", "value": obj.hex()}
    if kind is str and len(obj) <= MAX_STRING:
        return {"kind": "str", "value": obj}
    if kind.__module__ == "numpy" and hasattr(obj, "item") and getattr(obj, "shape", None) == ():
        return plain_value(obj.item())
    if kind.__module__ == "torch" and kind.__name__ == "dtype":
        return {"kind": "dtype", "name": str(obj).rpartition(".")[2], "library": "torch"}
    if is_triton(obj, "dtype", "triton.language.core"):
        for name, value in vars(sys.modules["triton.language"]).items():
            if type(value) is kind and value.name == obj.name:
                return {"kind": "dtype", "name": name, "library": "triton"}
    return None


def jit_options(obj: Any) -> str:
    """The arguments of `@triton.jit` that a literal can say; repr and launch_metadata name things only."""
    options = getattr(obj, "kwargs", None)
    parts = []
    for name in JIT_OPTIONS:
        value = options.get(name) if isinstance(options, dict) else getattr(obj, name, None)
        if value is not None and value != [] and value is not False:
            if isinstance(value, (list, tuple)):
                value = [each for each in value if isinstance(each, (int, str))]
            if isinstance(value, (bool, int, str, list)):
                parts.append("%s=%r" % (name, value))
    return ", ".join(parts)
