"""Textures and surfaces of a manifest: how an array's bytes are placed in its region, and what must fit.

Formats, flags and structures are those of the driver.
Source: cuda.h (CUarray_format, CUDA_ARRAY3D_DESCRIPTOR, CUDA_TEXTURE_DESC).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kerncap.format import schema

LAYERED, CUBEMAP = 1, 4
# CU_AD_FORMAT_*: bytes of a channel. Compressed blocks and several planes have none.
_CHANNEL_BYTES = {
    **dict.fromkeys((0x01, 0x08), 1),
    **dict.fromkeys((0x02, 0x09, 0x10), 2),
    **dict.fromkeys((0x03, 0x0A, 0x20), 4),
    **dict.fromkeys((*range(0xC0, 0xC3), *range(0xC6, 0xC9)), 1),
    **dict.fromkeys((*range(0xC3, 0xC6), *range(0xC9, 0xCC)), 2),
}
_FORMATS = {
    0x01: "uint8", 0x02: "uint16", 0x03: "uint32", 0x08: "int8", 0x09: "int16", 0x0A: "int32",
    0x10: "float16", 0x20: "float32",
}  # fmt: skip
_ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
_FLAGS = {0x01: "as integers", 0x02: "normalized coordinates", 0x10: "sRGB"}


def array_bytes(array: schema.Array) -> int | None:
    """Bytes of all levels of an array; None for a format that has no bytes of its own for each element."""
    channel = _CHANNEL_BYTES.get(array.format)
    if channel is None:
        return None
    return sum(x * max(1, y) * max(1, z) for x, y, z in extents(array)) * array.channels * channel


def extents(array: schema.Array) -> Iterator[tuple[int, int, int]]:
    """Width, height and depth of each level, in elements. The layers of an array are in all of its levels."""
    for level in range(array.levels):
        x, y, z = (size and max(1, size >> level) for size in (array.width, array.height, array.depth))
        yield x, y, array.depth if array.flags & (LAYERED | CUBEMAP) else z


def region_problem(region: schema.Region) -> str | None:
    """Why a region and what it says of an array don't fit together."""
    if (region.kind == "array") != (region.array is not None):
        return "only a region of the kind array has an array"
    if region.array is None:
        return None
    size = array_bytes(region.array)
    if size is None:
        return f"an array of format {region.array.format} can't be held"
    return f"an array of {size} bytes in a region of {region.size}" if size != region.size else None


def texture_problem(texture: schema.Texture, regions: tuple[schema.Region, ...]) -> tuple[str, str] | None:
    """The key of a texture that doesn't fit, and why."""
    if (texture.kind == "texture") != (texture.sampler is not None):
        return "sampler", "every texture has a sampler, and no surface has one"
    if texture.resource in ("array", "mipmap"):
        if texture.region is None or texture.region >= len(regions):
            return "region", f"region {texture.region} of only {len(regions)}"
        array = regions[texture.region].array
        if array is None:
            return "region", f"region {texture.region} is not an array"
        if texture.level >= array.levels:
            return "level", f"level {texture.level} of only {array.levels}"
        return None
    if texture.kind == "surface":
        return "resource", "a surface is on an array"
    size = texture.width if texture.resource == "linear" else texture.pitch * texture.height
    end = texture.address + size
    if not any(r.kind != "array" and r.base <= texture.address and end <= r.base + r.size for r in regions):
        return "address", f"{size} bytes at {texture.address:#x} are in no region"
    return None


def format_text(format_: int, channels: int) -> str:
    """``float32x4``"""
    return f"{_FORMATS.get(format_, f'format {format_:#x}')}x{channels}"


def array_text(array: schema.Array) -> str:
    """``64x64 float32x1, 3 levels``"""
    sizes = [size for size in (array.width, array.height, array.depth) if size]
    kind = "cubemap " if array.flags & CUBEMAP else "layered " if array.flags & LAYERED else ""
    levels = f", {array.levels} levels" if array.levels > 1 else ""
    return f"{kind}{'x'.join(map(str, sizes))} {format_text(array.format, array.channels)}{levels}"


def sampler_text(sampler: str) -> str:
    """``clamp, linear, normalized coordinates``: the first words of a CUDA_TEXTURE_DESC."""
    first, second, third, filter_, flags = struct.unpack_from("<4iI", bytes.fromhex(sampler))
    modes = [_ADDRESS_MODES[mode] if 0 <= mode < 4 else str(mode) for mode in (first, second, third)]
    words = ["/".join(dict.fromkeys(modes)), "linear" if filter_ else "point"]
    return ", ".join([*words, *(text for bit, text in _FLAGS.items() if flags & bit)])
