"""One memory for all launches of a range: their regions joined, and where each of them is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from kerncap.errors import BackendUnavailable
from kerncap.format import schema
from kerncap.format.validate import ZERO_PAGE
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits


@dataclass(frozen=True)
class Place:
    """Where a region of a launch lies: from ``offset`` of a region of the range on."""

    region: int
    offset: int


@dataclass
class SharedMemory:
    """``places`` are by launch and region; overlapping regions of the launches are one."""

    regions: list[schema.Region] = field(default_factory=list)
    places: list[list[Place]] = field(default_factory=list)
    zeros: list[schema.ZeroRange] = field(default_factory=list)


def placed(bits: Bits, size: int, place: Place, region_size: int) -> Bits:
    """Bytes of a launch's region of ``size`` as bytes of the range's region that it lies in."""
    if (place.offset, region_size) == (0, size):
        return bits
    flags = np.zeros(region_size, dtype=np.bool_)
    flags[place.offset : place.offset + size] = bits.flags(0, size)
    return bitmap.of_flags(flags)


def share(manifests: Sequence[schema.Manifest]) -> SharedMemory:
    """The memory of a range. Raises BackendUnavailable, naming a launch whose memory can't be shared."""
    shared = SharedMemory(places=[[Place(-1, 0)] * len(manifest.regions) for manifest in manifests])
    spans: list[tuple[int, int, int, int]] = []  # base, end, launch, region
    for number, manifest in enumerate(manifests):
        for index, region in enumerate(manifest.regions):
            if region.kind == "array":
                raise _alone(number, manifest, "uses a texture's array, which has no address")
            if region.kind == "global" and not region.module:
                shared.places[number][index] = Place(_variable(shared, region), 0)
            else:
                spans.append((region.base, region.base + region.size, number, index))
    variables = [(region.base, region.base + region.size) for region in shared.regions]
    for base, end, number, index in sorted(spans, key=lambda span: (span[0], -span[1])):
        region, manifest = manifests[number].regions[index], manifests[number]
        if any(first < end and base < last for first, last in variables):
            what = "reaches a variable of another launch's module, which the driver places where it likes"
            raise _alone(number, manifest, what)
        last = shared.regions[-1] if len(shared.regions) > len(variables) else None
        if last is None or base >= last.base + last.size or not region.size:
            module = 1 if region.kind == "global" else 0
            shared.regions.append(msgspec.structs.replace(region, module=module))
        elif (last.kind, last.device) != (region.kind, region.device):
            what = f"has {region.kind} memory where another launch has {last.kind} memory"
            raise _alone(number, manifest, what)
        else:
            size = max(last.size, end - last.base)
            shared.regions[-1] = msgspec.structs.replace(last, size=size)
        shared.places[number][index] = Place(len(shared.regions) - 1, base - shared.regions[-1].base)
    _share_zeros(shared, manifests)
    return shared


def _variable(shared: SharedMemory, region: schema.Region) -> int:
    """The range's region of a variable; it is one for launches of the same module, by its address."""
    for number, other in enumerate(shared.regions):
        if (other.base, other.size, other.name) == (region.base, region.size, region.name):
            return number
    shared.regions.append(region)
    return len(shared.regions) - 1


def _share_zeros(shared: SharedMemory, manifests: Sequence[schema.Manifest]) -> None:
    """Zeros of one launch are the same of the others, unless another has a region there."""
    pages: dict[int, int] = {}
    for number, manifest in enumerate(manifests):
        for zero in manifest.zeros:
            for page in range(zero.base, zero.base + zero.size, ZERO_PAGE):
                pages[page] = zero.device
            for region in shared.regions:
                if region.base < zero.base + zero.size and zero.base < region.base + region.size:
                    raise _alone(number, manifest, "was captured with zeros where another launch has memory")
    shared.zeros = [
        schema.ZeroRange(base=page, size=ZERO_PAGE, device=device) for page, device in sorted(pages.items())
    ]


def _alone(number: int, manifest: schema.Manifest, why: str) -> BackendUnavailable:
    reason = f"launch {number} ({manifest.kernel.name}) {why}; --only {number} replays it"
    return BackendUnavailable("a replay of the range in one process", reason)


def moved(manifest: schema.Manifest, places: Sequence[Place], first_view: int) -> schema.Manifest:
    """A launch's manifest with its views in the range's memory, where they are from ``first_view`` on."""
    views = tuple(
        msgspec.structs.replace(
            view,
            region=places[view.region].region,
            offset=places[view.region].offset + view.offset,
            storage=None
            if view.storage is None
            else (places[view.region].offset + view.storage[0], view.storage[1]),
        )
        for view in manifest.views
    )
    arguments = tuple(
        msgspec.structs.replace(argument, value=_renumbered(argument.value, first_view))
        for argument in manifest.arguments
    )
    return msgspec.structs.replace(manifest, views=views, arguments=arguments)


def _renumbered(value: schema.Value, first_view: int) -> schema.Value:
    if isinstance(value, schema.TensorValue | schema.DescriptorValue):
        return msgspec.structs.replace(value, view=value.view + first_view)
    if isinstance(value, schema.SequenceValue):
        items = tuple(_renumbered(item, first_view) for item in value.items)
        return msgspec.structs.replace(value, items=items)
    return value
