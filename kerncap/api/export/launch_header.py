"""launch.h of a project: the launch as data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kerncap.api.export.memory_blocks import Pointer
from kerncap.format.schema import Manifest, Region
from kerncap.log import one_line
from kerncap.replay.memory_names import view_name

# Attributes that mean something without the rest of the application: cooperative, cluster, its scheduling,
# memory synchronization domains, preferred cluster, shared memory carveout, use of NVLink, portable sizes of
# clusters, of shared memory. Source: CUlaunchAttributeID.
_KEPT_ATTRIBUTES = (2, 4, 5, 9, 10, 11, 14, 16, 17, 18)
_COOPERATIVE, _CLUSTER = 2, 4
_TYPES = {"float32": "f", "float64": "d", "float16": "h", "bfloat16": "b"}


def launch_header(
    manifest: Manifest, vendor: str, images: Sequence[str], words: Sequence[Pointer], poisoned: int,
    left_out: Collection[int],
) -> str:  # fmt: skip
    """The text of launch.h; ``words`` point to variables, the regions ``left_out`` need not be set."""
    launch = manifest.launch
    assert launch.parameters is not None and launch.block is not None
    data = bytes.fromhex(launch.parameters.bytes)
    layout = launch.parameters.layout
    if vendor == "hip" and layout is not None:  # what follows is the runtime's, made again for every launch
        data = data[: max((offset + size for offset, size in layout), default=0)]
    lines = [
        "// The launch, as it was captured; main.cpp says what is done with it.",
        "#pragma once",
        "",
        f"constexpr char NAME[] = {quoted(one_line(manifest.kernel.name))};",
        f"constexpr char KERNEL[] = {quoted(_symbol(manifest))};",
        "// Its code: the first that loads here.",
        f"const std::vector<const char*> IMAGES = {{{', '.join(map(quoted, images))}}};",
        "",
        f"constexpr unsigned GRID[3] = {_braces(launch.grid)};",
        f"constexpr unsigned BLOCK[3] = {_braces(launch.block)};",
    ]
    if vendor == "hip":
        dispatch = launch.dispatch
        items = (
            dispatch.work_items
            if dispatch
            else [n * b for n, b in zip(launch.grid, launch.block, strict=True)]
        )
        lines.append(
            f"constexpr unsigned WORK_ITEMS[3] = {_braces(items)};  // the last groups may be partial"
        )
    lines.append(f"constexpr unsigned SHARED_BYTES = {launch.shared_bytes or 0};  // dynamic")
    if vendor == "cuda":
        rows = [f"{{{kind}, {_braces(value)}}}" for kind, value in _attributes(manifest)]
        lines += _vector("Attribute", "ATTRIBUTES", rows)
    lines += ["", "// What the kernel was passed, byte by byte, with the captured addresses."]
    lines += [f"constexpr size_t PARAMETER_BYTES = {len(data)};", "alignas(128) uint8_t PARAMETERS[] = {"]
    shown = data or b"\0"
    lines += [
        "    " + ", ".join(f"0x{byte:02x}" for byte in shown[i : i + 14]) + ","
        for i in range(0, len(shown), 14)
    ]
    lines += ["};"]
    lines += _vector("Parameter", "LAYOUT", [_braces(pair) for pair in layout or ()])
    lines += ["", *_vector("Region", "REGIONS", _regions(manifest, left_out))]
    if vendor == "cuda":
        lines += _vector("Zeros", "ZEROS", [f"{{{z.base:#x}, {z.size}}}" for z in manifest.zeros])
    lines += _vector("View", "VIEWS", _views(manifest))
    lines += _vector(
        "Word", "WORDS", [f"{{{w.region}, {w.offset}, {w.target}, {w.target_offset}}}" for w in words]
    )
    compared = "false" if manifest.oracle.kind in ("fault", "timeout") else "true"
    lines += ["", f"constexpr bool COMPARE = {compared};  // whether the application had a result"]
    lines += [f"constexpr uint64_t POISONED = {poisoned};  // bytes that are written and not read"]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A string literal of C++."""
    shown = []
    for byte in text.encode("utf-8", "replace"):
        plain = 32 <= byte < 127 and byte not in b'"\\?'
        shown.append(chr(byte) if plain else f"\\{byte:03o}")
    return '"' + "".join(shown) + '"'


def _symbol(manifest: Manifest) -> str:
    return (manifest.kernel.mangled or manifest.kernel.name).removesuffix(".kd")


def _braces(numbers: Iterable[int]) -> str:
    return "{" + ", ".join(map(str, numbers)) + "}"


def _vector(kind: str, name: str, rows: Sequence[str]) -> list[str]:
    if not rows:
        return [f"const std::vector<{kind}> {name};"]
    return [f"const std::vector<{kind}> {name} = {{", *(f"    {row}," for row in rows), "};"]


def _attributes(manifest: Manifest) -> list[tuple[int, list[int]]]:
    launch = manifest.launch
    found: dict[int, list[int]] = {}
    for attribute in launch.attributes:
        if attribute.id in _KEPT_ATTRIBUTES:
            data = bytes.fromhex(attribute.value)
            found[attribute.id] = [int.from_bytes(data[i : i + 4], "little") for i in range(0, 64, 4)]
    if launch.cooperative:
        found.setdefault(_COOPERATIVE, [1])
    if launch.cluster is not None and any(launch.cluster):
        found.setdefault(_CLUSTER, list(launch.cluster))
    return [(kind, _without_zeros(value)) for kind, value in sorted(found.items())]


def _without_zeros(value: list[int]) -> list[int]:
    while len(value) > 1 and not value[-1]:
        value = value[:-1]
    return value


def _regions(manifest: Manifest, left_out: Collection[int]) -> list[str]:
    rows = []
    for index, region in enumerate(manifest.regions):
        kind = "Host" if region.kind == "host" else "Device"
        if region.kind == "global" and not region.module and index not in left_out:
            kind = "Variable"
        name = region.name if kind == "Variable" and region.name else _called(manifest, index, region)
        size = 0 if index in left_out else region.size
        rows.append(f"{{{quoted(name)}, {region.base:#x}, {size}, Kind::{kind}}}")
    return rows


def _called(manifest: Manifest, index: int, region: Region) -> str:
    names = [one_line(view.name, 64) for view in manifest.views if view.region == index and view.name]
    return ", ".join(dict.fromkeys(names[:4])) or one_line(region.reason, 64) or f"region {index}"


def _views(manifest: Manifest) -> list[str]:
    """Those of floats that lie one after the other: what else there is has to agree byte by byte."""
    rows = []
    for number, view in enumerate(manifest.views):
        kind = _TYPES.get(view.dtype)
        count = 1
        for extent in view.shape:
            count *= extent
        dense = not view.shape or (len(view.shape) == 1 and view.strides[0] == 1) or count == 0
        if len(view.shape) > 1:
            expected = 1
            dense = True
            for extent, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
                dense, expected = dense and (stride == expected or extent == 1), expected * extent
        if kind and dense and count:
            name = quoted(one_line(view_name(manifest, number), 64))
            rows.append(f"{{{name}, {view.region}, {view.offset}, {count}, '{kind}'}}")
    return rows
