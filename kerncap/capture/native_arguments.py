"""The arguments of a native launch: the parameter buffer, read with the types of the kernel's C++ name.

The buffer itself goes into the manifest byte by byte and is what a replay passes; these are for people,
and for comparing memory by element instead of by byte.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from kerncap.capture import languages
from kerncap.capture.payloads import LaunchRecord
from kerncap.format import schema

# C++ type -> dtype of a View and bytes of an element.
_DTYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "__half": ("float16", 2),
    "half": ("float16", 2),
    "c10::Half": ("float16", 2),
    "__nv_bfloat16": ("bfloat16", 2),
    "c10::BFloat16": ("bfloat16", 2),
    "__nv_fp8_e4m3": ("float8_e4m3fn", 1),
    "c10::Float8_e4m3fn": ("float8_e4m3fn", 1),
    "__nv_fp8_e5m2": ("float8_e5m2", 1),
    "c10::Float8_e5m2": ("float8_e5m2", 1),
    "_Float16": ("float16", 2),
    "hip_bfloat16": ("bfloat16", 2),
    "__hip_bfloat16": ("bfloat16", 2),
    "__bf16": ("bfloat16", 2),
    "__hip_fp8_e4m3": ("float8_e4m3fn", 1),
    "__hip_fp8_e5m2": ("float8_e5m2", 1),
    "bool": ("bool", 1),
    "char": ("int8", 1),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "short": ("int16", 2),
    "unsigned short": ("uint16", 2),
    "int": ("int32", 4),
    "unsigned int": ("uint32", 4),
    "unsigned": ("uint32", 4),
    "long": ("int64", 8),
    "unsigned long": ("uint64", 8),
    "long long": ("int64", 8),
    "unsigned long long": ("uint64", 8),
}
_QUALIFIER = re.compile(r"\b(?:const|volatile|__restrict__|__restrict)\b")
_VECTOR = re.compile(r"HIP_vector_type<([\w ]+), ([1-4])u>")
# Arrays of Warp and tensors of CuTe, by value: the data's address comes first. Source: warp/native/array.h.
_ARRAY = re.compile(r"(?:wp::array_t|cute::Tensor)<([\w: ]+)>")
_FLOAT_FORMATS = {"float32": "<f", "float64": "<d", "float16": "<e"}
MAX_REPR_BYTES = 4096


def describe(
    launch: LaunchRecord,
    hints: Sequence[languages.Parameter] = (),
    declared: Sequence[languages.Parameter] = (),
) -> tuple[tuple[schema.Argument, ...], tuple[schema.View, ...]]:
    """One argument per parameter of the layout, in order, and a view for each typed pointer into a region.

    ``hints`` is what the image itself says of the parameters; what the kernel's name says comes first.
    ``declared`` is how its source has them.
    Without a layout there is nothing to tell apart: none.
    """
    if launch.parameters is None or launch.parameters.layout is None:
        return (), ()
    data = bytes.fromhex(launch.parameters.bytes)
    layout = launch.parameters.layout
    kernel = launch.kernel
    unknown: list[languages.Parameter] = [(None, None)] * len(layout)
    named = languages.parameters(kernel.mangled or kernel.name, kernel.qualified_name, declared) or ()
    first = named if len(named) == len(layout) else unknown
    second = hints if len(hints) == len(layout) else unknown
    arguments: list[schema.Argument] = []
    views: list[schema.View] = []
    for number, (offset, size) in enumerate(layout):
        name = first[number][0] or second[number][0] or f"arg{number}"
        type_ = first[number][1] or second[number][1]
        value = _value(name, type_, data[offset : offset + size], launch.regions, views)
        signature = type_ if type_ is not None else f"b{8 * size}"
        arguments.append(schema.Argument(name=name, role="runtime", value=value, signature=signature[:4096]))
    return tuple(arguments), tuple(views)


def passed_as(type_: str) -> str:
    """A parameter's C++ type as "*" for memory, or a number's dtype; "" if it is not known."""
    plain = " ".join(_QUALIFIER.sub(" ", type_).split())
    return "*" if plain.endswith("*") else _DTYPES.get(plain, ("", 0))[0]


def _value(
    name: str, type_: str | None, raw: bytes, regions: Sequence[schema.Region], views: list[schema.View]
) -> schema.Value:
    bits = int.from_bytes(raw, "little")
    if type_ is None:
        return _untyped(raw, bits, regions)
    plain = " ".join(_QUALIFIER.sub(" ", type_).split())
    if plain.endswith(("*", "&")) and len(raw) == 8:
        return _pointer(name, plain[:-1].strip(), bits, regions, views)
    array = _ARRAY.fullmatch(plain)
    if array is not None and len(raw) >= 8:
        return _pointer(name, array[1], int.from_bytes(raw[:8], "little"), regions, views)
    vector = _VECTOR.fullmatch(plain)
    if vector is not None:
        return _vector(name, type_, vector[1], int(vector[2]), raw)
    dtype, size = _DTYPES.get(plain, ("", 0))
    if size != len(raw) or not dtype:
        return _opaque(type_, raw)
    if dtype == "bool":
        return schema.BoolValue(value=bits != 0)
    if dtype in _FLOAT_FORMATS:
        return schema.FloatValue(value=struct.unpack(_FLOAT_FORMATS[dtype], raw)[0].hex())
    if dtype == "bfloat16":
        return schema.FloatValue(value=struct.unpack("<f", b"\0\0" + raw)[0].hex())
    if "int" not in dtype:
        return _opaque(type_, raw)
    return schema.IntValue(value=str(int.from_bytes(raw, "little", signed=not dtype.startswith("u"))))


def _vector(name: str, type_: str, element: str, count: int, raw: bytes) -> schema.Value:
    """HIP's float2 and the like, by value."""
    size = _DTYPES.get(element, ("", 0))[1]
    if not size or len(raw) < size * count:
        return _opaque(type_, raw)
    items = [_value(name, element, raw[size * each : size * (each + 1)], (), []) for each in range(count)]
    return schema.SequenceValue(items=tuple(items), type="tuple")


