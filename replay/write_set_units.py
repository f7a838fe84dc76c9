"""Units of the write set: bytes that are measured together."""

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


def views_with(manifest: Manifest, bits: dict[int, Bits]) -> list[int]:
    """The views that span any of these bytes."""
    found = []
    for number, view in enumerate(manifest.views):
        start, stop = extent(view)
        size = manifest.regions[view.region].size
        if (bits[view.region] & bitmap.span(size, max(0, start), min(stop, size))).any():
            found.append(number)
    return found
