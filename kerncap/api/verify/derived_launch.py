"""Launches derived from a captured one: the same values elsewhere, in another layout, or with another source.

A derived launch is a reproducer like any other, in a temporary folder: each tensor's storage is a region of
its own, between guards, and its oracle is the captured one moved along.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kerncap.errors import KerncapError
from kerncap.format import Reproducer, ReproducerWriter, schema
from kerncap.replay import trust
from kerncap.replay.write_set_units import extent

GUARD_BYTES = 4096
_ALIGNMENT = 256  # of addresses: what a kernel was specialised on stays true
_BASE = 0x6200_0000_0000  # far from where Linux puts programs, heaps and libraries
_SPACING = 64 * 1024 * 1024  # more than the granule in which a device's addresses can be chosen
MOST_BYTES = 512 * 1024 * 1024
STRIDE_NAME = re.compile(r"stride|pitch|(^|_)ld[a-z]?($|_)|^s_?[a-z]{1,2}[0-9]?$", re.IGNORECASE)


class NotDerivable(KerncapError):
    """The launch can't be derived; the message says why."""


@dataclass(frozen=True)
class Block:
    """Bytes [start, stop) of a region that move together, with the views in them."""

    region: int
    start: int
    stop: int
    views: tuple[int, ...]


@dataclass
class Layout:
    """Where a derived launch has its tensors: strides by view, and a shift of all tensors in elements.

    ``shapes`` by view, of those with other ``strides`` too: where one is larger, its elements are repeated.
    """

    strides: dict[int, tuple[int, ...]] = field(default_factory=dict)
    arguments: dict[str, int] = field(default_factory=dict)  # new values of strides, and of sizes
    shift: int = 0
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    grid: tuple[int, int, int] | None = None  # None: as captured


def blocks(manifest: schema.Manifest) -> list[Block]:
    """The storages of all tensors. Raises NotDerivable if more than arguments may lead to memory."""
    if manifest.launch.mode == "native" or manifest.device.kind == "hip":
        raise NotDerivable("a native launch has its pointers in its parameters, not in tensors that can move")
    if sum(region.size for region in manifest.regions) > MOST_BYTES:
        raise NotDerivable(f"the launch has more than {MOST_BYTES >> 20} MiB of memory")
    for argument in manifest.arguments:
        if isinstance(argument.value, schema.PointerValue) and argument.value.address:
            raise NotDerivable(f"{argument.name} is a bare pointer")
    spans: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
    for number, view in enumerate(manifest.views):
        size = manifest.regions[view.region].size
        start, stop = (0, size) if view.storage is None else (view.storage[0], sum(view.storage))
        low, high = extent(view)
        spans.setdefault(view.region, []).append((min(start, low), max(stop, high), (number,)))
    found = []
    for index, region in enumerate(manifest.regions):
        if index not in spans:
            # Something in memory that looks like an address: of these tensors no kernel takes it for one
            # (`check_pointers`), so it stays behind; but a number that was passed may be meant.
            if any(_leads_to(argument, region) for argument in manifest.arguments):
                raise NotDerivable(f"region {index} belongs to no tensor: a passed number points there")
            continue
        merged: list[tuple[int, int, tuple[int, ...]]] = []
        for start, stop, views in sorted(spans.get(index, [])):
            if merged and start < merged[-1][1]:
                first, end, others = merged[-1]
                merged[-1] = (first, max(end, stop), others + views)
            else:
                merged.append((start, stop, views))
        found += [Block(index, max(0, start), min(stop, region.size), views) for start, stop, views in merged]
    return found


def _leads_to(argument: schema.Argument, region: schema.Region) -> bool:
    value = argument.value
    return isinstance(value, schema.IntValue) and region.base <= int(value.value) < region.base + region.size


