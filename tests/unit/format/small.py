"""A small manifest around given regions, and a writer run around given memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kerncap.format import ReproducerWriter, WriteSet, schema
from kerncap.format.schema import CHUNK_BYTES
from kerncap.format.write_set import Mask


@dataclass(frozen=True)
class Masks:
    """One region's: what is written; of that, what is also input; what is neither read nor written."""

    written: Mask
    also_input: Mask
    untouched: Mask


def manifest(memory: schema.Memory, sizes: Sequence[int]) -> schema.Manifest:
    regions = tuple(schema.Region(base=i << 41, size=size, kind="device") for i, size in enumerate(sizes))
    return schema.Manifest(
        format="kerncap-reproducer",
        version=schema.Version(major=1, minor=0),
        tool=schema.Tool(name="kerncap", version="0"),
        created="2026-01-02T03:04:05Z",
        command=("python", "a.py"),
        platform=schema.Platform(system="Linux", machine="x86_64", python="3.12.3"),
        device=schema.Device(kind="cpu", name="cpu"),
        kernel=schema.Kernel(name="k", qualified_name="m.k", language="triton"),
        launch=schema.Launch(grid=(1, 1, 1), ordinal=0, mode="interpreter"),
        arguments=(),
        regions=regions,
        views=(),
        closure=schema.Closure(mode="args", consistency="cooperative", included_bytes=sum(sizes)),
        memory=memory,
        oracle=schema.Oracle(kind="trusted"),
    )


def add_states(writer: ReproducerWriter, states: Sequence[tuple[bytes, bytes]]) -> None:
    """A region for each pair of bytes, before and after the launch."""
    for region, (pre, _) in enumerate(states):
        writer.add_region_pre(region, len(pre), memoryview(pre))
    for region, (_, post) in enumerate(states):
        for chunk, start in enumerate(range(0, len(post), CHUNK_BYTES)):
            writer.add_post_chunk(region, chunk, post[start : start + CHUNK_BYTES])


def write(parent: Path, states: Sequence[tuple[bytes, bytes]], extra: schema.Manifest | None = None) -> Path:
    """Seal regions with these (pre, post) bytes; ``extra`` replaces the manifest around the memory."""
    with ReproducerWriter(parent, "k", sum(len(pre) for pre, _ in states)) as writer:
        add_states(writer, states)
        memory = writer.finish_memory()
        if extra is None:
            return writer.seal(manifest(memory, [len(pre) for pre, _ in states]))
        return writer.seal(msgspec.structs.replace(extra, memory=memory))


def write_set(masks: Mapping[int, Masks], sizes: Mapping[int, int] | None = None) -> WriteSet:
    """Of regions that end with their masks if no sizes are given."""
    sizes = sizes or {region: len(found.written) * 8 for region, found in masks.items()}
    return WriteSet.from_pieces(
        sizes, lambda region, kind, start, stop: getattr(masks[region], kind)[start // 8 : -(-stop // 8)]
    )
