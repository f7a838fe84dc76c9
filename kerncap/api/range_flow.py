"""What flows between the launches of a range, by what was captured and measured; nothing is executed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerncap import log, scratch
from kerncap.api.inspect import DIGESTS_CHECKED_UP_TO
from kerncap.api.range_order import order_of, stream_names
from kerncap.errors import KerncapError
from kerncap.format import LaunchOfRange, LaunchRange
from kerncap.replay.byte_effects import Measured, load
from kerncap.replay.ranges.joined_memory import SharedMemory, placed, share
from kerncap.replay.ranges.memory_between_launches import Change, Timeline, by_region, different
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.common.byte_ranges import union
from kerncap.replay.write_set_units import extent
from kerncap.report.documents.ranges import Flow, InspectRangeDocument, LaunchFlow, MissingLaunch

Masks = dict[int, Bits]  # by region of the range
Effects = tuple[Masks, Masks, Masks]  # changed before a launch by something else, read and written by it


@dataclass
class RangeFlow:
    """``flows`` has the bytes that a launch reads of what another wrote: (from, to, bytes)."""

    launches: list[LaunchFlow] = field(default_factory=list)
    flows: list[tuple[int, int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def inspect_range(path: Path | str, verify: bool = False) -> dict[str, Any]:
    """The document of ``kerncap inspect`` for a range. Raises FormatError, UsageError."""
    with LaunchRange.open(path) as opened:
        size = opened.manifest.memory.chunks.size
        checked = verify or size <= DIGESTS_CHECKED_UP_TO
        if checked:
            opened.verify()
        flow, order = flow_of(opened), order_of(opened)
        first = opened.launches[0].manifest
        return InspectRangeDocument(
            path=str(path),
            manifest_sha256=opened.manifest_sha256,
            command=first.command,
            device=first.device.name,
            launches=tuple(flow.launches),
            flows=tuple(
                Flow(source=one, target=other, bytes=count, ordered=order.orders(one, other))
                for one, other, count in flow.flows
            ),
            missing=tuple(
                MissingLaunch(position=each.position, reason=each.reason) for each in opened.manifest.missing
            ),
            memory_bytes=size + opened.manifest.memory.index.size,
            digests="verified" if checked else f"digests of memory not checked ({log.size(size)}; --verify)",
            notes=(*opened.manifest.notes, *flow.notes),
        ).as_dict()


def flow_of(opened: LaunchRange) -> RangeFlow:
    """What each launch writes, and who reads it; only the launches, if their memory can't be shared."""
    found = RangeFlow()
    measured = [load(launch) for launch in opened.launches]
    for launch, stream in zip(opened.launches, stream_names(opened), strict=True):
        grid, kernel = launch.manifest.launch.grid, launch.manifest.kernel.name
        is_measured = measured[launch.number] is not None
        found.launches.append(LaunchFlow(launch.number, launch.position, kernel, stream, grid, is_measured))
    try:
        shared = share([launch.manifest for launch in opened.launches])
        with scratch.folder("range") as made:
            _follow(opened, Timeline(opened.launches, shared, made), shared, measured, found)
    except KerncapError as error:
        found.notes.append(f"what flows between the launches is not known: {log.one_line(error)}")
    return found


def _follow(
    opened: LaunchRange, timeline: Timeline, shared: SharedMemory, measured: list[Measured | None],
    found: RangeFlow,
) -> None:  # fmt: skip
    written: list[Masks] = []
    last: list[Masks] = []  # of what each launch has written, what nobody has written again
    read: list[Masks] = []  # of the same, what a later launch has read
    effects = all_effects(opened, timeline, shared, measured)
    for launch, said, (outside, reads, writes) in zip(opened.launches, found.launches, effects, strict=True):
        said.changed_before, said.changed_before_regions = count(outside), len(outside)
        for masks in last:
            take_away(masks, outside)
        for number, masks in enumerate(last):
            flowing = meet(reads, masks)
            if flown := count(flowing):
                found.flows.append((number, launch.number, flown))
                add(read[number], flowing)
                take_away(reads, flowing)
        said.from_outside = count(reads)
        for masks in last:
            take_away(masks, writes)
        said.written = count(writes)
        written.append(writes)
        last.append(dict(writes))
        read.append({})
    for said, writes, left, seen in zip(found.launches, written, last, read, strict=True):
        said.read_inside = count(seen)
        said.overwritten = count(writes) - count(left)


