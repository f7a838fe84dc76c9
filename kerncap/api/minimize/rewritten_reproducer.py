"""The reproducer, with zeros for memory that its launch does not need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from kerncap.api.minimize.delta_debug import Masks
from kerncap.format import Reproducer, ReproducerWriter, schema
from kerncap.format.allowed_names import MEMORY_PATHS, README_PATH
from kerncap.format.region_sources import Piece
from kerncap.format.schema import CHUNK_BYTES
from kerncap.format.validate import stored_files
from kerncap.replay.worker.common import bitmap

Bytes = npt.NDArray[np.uint8]


def rewrite(
    reproducer: Reproducer, parent: Path, free: Masks, written: Masks, note: str, drop: bool
) -> tuple[Path, int]:
    """Write it into ``parent``; its folder, and how many regions were left out.

    ``free`` bytes become zero, after the launch too if it did not write them. With ``drop``, regions that
    no byte is needed of, and that no argument and no variable is, are left out as a whole.
    """
    manifest = reproducer.manifest
    sizes = [region.size for region in manifest.regions]
    kept = [
        number for number in range(len(sizes)) if not (drop and _is_idle(manifest, number, free, written))
    ]
    place = {old: new for new, old in enumerate(kept)}
    with ReproducerWriter(parent, manifest.kernel.name, sum(sizes)) as writer:
        for old in kept:
            _region(reproducer, writer, old, place[old], free, written)
        for _, stored in stored_files(manifest):
            if stored.path not in MEMORY_PATHS | {README_PATH}:
                writer.add_file(stored.path, reproducer.file(stored))
        memory = writer.finish_memory()
        views = tuple(
            msgspec.structs.replace(view, region=place[view.region]) for view in manifest.views
        )  # fmt: skip
        textures = tuple(
            texture
            if texture.region is None
            else msgspec.structs.replace(texture, region=place[texture.region])
            for texture in manifest.launch.textures
        )
        closure = msgspec.structs.replace(
            manifest.closure, included_bytes=sum(sizes[old] for old in kept),
            left_out_bytes=manifest.closure.left_out_bytes,
        )  # fmt: skip
        files = tuple(file for file in manifest.files if file.path != README_PATH)
        minimized = msgspec.structs.replace(
            manifest, memory=memory, views=views, closure=closure, files=files,
            regions=tuple(manifest.regions[old] for old in kept), notes=(*manifest.notes, note),
            launch=msgspec.structs.replace(manifest.launch, textures=textures),
        )  # fmt: skip
        return writer.seal(minimized), len(sizes) - len(kept)


def _is_idle(manifest: schema.Manifest, number: int, free: Masks, written: Masks) -> bool:
    region = manifest.regions[number]
    if region.kind in ("global", "array") or any(view.region == number for view in manifest.views):
        return False
    if number in written and written[number].any():
        return False
    bits = free.get(number)
    return bits is not None and bitmap.count(bits) == region.size


class _Before:
    """A region before the launch with zeros for what is free, a chunk at a time, when it is asked for."""

    def __init__(self, reproducer: Reproducer, region: int, free: Masks) -> None:
        self._reproducer = reproducer
        self._region = region
        self._free = free

    def pieces(self, offset: int, size: int, step: int) -> Iterator[Piece]:
        for start in range(offset, offset + size, step):
            stop = min(start + step, offset + size)
            yield start, lambda _, start=start, stop=stop: self.read(start, stop).tobytes()  # type: ignore[misc]

    def read(self, start: int, stop: int) -> Bytes:
        data = np.frombuffer(self._reproducer.read("pre", self._region, start, stop - start), dtype=np.uint8)
        return np.where(_part(self._free, self._region, start, stop), np.uint8(0), data)


def _region(
    reproducer: Reproducer, writer: ReproducerWriter, old: int, new: int, free: Masks, written: Masks
) -> None:
    """One region, chunk by chunk: before, and after if that differs."""
    size = reproducer.manifest.regions[old].size
    begins = _Before(reproducer, old, free)
    writer.add_region_pre(new, size, begins)
    changed = set(reproducer.chunks_changed(old))
    for chunk, start in enumerate(range(0, size, CHUNK_BYTES)):
        stop = min(start + CHUNK_BYTES, size)
        out = _part(written, old, start, stop)
        if chunk not in changed and not out.any():
            continue  # as before, zeros included
        before = np.frombuffer(reproducer.read("pre", old, start, stop - start), dtype=np.uint8)
        after = np.frombuffer(reproducer.read("post", old, start, stop - start), dtype=np.uint8)
        # A byte that was written has the application's value afterwards, whatever lies there before.
        ends = np.where(out | (after != before), after, begins.read(start, stop))
        writer.add_post_chunk(new, chunk, ends.tobytes())


def _part(masks: Masks, region: int, start: int, stop: int) -> npt.NDArray[np.bool_]:
    """A region's mask for [start, stop)."""
    bits = masks.get(region)
    return np.zeros(stop - start, dtype=np.bool_) if bits is None else bits.flags(start, stop)
