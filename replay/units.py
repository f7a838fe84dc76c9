"""Units of the write set, and names for bytes: which view, which element."""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.format.schema import Manifest, View


@dataclass(frozen=True)
class Unit:
    """Bytes [start, stop) of a region that views share; no views: a region that only pointers reach."""

    region: int
    start: int
    stop: int
    views: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.stop - self.start


def extent(view: View) -> tuple[int, int]:
    """First and last-plus-one byte of a view in its region; equal for a view of no elements."""
    if 0 in view.shape:
        return view.offset, view.offset
    low = high = 0
    for length, stride in zip(view.shape, view.strides, strict=True):
        reach = (length - 1) * stride
        low, high = low + min(0, reach), high + max(0, reach)
    return view.offset + low * view.itemsize, view.offset + (high + 1) * view.itemsize


def units(manifest: Manifest) -> list[Unit]:
    """Connected groups of overlapping views, and whole regions that have none."""
    found: list[Unit] = []
    for index, region in enumerate(manifest.regions):
        spans = []
        for number, view in enumerate(manifest.views):
            if view.region == index:
                start, stop = extent(view)
                start, stop = max(0, start), min(stop, region.size)
                if start < stop:
                    spans.append((start, stop, number))
        if not spans:
            if region.size:
                found.append(Unit(index, 0, region.size, ()))
            continue
        spans.sort()
        at, end, views = spans[0][0], spans[0][1], [spans[0][2]]
        for start, stop, number in spans[1:]:
            if start < end:
                end = max(end, stop)
                views.append(number)
            else:
                found.append(Unit(index, at, end, tuple(views)))
                at, end, views = start, stop, [number]
        found.append(Unit(index, at, end, tuple(views)))
    return found


def view_name(manifest: Manifest, number: int) -> str:
    return manifest.views[number].name or f"view {number}"


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
