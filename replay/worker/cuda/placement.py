"""Where the regions of a CUDA launch are: each at its captured address, for any kind of memory.

A reservation's address hint is honoured only on 32 MiB granules, and success may come with another address.
So the 32 MiB-aligned superset of the regions is reserved, before anything takes memory, and physical 2 MiB
pieces are mapped only where regions lie. Pinned host memory is mapped at its address first, before the
driver maps anything, and registered once there is a context. Managed memory can't be placed: it becomes plain
device memory. Ranges of zeros are the same few pages, mapped again and again, so that a launch may read them
and what it writes there is seen. A variable of the kernel's module lies where the driver loads the module;
its states are kept in a copy of it, which has no captured address. So are an array's.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from .. import handles
from ..common.address_layout import Span, grouped
from ..common.failures import Refused
from ..common.placed_regions import PlacedRegions
from ..job import JobRanks, JobRegion, JobWindow, JobZeros, PlacedRegion
from . import driver

_RESERVE_ALIGNMENT = 32 * 1024 * 1024
_ZERO_BLOCK = 32 * 1024 * 1024  # bytes of zeros that are mapped at once

Regions = Sequence[JobRegion]


class Placement(PlacedRegions):
    """Regions on one CUDA device and around it. ``reserve`` runs before numpy and torch are loaded, but in
    a process that was started ahead: more is taken there, and where that matters a fresh process tries.

    ``captured_device`` is the ordinal that the launch had; regions of other devices go there if ``peers``
    and that device is here and within reach, else to the launch's own.
    """

    kind = "cuda"

    def __init__(
        self, regions: Regions, device: int, captured_device: int = 0, peers: bool = False,
        zeros: Sequence[JobZeros] = (), ranks: JobRanks | None = None,
    ) -> None:  # fmt: skip
        super().__init__(regions, device, captured_device)
        self._ranks = ranks
        self._peers = peers
        self._pieces: list[Span] = []
        self._gifts: list[tuple[int, Any]] = []  # (address, handle) of memory that other ranks have, too
        self._zeros = [Span(zero["base"], zero["base"] + zero["size"]) for zero in zeros]

    def reserve(self, relocate: bool) -> list[int]:
        """Place every region; the indices of those whose address is taken (they move if ``relocate``).

        Raises Refused when the device is not there or has too little memory.
        """
        taken = self._place_host(relocate)
        self.driver = driver.Driver()
        try:
            self.driver.use(self.ordinal)
            taken += self._place_device(relocate, place=not taken or relocate)
            if not taken or relocate:
                self._register_host()
                self._place_globals()
                self._map_windows()
        except driver.CudaError as error:
            raise Refused(self._why_not(error)) from error
        return sorted(taken)

    # --- host memory -------------------------------------------------------------------------------

    def _register_host(self) -> None:
        api = self.driver.api
        flags = api.CU_MEMHOSTREGISTER_PORTABLE | api.CU_MEMHOSTREGISTER_DEVICEMAP
        for span in self._host:
            self.driver.call("cuMemHostRegister", span.start, span.size, flags)

    # --- device memory -----------------------------------------------------------------------------

    def _place_device(self, relocate: bool, place: bool) -> list[int]:
        taken: list[int] = []
        for span, inside in self._with_zeros(self._on_device()):
            start = self._reserve_at(span)
            if start is None:
                taken += inside
                if any(span.start <= zeros.start < span.stop for zeros in self._zeros):
                    raise Refused(
                        "the addresses of its memory are in use here, and zeros around it can't be moved"
                    )
                if not relocate:
                    continue
                start = self._reserve_anywhere(span.size)
                self._move(inside, start - span.start)
            if place and (relocate or not taken):
                self._map(inside)
        if place and (relocate or not taken):
            self._map_zeros()
        managed = self._of_kind("managed")
        if managed and place:
            self.notes.append(f"{_named(managed)} was managed memory and is plain device memory here")
        return taken

    def _with_zeros(self, wanted: list[int]) -> list[tuple[Span, list[int]]]:
        """Aligned spans that cover regions and zeros, with the regions in each."""
        count = len(self.regions)
        placed: list[Any] = [*self.regions, *({"base": z.start, "size": z.size} for z in self._zeros)]
        spans = grouped(placed, [*wanted, *range(count, len(placed))], _RESERVE_ALIGNMENT)
        return [(span, [i for i in inside if i < count]) for span, inside in spans]

    def _reserve_at(self, span: Span) -> int | None:
        try:
            address = int(self.driver.call("cuMemAddressReserve", span.size, 0, span.start, 0))
        except driver.CudaError:
            return None
        if address != span.start:
            self.driver.call("cuMemAddressFree", address, span.size)
            return None
        return address

    def _reserve_anywhere(self, size: int) -> int:
        return int(self.driver.call("cuMemAddressReserve", size, _RESERVE_ALIGNMENT, 0, 0))

    @cached_property
    def _granularity(self) -> int:
        least = self.driver.api.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        return int(self.driver.call("cuMemGetAllocationGranularity", self._property(self.ordinal), least))

    def _map(self, inside: list[int]) -> None:
        own = [i for i in inside if not self._is_window(i)]
        for span, owners in grouped(self.regions, own, self._granularity):
            ordinal = self._device_of(owners[0])
            self._pieces.append(span)
            for piece, is_given in split(span, self._given):
                self._map_piece(piece, ordinal, is_given)

    def _map_piece(self, piece: Span, ordinal: int, is_given: bool) -> None:
        handle = self._memory(ordinal, piece.size, is_given)
        self.driver.call("cuMemMap", piece.start, piece.size, 0, handle, 0)
        # Wherever the memory is: it is the launch's own device that reads and writes it.
        self._give_access(piece, sorted({ordinal, self.ordinal}))
        if is_given:
            self._gifts.append((piece.start, handle))
        else:
            self.driver.call("cuMemRelease", handle)  # the mapping keeps it

    def _map_zeros(self) -> None:
        handles: dict[int, Any] = {}
        for zeros in self._zeros:
            at = zeros.start
            while at < zeros.stop:
                size = _ZERO_BLOCK if zeros.stop - at >= _ZERO_BLOCK else self._granularity
                handle = handles.get(size)
                if handle is None:
                    handle = handles[size] = self._memory(self.ordinal, size)
                    self.zero_blocks.append(Span(at, at + size))
                self.driver.call("cuMemMap", at, size, 0, handle, 0)
                at += size
            self._give_access(zeros, [self.ordinal])
        for handle in handles.values():
            self.driver.call("cuMemRelease", handle)

    # --- memory that several ranks have --------------------------------------------------------------

    def _is_window(self, region: int) -> bool:
        return self._ranks is not None and self.regions[region]["window"] is not None

    @cached_property
    def _given(self) -> list[Span]:
        """What other ranks have of this one's memory, in whole granules."""
        ranges = self._ranks["given"] if self._ranks is not None else []
        spans = sorted({_in_granules(base, size, self._granularity) for base, size in ranges})
        if any(after.start < before.stop for before, after in itertools.pairwise(spans)):
            raise Refused("other ranks have windows that overlap in part")
        return spans

    @cached_property
    def _handle_type(self) -> Any:
        return self.driver.api.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

    def _map_windows(self) -> None:
        """Give what others wait for, and then wait for what they give."""
        if self._ranks is None:
            return
        path, rank = self._ranks["handles"], self._ranks["rank"]
        for start, handle in self._gifts:
            fd = int(self.driver.call("cuMemExportToShareableHandle", handle, self._handle_type, 0))
            handles.give(path, f"{rank}/{start:x}", fd)
            self.driver.call("cuMemRelease", handle)
        for region in self.regions:
            if region["window"] is not None:
                self._map_window(region, region["window"], path)

    def _map_window(self, region: PlacedRegion, window: JobWindow, path: str) -> None:
        theirs = _in_granules(window["base"], region["size"], self._granularity)
        mine = _in_granules(region["base"], region["size"], self._granularity)
        if (window["base"] - region["base"]) % self._granularity:
            raise Refused("memory of another rank does not begin there as its window does here")
        fd = handles.take(path, f"{window['rank']}/{theirs.start:x}")
        try:
            handle = self.driver.call("cuMemImportFromShareableHandle", fd, self._handle_type)
        finally:
            os.close(fd)
        self.driver.call("cuMemMap", mine.start, mine.size, 0, handle, 0)
        self._give_access(mine, [self.ordinal])
        self.driver.call("cuMemRelease", handle)

    def _memory(self, ordinal: int, size: int, is_given: bool = False) -> Any:
        """Physical memory of a device; ``is_given``: other processes get handles of it."""
        prop = self._property(ordinal)
        if is_given:
            prop.requestedHandleTypes = self._handle_type
        return self.driver.call("cuMemCreate", size, prop, 0)

    def _give_access(self, span: Span, ordinals: list[int]) -> None:
        access = []
        for ordinal in ordinals:
            access.append(self.driver.api.CUmemAccessDesc())
            access[-1].location = self._location(ordinal)
            access[-1].flags = self.driver.api.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self.driver.call("cuMemSetAccess", span.start, span.size, access, len(access))

    def _allocate(self, size: int) -> int:
        return int(self.driver.call("cuMemAlloc", size))

    # --- other devices -----------------------------------------------------------------------------

    def _device_of(self, region: int) -> int:
        captured = self.regions[region]["device"]
        if captured in (-1, self._captured_device):
            return self.ordinal
        why = self._out_of_reach(captured)
        if not why:
            return int(captured)
        self.notes.append(
            f"region {region} was on CUDA device {captured} and is on the launch's own here: {why}"
        )
        return self.ordinal

    def _out_of_reach(self, ordinal: int) -> str:
        """Why memory can't be placed on another device; nothing if it can."""
        if ordinal >= self.driver.call("cuDeviceGetCount") or ordinal == self.ordinal:
            return "there is no such other device"
        if not self._peers:
            return "this engine uses one device"
        try:
            reachable = self.driver.call("cuDeviceCanAccessPeer", self.ordinal, ordinal)
        except driver.CudaError:
            reachable = False
        return "" if reachable else f"device {self.ordinal} can't access it"

    def _property(self, ordinal: int) -> Any:
        api = self.driver.api
        prop = api.CUmemAllocationProp()
        prop.type = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location = self._location(ordinal)
        return prop

    def _location(self, ordinal: int) -> Any:
        location = self.driver.api.CUmemLocation()
        location.type = self.driver.api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        location.id = ordinal
        return location

    # --- common ------------------------------------------------------------------------------------

    @property
    def mapped(self) -> list[Span]:
        """All that is mapped for regions; what of it lies in none must not be written."""
        return [*self._pieces, *self._host]

    def is_lost(self) -> bool:
        """Whether the context is broken, as after an illegal access: nothing works in it any more."""
        return self.driver.status("cuCtxSynchronize") != 0

    def _why_not(self, error: driver.CudaError) -> str:
        if error.name == "CUDA_ERROR_NO_DEVICE":
            return "the CUDA driver finds no device here"
        if error.name == "CUDA_ERROR_OUT_OF_MEMORY":
            total = sum(region["size"] for region in self.regions)
            return f"the device has no room for {total:,} bytes of captured memory ({error})"
        return f"device memory could not be placed: {error}"


def _in_granules(base: int, size: int, granularity: int) -> Span:
    return Span(base // granularity * granularity, -(-(base + size) // granularity) * granularity)


def split(span: Span, given: Sequence[Span]) -> list[tuple[Span, bool]]:
    """The parts of a span, each with whether it is one of those that are ``given``."""
    parts, at = [], span.start
    for part in given:
        if part.start >= at and part.stop <= span.stop:
            if part.start > at:
                parts.append((Span(at, part.start), False))
            parts.append((part, True))
            at = part.stop
    return [*parts, (Span(at, span.stop), False)] if at < span.stop else parts


def _named(regions: list[int]) -> str:
    if len(regions) == 1:
        return f"region {regions[0]}"
    shown = ", ".join(map(str, regions[:8]))
    return f"each of the regions {shown}{' and others' if len(regions) > 8 else ''}"
