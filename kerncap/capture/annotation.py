"""Joins what the Triton hook knows of a launch with what the native shim captured of it.

The shim's LAUNCH names the hook's words (``annotation``). Who the kernel is, its arguments, options
and source are the hook's; memory, device, parameters and the image are the shim's. The hook gives
its views by address, and `join` finds the regions that they lie in.
"""

from __future__ import annotations

import bisect
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from kerncap.capture import payloads
from kerncap.capture.payloads import CompleteRecord, LaunchRecord
from kerncap.errors import CaptureError
from kerncap.format import schema


class AnnotatedView(Struct, frozen=True):
    """A typed window by address: what `schema.View` is by region."""

    address: schema.Address
    dtype: schema.Name
    itemsize: Annotated[int, Meta(ge=1, le=64)]
    shape: schema.Shape
    strides: schema.Strides
    name: schema.Name = ""
    requires_grad: bool = False
    storage: tuple[schema.Address, schema.Size] | None = None  # address and bytes

    def extent(self) -> tuple[int, int]:
        """First byte, and the byte after the last one; equal for a view of no elements."""
        if len(self.shape) != len(self.strides):
            raise CaptureError(
                f"argument {self.name}: {len(self.shape)} extents, {len(self.strides)} strides"
            )
        if 0 in self.shape:
            return self.address, self.address
        steps = [(n - 1) * stride * self.itemsize for n, stride in zip(self.shape, self.strides, strict=True)]
        low = self.address + sum(step for step in steps if step < 0)
        return low, self.address + sum(step for step in steps if step > 0) + self.itemsize


class AnnotatedLaunch(Struct, frozen=True):
    """The fields of LAUNCH that the hook knows."""

    mode: Literal["jit", "inductor"]
    kernel: payloads.KernelName
    ordinal: schema.Index
    grid: tuple[schema.Index, schema.Index, schema.Index]
    arguments: Annotated[tuple[schema.Argument, ...], Meta(max_length=4096)]
    views: Annotated[tuple[AnnotatedView, ...], Meta(max_length=schema.MAX_VIEWS)]
    grid_source: schema.GridSource | None = None
    options: dict[schema.Name, schema.Value] = {}
    autotune: schema.Autotune | None = None
    source: payloads.SourceFile | None = None
    python_stack: tuple[tuple[schema.Name, int, schema.Name], ...] = ()
    range: payloads.RangeNames = ()
    position: schema.Index | None = None


class AnnotatedComplete(Struct, frozen=True):
    """What only the compiled kernel told; the files lie in the hook's folder."""

    code: Annotated[tuple[payloads.CodeRecord, ...], Meta(max_length=64)] = ()
    compiled: dict[schema.Name, schema.Value] = {}
    signature: dict[schema.Name, schema.Name | None] = {}
    divisibility: dict[schema.Name, int | None] = {}


def join(
    native: LaunchRecord,
    native_complete: CompleteRecord | None,
    before: dict[str, Any],
    after: dict[str, Any] | None,
) -> tuple[LaunchRecord, CompleteRecord | None]:
    """One launch out of the shim's records and the hook's (ANNOTATION's ``launch`` and ``complete``).

    ``native_complete`` is None for a launch that never ended, ``after`` if the process died
    before the hook could write it: code and facts of the compiled kernel are then left out. Files
    that ``source`` and ``code`` name lie in the hook's folder, all others in the shim's. Raises
    CaptureError if the hook's words do not fit, or a view lies outside the captured memory.
    """
    what = f"the Triton hook's words about launch {native.launch}"
    known = payloads.convert(before, AnnotatedLaunch, what)
    places = _Places(native)
    views = tuple(places.view(view) for view in known.views)
    in_image = native.kernel.mangled or native.kernel.name
    mangled = in_image if in_image != known.kernel.name else None
    launch = msgspec.structs.replace(
        native,
        mode=known.mode,
        kernel=msgspec.structs.replace(known.kernel, mangled=mangled),
        ordinal=known.ordinal,
        grid=known.grid,
        grid_source=known.grid_source,
        arguments=known.arguments,
        options=known.options,
        autotune=known.autotune,
        source=known.source,
        python_stack=known.python_stack,
        range=known.range or native.range,
        position=known.position if known.position is not None else native.position,
        views=views,
        regions=tuple(places.regions),
        pre_offsets=tuple(places.pre_offsets),
    )
    if native_complete is None or after is None:
        return launch, native_complete
    facts = payloads.convert(after, AnnotatedComplete, what)
    complete = msgspec.structs.replace(
        native_complete,
        code=facts.code,
        compiled=facts.compiled,
        signature=facts.signature,
        divisibility=facts.divisibility,
    )
    return launch, complete


class _Places:
    """Where views lie in a launch's regions."""

    def __init__(self, launch: LaunchRecord) -> None:
        self.regions = list(launch.regions)
        self.pre_offsets = list(launch.pre_offsets)
        self._device = launch.device.ordinal
        self._has_pre = launch.pre is not None
        order = [number for number, region in enumerate(launch.regions) if region.size]
        self._order = sorted(order, key=lambda number: launch.regions[number].base)
        self._bases = [launch.regions[number].base for number in self._order]

    def view(self, view: AnnotatedView) -> schema.View:
        """The view on the region that holds it. Raises CaptureError if none does."""
        first, end = view.extent()
        number = self._region_at(first)
        if first == end:
            number = self._empty_region(view) if number is None else number
            offset = max(0, view.address - self.regions[number].base)
        else:
            number = self._checked(view, number, first, end)
            offset = view.address - self.regions[number].base
        return schema.View(
            region=number,
            offset=offset,
            dtype=view.dtype,
            itemsize=view.itemsize,
            shape=view.shape,
            strides=view.strides,
            name=view.name,
            requires_grad=view.requires_grad,
            storage=self._storage_of(view, self.regions[number], first, end),
        )

    def _storage_of(
        self, view: AnnotatedView, region: schema.Region, first: int, end: int
    ) -> tuple[int, int] | None:
        """The storage in its region; None if what the framework says of it does not fit."""
        if view.storage is None:
            return None
        address, size = view.storage
        if address < region.base or address + size > region.base + region.size:
            return None
        if first < end and not address <= first < end <= address + size:
            return None
        return address - region.base, size

    def _region_at(self, address: int) -> int | None:
        at = bisect.bisect_right(self._bases, address) - 1
        if at < 0:
            return None
        region = self.regions[self._order[at]]
        return self._order[at] if address < region.base + region.size else None

    def _checked(self, view: AnnotatedView, number: int | None, first: int, end: int) -> int:
        name = view.name or "without a name"
        if number is None:
            raise CaptureError(
                f"argument {name}: its memory at {first:#x} is in none of the {len(self.regions)} regions "
                "that the CUDA shim captured (was it allocated before the shim was loaded?)"
            )
        region = self.regions[number]
        if end > region.base + region.size:
            raise CaptureError(
                f"argument {name}: {view.dtype} {list(view.shape)} with strides {list(view.strides)} takes "
                f"{first:#x} to {end:#x}, beyond its region of {region.size} bytes at {region.base:#x}"
            )
        return number

    def _empty_region(self, view: AnnotatedView) -> int:
        """A region of no bytes: a view needs one, and a tensor of no elements may have no memory."""
        self.regions.append(
            schema.Region(
                base=view.address, size=0, kind="device", device=self._device, reason=f"argument {view.name}"
            )
        )
        if self._has_pre:
            self.pre_offsets.append(max(self.pre_offsets, default=0))
        return len(self.regions) - 1