def check_pointers(reproducer: Reproducer) -> None:
    """Raise NotDerivable where a tensor of 64-bit integers holds addresses of the launch's memory, and where
    the launch changed memory that is no tensor's."""
    manifest = reproducer.manifest
    of_tensors = {view.region for view in manifest.views}
    for index in range(len(manifest.regions)):
        if index not in of_tensors and reproducer.chunks_changed(index):
            raise NotDerivable(f"region {index} belongs to no tensor, and the launch changed it")
    for view in manifest.views:
        if view.dtype not in ("int64", "uint64"):
            continue
        region = manifest.regions[view.region]
        start, stop = extent(view)
        data = reproducer.read("pre", view.region, start, min(stop, region.size) - start)
        words = np.frombuffer(data[: len(data) // 8 * 8], dtype=np.uint64)
        for each in manifest.regions:
            if each.size and ((words >= each.base) & (words < each.base + each.size)).any():
                raise NotDerivable(f"{view.name} holds pointers")


def derive(
    reproducer: Reproducer,
    parent: Path,
    layout: Layout | None = None,
    source: str | None = None,
    convert: Mapping[str, tuple[str, int]] | None = None,
    arguments: Callable[[schema.Argument], schema.Argument] | None = None,
) -> Path:
    """Seal a derived launch in ``parent``; its folder.

    ``source`` takes the place of the kernel's, with no compiled code kept. ``convert`` gives views of a dtype
    another (and its item size), with the values that they have. Raises NotDerivable.
    """
    manifest, layout = reproducer.manifest, layout or Layout()
    check_pointers(reproducer)
    found = blocks(manifest)
    views = list(manifest.views)
    regions: list[schema.Region] = []
    size = sum(block.stop - block.start for block in found)
    with ReproducerWriter(parent, manifest.kernel.name, size) as writer:
        for index, block in enumerate(found):
            old = manifest.regions[block.region]
            skew = (old.base + block.start) % _ALIGNMENT
            pre, placed = _placed(reproducer, "pre", block, layout, convert, skew)
            post, _ = _placed(reproducer, "post", block, layout, convert, skew)
            for number, view in placed.items():
                views[number] = msgspec.structs.replace(view, region=index)
            base = _BASE + sum(-(-r.size // _SPACING) + 1 for r in regions) * _SPACING
            regions.append(
                msgspec.structs.replace(old, base=base, size=len(pre), reason="moved by verify", module=0)
            )
            writer.add_region_pre(index, len(pre), memoryview(pre))
            for start in range(0, len(pre), schema.CHUNK_BYTES):
                part = post[start : start + schema.CHUNK_BYTES]
                if pre[start : start + schema.CHUNK_BYTES] != part:
                    writer.add_post_chunk(index, start // schema.CHUNK_BYTES, part)
        code, stored = _program(reproducer, writer, source)
        changed = tuple(_argument(a, layout, arguments) for a in manifest.arguments)
        grid = manifest.launch.grid if layout.grid is None else layout.grid
        folder = writer.seal(
            msgspec.structs.replace(
                manifest, regions=tuple(regions), views=tuple(views), arguments=changed, code=code,
                launch=msgspec.structs.replace(manifest.launch, grid=grid), source=stored,
                memory=writer.finish_memory(), files=(),
                closure=schema.Closure(
                    mode="args", consistency=manifest.closure.consistency,
                    included_bytes=sum(region.size for region in regions),
                ),
            )
        )  # fmt: skip
    trust.agree_to_derived(folder)
    return folder


def _program(
    reproducer: Reproducer, writer: ReproducerWriter, source: str | None
) -> tuple[tuple[schema.CodeFile, ...], schema.Source | None]:
    manifest = reproducer.manifest
    code = []
    if source is None:
        code = [writer.add_code(c.stage, reproducer.code(c.stage) or b"") for c in manifest.code]
    if manifest.source is None:
        return tuple(code), None
    text = reproducer.source_text() if source is None else source
    file = writer.add_source(Path(manifest.source.file.path).name, (text or "").encode())
    stored = schema.Source(file=file, entry=manifest.source.entry, language=manifest.source.language)
    return tuple(code), stored


def _argument(
    argument: schema.Argument, layout: Layout, change: Callable[[schema.Argument], schema.Argument] | None
) -> schema.Argument:
    if argument.name in layout.arguments:
        value = schema.IntValue(value=str(layout.arguments[argument.name]))
        return msgspec.structs.replace(argument, value=value)
    return argument if change is None else change(argument)


def _placed(
    reproducer: Reproducer,
    state: Any,
    block: Block,
    layout: Layout,
    convert: Mapping[str, tuple[str, int]] | None,
    skew: int,
) -> tuple[bytes, dict[int, schema.View]]:
    """The bytes of a new region, guards and all, and the views in it."""
    manifest = reproducer.manifest
    data = reproducer.read(state, block.region, block.start, block.stop - block.start)
    views = {number: manifest.views[number] for number in block.views}
    itemsize = max(view.itemsize for view in views.values())
    first = GUARD_BYTES + skew + layout.shift * itemsize
    [number, *others] = block.views
    view = views[number]
    target = (convert or {}).get(view.dtype)
    if not others and (number in layout.strides or target is not None):
        values = _elements(data, view, block.start)
        if target is not None:
            values = decoded(values, view.dtype).astype(target[0])
            view = msgspec.structs.replace(view, dtype=target[0], itemsize=target[1])
            first = -(-first // target[1]) * target[1]
        shape = layout.shapes.get(number, view.shape)
        if shape != view.shape:
            repeated = (np.arange(new) % old for new, old in zip(shape, view.shape, strict=True))
            values, view = values[np.ix_(*repeated)], msgspec.structs.replace(view, shape=shape)
        strides = layout.strides.get(number, view.strides)
        room = (1 + sum((n - 1) * s for n, s in zip(view.shape, strides, strict=True))) * view.itemsize
        body = np.zeros(room, dtype=np.uint8)
        _window(body, view, strides, values.dtype)[...] = values
        data = body.tobytes()
        views = {number: msgspec.structs.replace(view, strides=strides, offset=0)}
        start = 0
    else:
        start = block.start
    moved = {
        n: msgspec.structs.replace(v, offset=first + v.offset - start, storage=(first, len(data)))
        for n, v in views.items()
    }
    return bytes(first) + data + bytes(GUARD_BYTES), moved


_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _elements(data: bytes, view: schema.View, start: int) -> Any:
    """The elements of a view as words."""
    if view.itemsize not in _WORDS or any(stride < 0 for stride in view.strides):
        raise NotDerivable(f"{view.name} has elements of {view.itemsize} bytes, or strides below zero")
    return np.ndarray(
        tuple(view.shape), dtype=_WORDS[view.itemsize], buffer=data, offset=view.offset - start,
        strides=tuple(stride * view.itemsize for stride in view.strides),
    )  # fmt: skip


def _window(body: Any, view: schema.View, strides: Sequence[int], dtype: Any) -> Any:
    return np.ndarray(
        tuple(view.shape), dtype=dtype, buffer=body,
        strides=tuple(stride * view.itemsize for stride in strides),
    )  # fmt: skip


def decoded(words: Any, dtype: str) -> Any:
    """Words of a floating type as float64."""
    with np.errstate(invalid="ignore"):  # memory that nobody wrote may hold signalling NaNs
        if dtype == "bfloat16":
            return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return np.ascontiguousarray(words).view(np.dtype(dtype)).astype(np.float64)
