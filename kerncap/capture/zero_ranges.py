"""What a launch needs of an allocator's arena: the pages that hold something, and zeros around them.

A framework may take most of a device as one allocation (JAX does). A launch can reach all of it, and almost
all of it was never written. Such a region becomes several: pages that are not zero, pages that the launch
changed, and pages that its parameters point to. The rest stays known as ranges of zeros.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from kerncap import log
from kerncap.capture.payloads import CompleteRecord, LaunchRecord
from kerncap.errors import CaptureError
from kerncap.format import schema
from kerncap.format.region_sources import StripedFiles
from kerncap.format.validate import ZERO_PAGE, view_bounds

_FROM_A_POINTER = 16 << 20  # bytes: an output may be all zeros, and a parameter says nothing of its size
_MOST_PARTS = 1024  # of one region

Range = tuple[int, int]  # [first, end), in bytes of a region


@dataclass(frozen=True)
class Split:
    """A launch whose regions were divided, and what lies around them."""

    launch: LaunchRecord
    complete: CompleteRecord | None
    zeros: tuple[schema.ZeroRange, ...] = ()


def split(launch: LaunchRecord, complete: CompleteRecord | None, state: StripedFiles) -> Split:
    """Divide the device regions of a launch whose pre-state is ``state``; everything keeps its address.

    Raises CaptureError if its indices don't fit together.
    """
    changed = complete.chunks if complete is not None else ()
    regions: list[schema.Region] = []
    offsets: list[int] = []
    parts: list[list[tuple[Range, int]]] = []  # of each old region: what is kept, and its new number
    zeros: list[schema.ZeroRange] = []
    for number, region in enumerate(launch.regions):
        kept: list[Range] = [(0, region.size)]
        if region.kind == "device" and region.base % ZERO_PAGE == 0:
            kept = _kept(launch, number, state, [chunk for owner, chunk in changed if owner == number])
        parts.append([])
        for first, end in kept:
            parts[-1].append(((first, end), len(regions)))
            regions.append(msgspec.structs.replace(region, base=region.base + first, size=end - first))
            offsets.append(launch.pre_offsets[number] + first)
        for first, end in _between(kept, region.size):
            zeros.append(schema.ZeroRange(base=region.base + first, size=end - first, device=region.device))
    if not zeros:
        return Split(launch, complete)
    if len(regions) > schema.MAX_LIST or len(zeros) > schema.MAX_MAP:
        raise CaptureError(f"what it can reach is in {len(regions):,} pieces; choose another launch")

    def place(number: int, offset: int) -> tuple[int, int]:
        """The new region that holds a byte of an old one, and where in the old one it begins."""
        for (first, end), new in parts[number] if number < len(parts) else ():
            if first <= offset < end or first == offset == end:
                return new, first
        raise CaptureError(f"byte {offset} of region {number} is in none of its parts")

    def moved_view(view: schema.View) -> schema.View:
        new, first = place(view.region, _extent(view)[0])
        storage = None if view.storage is None else (view.storage[0] - first, view.storage[1])
        return msgspec.structs.replace(view, region=new, offset=view.offset - first, storage=storage)

    def moved_texture(texture: schema.Texture) -> schema.Texture:
        region = None if texture.region is None else place(texture.region, 0)[0]
        return msgspec.structs.replace(texture, region=region)

    def moved_chunk(number: int, chunk: int) -> tuple[int, int]:
        new, first = place(number, chunk * schema.CHUNK_BYTES)
        return new, chunk - first // schema.CHUNK_BYTES

    total = sum(zero.size for zero in zeros)
    included = sum(region.size for region in regions)
    known = complete is not None and complete.status == "complete"  # what a fault leaves is not
    note = (
        f"{log.size(total)} that the launch can reach are zeros before {'and after ' if known else ''}it: "
        "a replay maps zeros there, and fails if anything else is written"
    )
    if complete is not None:
        chunks = tuple(itertools.starmap(moved_chunk, complete.chunks))
        complete = msgspec.structs.replace(complete, chunks=chunks)
    launch = msgspec.structs.replace(
        launch,
        regions=tuple(regions),
        pre_offsets=tuple(offsets),
        views=tuple(map(moved_view, launch.views)),
        textures=tuple(map(moved_texture, launch.textures)),
        closure=msgspec.structs.replace(launch.closure, included_bytes=included),
        notes=(*launch.notes, note),
    )
    return Split(launch, complete, tuple(zeros))


def _kept(launch: LaunchRecord, number: int, state: StripedFiles, changed: Iterable[int]) -> list[Range]:
    """The parts of a region that are stored: whole pages, in order."""
    size, step = launch.regions[number].size, schema.CHUNK_BYTES
    offset = launch.pre_offsets[number]
    ranges = [(first, first + step) for first, _ in state.pieces(offset, size, step)]
    ranges += [(chunk * step, (chunk + 1) * step) for chunk in changed]
    ranges += _pointed_to(launch, number)
    ranges += [_extent(view) for view in launch.views if view.region == number]
    if size % ZERO_PAGE:
        ranges.append((size - size % ZERO_PAGE, size))
    distance = ZERO_PAGE
    while len(kept := _joined(ranges, size, distance)) > _MOST_PARTS:
        distance *= 2
    return kept


def _pointed_to(launch: LaunchRecord, number: int) -> list[Range]:
    """From each address among the parameters up to the next one, or as far as an output may reach."""
    if launch.parameters is None:
        return []
    data, base = bytes.fromhex(launch.parameters.bytes), launch.regions[number].base
    words = {int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data) - 7, 4)}
    size = launch.regions[number].size
    starts = sorted(word - base for word in words if base <= word < base + size)
    return [
        (start, min(start + _FROM_A_POINTER, following, size))
        for start, following in itertools.zip_longest(starts, starts[1:], fillvalue=size)
    ]


def _extent(view: schema.View) -> Range:
    if view.storage is not None:
        return view.storage[0], sum(view.storage)
    return view_bounds(view) or (view.offset, view.offset)


def _joined(ranges: Iterable[Range], size: int, distance: int) -> list[Range]:
    """The pages that these ranges touch; what is less than ``distance`` apart is one."""
    joined: list[Range] = []
    for first, end in sorted(ranges):
        first = first // ZERO_PAGE * ZERO_PAGE
        end = min(size, -(-end // ZERO_PAGE) * ZERO_PAGE)
        if joined and first < joined[-1][1] + distance:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif first < end:
            joined.append((first, end))
    return joined


def _between(kept: Iterable[Range], size: int) -> list[Range]:
    found, at = [], 0
    for first, end in [*kept, (size, size)]:
        if at < first:
            found.append((at, first))
        at = end
    return found
