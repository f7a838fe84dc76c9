"""Encodes arguments as `Value` of kerncap/format/schema.py: tagged JSON objects."""

from __future__ import annotations

import collections
import sys
from typing import Any, Callable, Dict, Iterator, Optional

from . import tma

JsonObject = Dict[str, Any]
AddView = Callable[[str, Any], int]  # (name, tensor) -> index of its view

MAX_ITEMS = 4096
MAX_TEXT = 1 << 20
_INT_DIGITS = 40
_FUNCTIONS = ("JITFunction", "InterpretedFunction", "GluonJITFunction", "ConstexprFunction")


def encode(value: Any, name: str = "", add_view: Optional[AddView] = None, depth: int = 0) -> JsonObject:
    """One argument, constant or option. Tensors need ``add_view``; without it they are opaque."""
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        return encode(value.value, name, add_view, depth)
    if value is None:
        return {"kind": "none"}
    if isinstance(value, bool):  # before int: a bool is one
        return {"kind": "bool", "value": bool(value)}
    if isinstance(value, int):
        text = str(int(value))
        return opaque(value) if len(text.lstrip("-")) > _INT_DIGITS else {"kind": "int", "value": text}
    if isinstance(value, float):
        return {"kind": "float", "value": float(value).hex()}
    if isinstance(value, str):
        return (
            {"kind": "str", "value": clean(str.__str__(value))} if len(value) <= MAX_TEXT else opaque(value)
        )
    dtype = dtype_value(value)
    if dtype is not None:
        return dtype
    if isinstance(value, (tuple, list)):
        return _sequence(value, name, add_view, depth)
    return _object(value, name, add_view)


def dtype_value(value: Any) -> Optional[JsonObject]:
    kind = type(value)
    if kind.__name__ != "dtype":
        return None
    if kind.__module__ == "torch":
        return {"kind": "dtype", "name": dtype_name(value), "library": "torch"}
    if kind.__module__.startswith("triton."):
        return {"kind": "dtype", "name": str(value.name), "library": "triton"}
    return None


def dtype_name(dtype: Any) -> str:
    """``float32`` for torch.float32, Triton's own name (``fp32``) for one of Triton's."""
    return str(dtype).replace("torch.", "", 1)


def _sequence(value: Any, name: str, add_view: Optional[AddView], depth: int) -> JsonObject:
    if len(value) > MAX_ITEMS or depth > 16:
        return opaque(value)
    fields = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
    if fields is not None and not _are_fields(type(value).__name__, fields, len(value)):
        return opaque(value)  # a class that calls itself a named tuple; a replay could not make one
    items = [encode(item, f"{name}[{i}]", add_view, depth + 1) for i, item in enumerate(value)]
    if fields is not None:
        return {
            "kind": "sequence",
            "items": items,
            "type": "namedtuple",
            "type_name": type(value).__name__,
            "fields": list(fields),
        }
    return {"kind": "sequence", "items": items, "type": "list" if isinstance(value, list) else "tuple"}


def _are_fields(type_name: str, fields: Any, length: int) -> bool:
    """Whether `collections.namedtuple` takes these names; ``_0`` stands for one that it does not."""
    try:
        made = collections.namedtuple(type_name, list(fields), rename=True)  # type: ignore[misc]
    except (TypeError, ValueError):
        return False
    return made._fields == tuple(fields) and len(fields) == length


def functions(value: Any, depth: int = 0) -> Iterator[Any]:
    """The jit functions in a value, in the order in which ``encode`` makes function values of them."""
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        yield from functions(value.value, depth)
    elif isinstance(value, (tuple, list)):
        if len(value) <= MAX_ITEMS and depth <= 16:
            for item in value:
                yield from functions(item, depth + 1)
    elif _is_function(value):
        yield value


def _is_function(value: Any) -> bool:
    return type(value).__name__ in _FUNCTIONS and hasattr(value, "fn")


def _object(value: Any, name: str, add_view: Optional[AddView]) -> JsonObject:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if add_view is None:
            return opaque(value)
        return {"kind": "tensor", "view": add_view(name, value)}
    kind = type(value)
    if kind.__name__ == "TensorWrapper" and add_view is not None and hasattr(value, "base"):
        return {
            "kind": "tensor",
            "view": add_view(name, value.base),
            "wrapped_dtype": dtype_name(value.dtype),
        }
    if tma.is_descriptor(value) and add_view is not None:
        return tma.encode(value, add_view(name, value.base))
    if _is_function(value):
        return {"kind": "function", "name": getattr(value, "__name__", None) or value.fn.__name__}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        item = value.item()
        return opaque(value) if isinstance(item, numpy.generic) else encode(item, name)
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return {"kind": "pointer", "address": int(value.data_ptr()), "dtype": dtype_name(value.dtype)}
    return opaque(value)


def opaque(value: Any) -> JsonObject:
    """A value that the format can't hold: its type and a bounded repr."""
    try:
        text = f"<{type(value).__name__}>" if _is_tensor(value) else repr(value)
    except Exception as error:
        text = f"<repr raised {type(error).__name__}>"
    kind = type(value)
    return {
        "kind": "opaque",
        "type_name": f"{kind.__module__}.{kind.__qualname__}",
        "repr": clean(text[:2000]),
    }


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)  # its repr would compute


def clean(text: str) -> str:
    """Text that is surely UTF-8: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
