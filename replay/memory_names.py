"""Names for bytes of a launch: which view, which element, what they are near to."""

from __future__ import annotations

from kerncap.format.schema import Manifest, View
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.write_set_units import extent


def view_name(manifest: Manifest, number: int) -> str:
    return manifest.views[number].name or f"view {number}"


def owner_name(manifest: Manifest, region: int, view: int | None) -> str:
    return f"region {region}" if view is None else view_name(manifest, view)


def by_view(manifest: Manifest, region: int, bits: Bits) -> list[tuple[int | None, Bits]]:
    """The parts of a region's bitmap by the view that they are in, each byte once; None: in no view."""
    parts: list[tuple[int | None, Bits]] = []
    left, size = bits, manifest.regions[region].size
    for number, view in enumerate(manifest.views):
        if view.region == region and left.any():
            start, stop = extent(view)
            inside = left & bitmap.span(size, max(0, start), min(stop, size))
            if inside.any():
                parts.append((number, inside))
                left = left & ~inside
    return [*parts, (None, left)] if left.any() else parts


def place_name(manifest: Manifest, region: int, offset: int) -> str:
    """A byte as a reader would call it: ``out[3, 17]``, or its region and what it is near to."""
    for number, view in enumerate(manifest.views):
        if view.region == region:
            index = _element(view, offset)
            if index is not None:
                return f"{view_name(manifest, number)}[{', '.join(map(str, index))}]"
    nearest = None
    for number, view in enumerate(manifest.views):
        if view.region == region:
            start, stop = extent(view)
            if stop <= offset and (nearest is None or stop > nearest[0]):
                nearest = (stop, f"{offset - stop} bytes past the end of {view_name(manifest, number)}")
            elif offset < start and nearest is None:
                nearest = (-1, f"{start - offset} bytes before {view_name(manifest, number)}")
    tail = f" ({nearest[1]})" if nearest else ""
    return f"byte {offset} of region {region}{tail}"


def address_name(manifest: Manifest, address: int, bases: list[int]) -> str:
    """An address outside of every region, by what lies before it."""
    before = [
        (base + region.size, index)
        for index, (base, region) in enumerate(zip(bases, manifest.regions, strict=True))
        if base + region.size <= address
    ]
    if not before:
        return f"address {address:#x}"
    end, region_index = max(before)
    names = [view_name(manifest, n) for n, view in enumerate(manifest.views) if view.region == region_index]
    owner = f", which holds {', '.join(dict.fromkeys(names[:3]))}" if names else ""
    return f"address {address:#x}, {address - end} bytes past the end of region {region_index}{owner}"


def _element(view: View, offset: int) -> tuple[int, ...] | None:
    """The index of the element that holds a byte, if the view has it (strides need not be sorted)."""
    start, stop = extent(view)
    if not start <= offset < stop or any(stride < 0 for stride in view.strides):
        return None
    left = (offset - view.offset) // view.itemsize
    index = [0] * len(view.shape)
    for axis in sorted(range(len(view.shape)), key=lambda a: -view.strides[a]):
        stride = view.strides[axis]
        if stride:
            index[axis] = min(left // stride, view.shape[axis] - 1)
            left -= index[axis] * stride
    return tuple(index) if left == 0 else None
