"""launch.h of a project: the launches as data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from kerncap.api.export.memory_blocks import Pointer, Targets
from kerncap.api.export.project_code import Module
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest, ZeroRange
from kerncap.log import one_line
from kerncap.replay.memory_names import view_name
from kerncap.replay.ranges.joined_memory import SharedMemory, moved

# Attributes that mean something without the rest of the application: cooperative, cluster, its scheduling,
# memory synchronization domains, preferred cluster, shared memory carveout, use of NVLink, portable sizes of
# clusters, of shared memory. Source: CUlaunchAttributeID.
_KEPT_ATTRIBUTES = (2, 4, 5, 9, 10, 11, 14, 16, 17, 18)
_COOPERATIVE, _CLUSTER = 2, 4
_TYPES = {"float32": "f", "float64": "d", "float16": "h", "bfloat16": "b"}


def launch_header(
    launches: Sequence[Reproducer], vendor: str, shared: SharedMemory, modules: Sequence[Module],
    words: Sequence[Pointer], left_out: Collection[int],
) -> str:  # fmt: skip
    """The text of launch.h; ``words`` are those of memory that point to variables; the regions ``left_out``
    need not be set."""
    modules_of = {launch: module for module in modules for launch in module.launches}
    rows, lines = [], []
    for number, (launch, places) in enumerate(zip(launches, shared.places, strict=True)):
        manifest = moved(launch.manifest, places, 0)
        lines += _parameters(number, _data(manifest, vendor))
        rows.append(_launch(number, manifest, vendor, shared, modules_of[number]))
    images = [_braces(map(quoted, module.files(len(modules)))) for module in modules]
    return "\n".join([
        "// The launches, as they were captured; main.cpp says what is done with them.",
        "#pragma once",
        "",
        "// Each module's code: the first that loads here.",
        *_vector("std::vector<const char*>", "IMAGES", images),
        "",
        *_vector("Region", "REGIONS", _regions(launches, shared, modules, left_out)),
        *(_vector("Zeros", "ZEROS", _zeros(shared.zeros)) if vendor == "cuda" else []),
        *_vector("Word", "WORDS", [_word(word) for word in words]),
        "",
        "// What the kernels were passed, byte by byte, with the captured addresses.",
        *lines,
        "",
        *_vector("Launch", "LAUNCHES", rows),
        "",
    ])  # fmt: skip


def _launch(number: int, manifest: Manifest, vendor: str, shared: SharedMemory, module: Module) -> str:
    launch = manifest.launch
    assert launch.block is not None and launch.parameters is not None
    data = _data(manifest, vendor)
    items: Iterable[int] = ()
    if vendor == "hip":  # the last groups may be partial
        grid = [n * b for n, b in zip(launch.grid, launch.block, strict=True)]
        items = launch.dispatch.work_items if launch.dispatch else grid
    attributes = _attributes(manifest) if vendor == "cuda" else []
    targets = Targets(shared.regions, module.variables.values())
    words = targets.pointers(np.frombuffer(data, np.uint8), -1, 0)
    compared = "false" if manifest.oracle.kind in ("fault", "timeout") else "true"
    return "\n     ".join([
        f"{{{quoted(one_line(manifest.kernel.name))}, {quoted(_symbol(manifest))}, {module.number},",
        f"{_braces(launch.grid)}, {_braces(launch.block)}, {_braces(items)}, {launch.shared_bytes or 0},",
        f"{_braces(f'{{{kind}, {_braces(value)}}}' for kind, value in attributes)},",
        f"PARAMETERS_{number}, {len(data)}, {_braces(map(_braces, launch.parameters.layout or ()))},",
        f"{_braces(map(_word, words))},",
        f"{_braces(_views(manifest))},",
        f"{compared}}}",
    ])  # fmt: skip


def _data(manifest: Manifest, vendor: str) -> bytes:
    parameters = manifest.launch.parameters
    assert parameters is not None
    data = bytes.fromhex(parameters.bytes)
    if vendor == "hip" and parameters.layout is not None:  # what follows is made again for every launch
        return data[: max((offset + size for offset, size in parameters.layout), default=0)]
    return data


def _parameters(number: int, data: bytes) -> list[str]:
    shown = data or b"\0"
    rows = [", ".join(f"0x{byte:02x}" for byte in shown[i : i + 14]) for i in range(0, len(shown), 14)]
    return [f"alignas(128) uint8_t PARAMETERS_{number}[] = {{", *(f"    {row}," for row in rows), "};"]


def _word(word: Pointer) -> str:
    return _braces((word.region, word.offset, word.target, word.target_offset))


def _zeros(zeros: Sequence[ZeroRange]) -> list[str]:
    """Those that lie one after the other are one."""
    merged: list[list[int]] = []
    for zero in zeros:
        if merged and merged[-1][0] + merged[-1][1] == zero.base:
            merged[-1][1] += zero.size
        else:
            merged.append([zero.base, zero.size])
    return [f"{{{base:#x}, {size}}}" for base, size in merged]


def quoted(text: str) -> str:
    """A string literal of C++."""
    shown = []
    for byte in text.encode("utf-8", "replace"):
        plain = 32 <= byte < 127 and byte not in b'"\\?'
        shown.append(chr(byte) if plain else f"\\{byte:03o}")
    return '"' + "".join(shown) + '"'


def _symbol(manifest: Manifest) -> str:
    return (manifest.kernel.mangled or manifest.kernel.name).removesuffix(".kd")


def _braces(values: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


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


def _regions(
    launches: Sequence[Reproducer], shared: SharedMemory, modules: Sequence[Module], left_out: Collection[int]
) -> list[str]:
    owners = {region: module.number for module in modules for region in module.variables.values()}
    names: dict[int, list[str]] = {}
    for launch, places in zip(launches, shared.places, strict=True):
        for view in launch.manifest.views:
            if view.name:
                names.setdefault(places[view.region].region, []).append(one_line(view.name, 64))
    rows = []
    for index, region in enumerate(shared.regions):
        kind = "Host" if region.kind == "host" else "Device"
        if region.kind == "global" and not region.module and index not in left_out:
            kind = "Variable"
        called = ", ".join(list(dict.fromkeys(names.get(index, [])))[:4])
        name = region.name if kind == "Variable" and region.name else called or one_line(region.reason, 64)
        size = 0 if index in left_out else region.size
        shown = quoted(name or f"region {index}")
        rows.append(f"{{{shown}, {region.base:#x}, {size}, Kind::{kind}, {owners.get(index, 0)}}}")
    return rows


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
