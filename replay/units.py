"""Units of the write set, and names for bytes: which view, which element."""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.format.schema import Manifest, View
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits

_UNTYPED_ELEMENT = 8  # bytes: if no view tells, an element is taken to be no wider


@dataclass(frozen=True)
class Unit:
    """Bytes of a region, as ascending [start, stop), that are measured together.

    What views share; or, with no views, all that lies outside of them: memory that only pointers reach, and
    the neighbours of a view in its allocation.
    """

    region: int
    spans: tuple[tuple[int, int], ...]
    views: tuple[int, ...]

    @property
    def start(self) -> int:
        return self.spans[0][0]

    @property
    def stop(self) -> int:
        return self.spans[-1][1]

    @property
    def size(self) -> int:
        return sum(stop - start for start, stop in self.spans)

    def bits(self, region_size: int) -> Bits:
        """The unit's bytes as a set of its region's."""
        return bitmap.of_ranges(region_size, self.spans)


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
    """Of each region: connected groups of overlapping views, then all the rest as one."""
    found: list[Unit] = []
    for index, region in enumerate(manifest.regions):
        groups = _groups(manifest, index)
        found += [Unit(index, ((start, stop),), views) for start, stop, views in groups]
        edges = [0, *(edge for start, stop, _ in groups for edge in (start, stop)), region.size]
        rest = tuple(
            (start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True) if start < stop
        )
        if rest:
            found.append(Unit(index, rest, ()))
    return found


def _groups(manifest: Manifest, region: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """(start, stop, views) of the views of a region that overlap, ascending."""
    size = manifest.regions[region].size
    spans = []
    for number, view in enumerate(manifest.views):
        if view.region == region:
            start, stop = extent(view)
            start, stop = max(0, start), min(stop, size)
            if start < stop:
                spans.append((start, stop, (number,)))
    groups: list[tuple[int, int, tuple[int, ...]]] = []
    for start, stop, views in sorted(spans):
        if groups and start < groups[-1][1]:
            first, end, others = groups[-1]
            groups[-1] = (first, max(end, stop), others + views)
        else:
            groups.append((start, stop, views))
    return groups


def whole_elements(manifest: Manifest, unit: Unit, bits: Bits) -> Bits:
    """The bytes and all others of the unit's elements that they belong to.

    Twice a float has another exponent and the same last bytes: those were written all the same.
    """
    size = manifest.regions[unit.region].size
    if not unit.views and manifest.launch.mode == "native":
        return bits | bitmap.widened(bits, _UNTYPED_ELEMENT) & unit.bits(size)
    for number in unit.views:
        view = manifest.views[number]
        if view.itemsize in (2, 4, 8) and view.offset % view.itemsize == 0:
            start, stop = extent(view)
            inside = bitmap.span(size, max(0, start), min(stop, size))
            bits = bits | bitmap.widened(bits & inside, view.itemsize) & inside
    return bits


def outside_views(manifest: Manifest, region: int) -> Bits:
    """The bytes of a region that no view spans; none for a region that has no view at all."""
    size = manifest.regions[region].size
    groups = _groups(manifest, region)
    if not groups:
        return bitmap.empty(size)
    return ~bitmap.of_ranges(size, [(start, stop) for start, stop, _ in groups])


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
