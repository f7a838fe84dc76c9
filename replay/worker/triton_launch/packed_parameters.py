"""Parameters of a compiled Triton kernel, packed as its launcher packs them.

The compiled signature says what is left of each argument: constexprs vanish, tuples are flattened, a tensor
descriptor becomes a TMA map, or a pointer with shape and strides. Scratch pointers follow, which no
signature names.
Source: triton/backends/nvidia/driver.py of Triton 3.6 and 3.9.
"""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..common.failures import Refused

_INTEGERS = {
    "i1": "<b", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q",
    "u1": "<B", "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q",
}  # fmt: skip


def pack(kind: str, value: Any, name: str) -> bytes:
    """The bytes of one parameter of a compiled type ("*fp32", "i32", "bf16", …)."""
    if kind.startswith("*"):
        address = 0 if value is None else value if isinstance(value, int) else value.data_ptr()
        return struct.pack("<Q", address)
    if kind in _INTEGERS:
        layout = _INTEGERS[kind]
        bits = struct.calcsize(layout) * 8
        number = int(value) & ((1 << bits) - 1)
        return number.to_bytes(bits // 8, "little")
    if kind == "fp64":
        return struct.pack("<d", float(value))
    if kind in ("fp32", "f32", "fp16", "bf16"):
        with np.errstate(over="ignore"):
            if kind == "fp16":
                return bytes(np.float16(value).tobytes())
            single = bytes(np.float32(value).tobytes())
        return single[2:] if kind == "bf16" else single  # bf16 is cut off, not rounded
    raise Refused(f"argument {name} is compiled as {kind}, which the binary engine can't pass")


def guess(value: dict[str, Any], role: str) -> str:
    """The compiled type of an argument whose signature was not captured."""
    if role == "constexpr" or value["kind"] in ("none", "str", "dtype", "function"):
        return "constexpr"
    if value["kind"] in ("tensor", "pointer"):
        return "*u8"
    if value["kind"] == "bool":
        return "i1"
    if value["kind"] == "float":
        return "fp32"
    if value["kind"] == "int":
        number = int(value["value"])
        if number == 1:
            return "constexpr"  # Triton specialises on it
        return "i32" if -(2**31) <= number < 2**31 else "i64" if number < 2**63 else "u64"
    raise Refused(f"an argument of kind {value['kind']} has no captured signature")


def flatten(
    signature: Any, value: Any, name: str, descriptor: Callable[[str, Any, str], list[bytes]]
) -> Iterator[bytes]:
    """Packed parameters of one argument; ``descriptor`` packs a tensor descriptor."""
    if isinstance(signature, str) and signature.startswith(("(", "[")):
        signature = ast.literal_eval(signature)
    if isinstance(signature, tuple | list):
        for i, (inner, item) in enumerate(zip(signature, value, strict=True)):
            yield from flatten(inner, item, f"{name}[{i}]", descriptor)
    elif signature == "constexpr":
        return
    elif signature.startswith("tensordesc"):
        yield from descriptor(signature, value, name)
    else:
        yield pack(signature, value, name)


def expand_descriptor(arg: Any, with_rounding: bool) -> list[bytes]:
    """A descriptor that was compiled to plain pointers: base, shape, strides, padding, shape, strides."""
    wide = [pack("i64", n, "") for n in (*arg.shape, *arg.strides)]
    flags = [pack("i1", arg.padding == "nan", "")]
    if with_rounding:  # Triton 3.7 and later
        flags.append(pack("i1", bool(getattr(arg, "round_f32_to_tf32", False)), ""))
    return [pack("*", arg.base, ""), *wide, *flags, *tail(arg)]


def tail(arg: Any) -> list[bytes]:
    """Shape and strides that follow every descriptor."""
    return [*(pack("i32", n, "") for n in arg.shape), *(pack("i64", n, "") for n in arg.strides)]


def rank(signature: str) -> int:
    """The number of dimensions of a descriptor type such as ``tensordesc<fp16[64, 64]>``."""
    match = re.match(r"tensordesc(?:_im2col)?<[^\[>]*\[([^\]]*)\]", signature)
    if match is None:
        raise Refused(f"the tensor descriptor type {signature} is not known")
    return match.group(1).count(",") + 1