def meeting(opened: LaunchRange, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The bytes that both launches of a pair reach and at least one writes; pairs without one are left out.

    Raises BackendUnavailable if the memory of the launches can't be shared.
    """
    if not pairs:
        return {}
    shared = share([launch.manifest for launch in opened.launches])
    measured = [load(launch) for launch in opened.launches]
    with scratch.folder("range") as made:
        timeline = Timeline(opened.launches, shared, made)
        effects = [(reads, writes) for _, reads, writes in all_effects(opened, timeline, shared, measured)]
    found = {}
    for one, other in pairs:
        (reads, writes), (more_reads, more_writes) = effects[one], effects[other]
        met: Masks = {}
        for first, second in ((reads, more_writes), (writes, more_reads), (writes, more_writes)):
            add(met, meet(first, second))
        if shared_bytes := count(met):
            found[one, other] = shared_bytes
    return found


def all_effects(
    opened: LaunchRange, timeline: Timeline, shared: SharedMemory, measured: list[Measured | None]
) -> Iterator[Effects]:
    """What each launch does, in order."""
    sizes = [region.size for region in shared.regions]
    for launch in opened.launches:
        outside = _masks(timeline.before(launch.number), sizes)
        changed = _masks(timeline.after(launch.number), sizes)
        yield (outside, *_effects(launch, measured[launch.number], shared, changed))


def _effects(
    launch: LaunchOfRange, measured: Measured | None, shared: SharedMemory, changed: Masks
) -> tuple[Masks, Masks]:
    """What a launch reads and what it writes, as bytes of the range's regions."""

    def placed_in(of: Callable[[int], Bits]) -> Masks:
        return place_masks(launch, shared, of)

    if measured is None:
        return placed_in(lambda index: _spanned(launch, index)), dict(changed)
    known = measured
    reads = placed_in(
        lambda index: (
            ~(known.output(index) | known.idle(index))
            if index in known.written or index in known.untouched
            else bitmap.span(known.sizes[index], 0, known.sizes[index])
        )
    )
    nothing = [bitmap.empty(size) for size in known.sizes]
    return reads, placed_in(lambda index: known.written.get(index, nothing[index]))


def place_masks(launch: LaunchOfRange, shared: SharedMemory, of: Callable[[int], Bits | None]) -> Masks:
    """Bytes of the regions of a launch, as bytes of the range's; None stands for no byte."""
    masks: Masks = {}
    for index, place in enumerate(shared.places[launch.number]):
        size, bits = launch.manifest.regions[index].size, of(index)
        if size and bits is not None:
            add(masks, {place.region: placed(bits, size, place, shared.regions[place.region].size)})
    return masks


def _spanned(launch: LaunchOfRange, region: int) -> Bits:
    size = launch.manifest.regions[region].size
    views = [view for view in launch.manifest.views if view.region == region]
    return bitmap.of_ranges(size, union(map(extent, views)))


def _masks(changes: list[Change], sizes: list[int]) -> Masks:
    return {region: different(of_it, sizes[region]) for region, of_it in by_region(changes).items()}


def add(masks: Masks, more: Masks) -> None:
    for region, bits in more.items():
        masks[region] = masks[region] | bits if region in masks else bits


def meet(masks: Masks, other: Masks) -> Masks:
    return {region: masks[region] & other[region] for region in masks.keys() & other.keys()}


def take_away(masks: Masks, other: Masks) -> None:
    for region in masks.keys() & other.keys():
        masks[region] = masks[region] & ~other[region]


def count(masks: Masks) -> int:
    return sum(map(bitmap.count, masks.values()))