def _untyped(raw: bytes, bits: int, regions: Sequence[schema.Region]) -> schema.Value:
    if len(raw) == 8 and _region_of(bits, regions) is not None:
        return schema.PointerValue(address=bits, dtype="unknown")
    if len(raw) in (1, 2, 4, 8):
        return schema.IntValue(value=str(bits))  # the bits: a float would look so too
    return _opaque("unknown", raw)


def _pointer(
    name: str, element: str, address: int, regions: Sequence[schema.Region], views: list[schema.View]
) -> schema.Value:
    vector = _VECTOR.fullmatch(element)  # a view of its elements
    dtype, itemsize = _DTYPES.get(vector[1] if vector is not None else element, ("", 0))
    number = _region_of(address, regions)
    if number is None or not dtype:
        if address >= 1 << 63:
            return schema.IntValue(value=str(address))  # no address of a device
        return schema.PointerValue(address=address, dtype=dtype or element[:4096] or "void")
    region = regions[number]
    offset = address - region.base
    views.append(
        schema.View(
            region=number,
            offset=offset,
            dtype=dtype,
            itemsize=itemsize,
            shape=((region.size - offset) // itemsize,),
            strides=(1,),
            name=name,
        )
    )
    return schema.TensorValue(view=len(views) - 1)


def _region_of(address: int, regions: Sequence[schema.Region]) -> int | None:
    for number, region in enumerate(regions):
        if region.base <= address < region.base + region.size:
            return number
    return None


def _opaque(type_name: str, raw: bytes) -> schema.OpaqueValue:
    shown = raw[:MAX_REPR_BYTES].hex() + ("…" if len(raw) > MAX_REPR_BYTES else "")
    return schema.OpaqueValue(type_name=type_name[:4096], repr=f"{len(raw)} bytes: {shown}")
