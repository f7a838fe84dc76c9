"""Where the regions of a CUDA launch lie: each at its captured address, whatever kind of memory it was.

A reservation's address hint is honoured only on 32 MiB granules, and success may come with another address.
So the 32 MiB-aligned superset of the regions is reserved, before anything takes memory, and physical 2 MiB
pieces are mapped only where regions lie. Pinned host memory is mapped at its address first, before the
driver maps anything, and registered once there is a context. Managed memory can't be placed: it becomes plain
device memory. Ranges of zeros are the same few pages, mapped again and again, so that a launch may read them
and what it writes there is seen. A variable of the kernel's module lies where the driver loads the module;
its states are kept in a copy of it, which has no captured address. So are an array's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..common.address_layout import Span, grouped
from ..common.failures import Refused
from ..common.placed_regions import PlacedRegions
from ..job import JobRegion, JobZeros
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
        zeros: Sequence[JobZeros] = (),
    ) -> None:  # fmt: skip
        super().__init__(regions, device, captured_device)
        self._peers = peers
        self._pieces: list[Span] = []
        self._zeros = [Span(zero["base"], zero["base"] + zero["size"]) for zero in zeros]
        self._context = ctypes.c_void_p()

    def reserve(self, relocate: bool) -> list[int]:
        """Place every region; the indices of those whose address is taken (they move if ``relocate``).

        Raises Refused when the device is not there or has too little memory.
        """
        taken = self._place_host(relocate)
        self.driver = driver.Driver()
        try:
            self._make_context()
            taken += self._place_device(relocate, place=not taken or relocate)
            if not taken or relocate:
                self._register_host()
                self._place_globals()
        except driver.CudaError as error:
            raise Refused(self._why_not(error)) from error
        return sorted(taken)

    # --- host memory -------------------------------------------------------------------------------

    def _register_host(self) -> None:
        flags = ctypes.c_uint(driver.MEM_HOST_REGISTER_PORTABLE | driver.MEM_HOST_REGISTER_DEVICE_MAP)
        for span in self._host:
            self.driver.call(
                "cuMemHostRegister_v2", ctypes.c_void_p(span.start), ctypes.c_size_t(span.size), flags
            )

    # --- device memory -----------------------------------------------------------------------------

    def _make_context(self) -> None:
        device = ctypes.c_int()
        self.driver.call("cuInit", ctypes.c_uint(0))
        self.driver.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(self.ordinal))
        # The primary context is the one that torch and Triton use.
        self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.driver.call("cuCtxSetCurrent", self._context)

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
        address = ctypes.c_uint64()
        status = self.driver.status(
            "cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(span.size),
            ctypes.c_size_t(0), ctypes.c_uint64(span.start), ctypes.c_uint64(0),
        )  # fmt: skip
        if status:
            return None
        if address.value != span.start:
            self.driver.call("cuMemAddressFree", address, ctypes.c_size_t(span.size))
            return None
        return int(address.value)

    def _reserve_anywhere(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.driver.call(
            "cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size),
            ctypes.c_size_t(_RESERVE_ALIGNMENT), ctypes.c_uint64(0), ctypes.c_uint64(0),
        )  # fmt: skip
        return int(address.value)

    @cached_property
    def _granularity(self) -> int:
        own, granularity = self._property(self.ordinal), ctypes.c_size_t()
        self.driver.call(
            "cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(own), ctypes.c_int(0)
        )
        return granularity.value

    def _map(self, inside: list[int]) -> None:
        for piece, owners in grouped(self.regions, inside, self._granularity):
            self._map_piece(piece, self._device_of(owners[0]))
            self._pieces.append(piece)

    def _map_piece(self, piece: Span, ordinal: int) -> None:
        prop = self._property(ordinal)
        handle = ctypes.c_uint64()
        size, start = ctypes.c_size_t(piece.size), ctypes.c_uint64(piece.start)
        self.driver.call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(prop), ctypes.c_uint64(0))
        self.driver.call("cuMemMap", start, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        # Wherever the memory is: it is the launch's own device that reads and writes it.
        users = sorted({ordinal, self.ordinal})
        access = (driver.MemAccessDesc * len(users))(
            *(driver.MemAccessDesc(self._property(i).location, driver.MEM_ACCESS_READWRITE) for i in users)
        )
        self.driver.call("cuMemSetAccess", start, size, access, ctypes.c_size_t(len(users)))
        self.driver.call("cuMemRelease", handle)  # the mapping keeps it

    def _map_zeros(self) -> None:
        handles: dict[int, ctypes.c_uint64] = {}
        prop = self._property(self.ordinal)
        access = driver.MemAccessDesc(prop.location, driver.MEM_ACCESS_READWRITE)
        for zeros in self._zeros:
            at = zeros.start
            while at < zeros.stop:
                whole = zeros.stop - at >= _ZERO_BLOCK
                size = ctypes.c_size_t(_ZERO_BLOCK if whole else self._granularity)
                handle = handles.get(size.value)
                if handle is None:
                    handle = handles[size.value] = ctypes.c_uint64()
                    self.driver.call(
                        "cuMemCreate", ctypes.byref(handle), size, ctypes.byref(prop), ctypes.c_uint64(0)
                    )
                    self.zero_blocks.append(Span(at, at + size.value))
                start = ctypes.c_uint64(at)
                self.driver.call("cuMemMap", start, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
                at += size.value
            self.driver.call(
                "cuMemSetAccess", ctypes.c_uint64(zeros.start), ctypes.c_size_t(zeros.size),
                ctypes.byref(access), ctypes.c_size_t(1),
            )  # fmt: skip
        for handle in handles.values():
            self.driver.call("cuMemRelease", handle)

    def _allocate(self, size: int) -> int:
        start = ctypes.c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(start), ctypes.c_size_t(size))
        return start.value

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
        count, reachable = ctypes.c_int(), ctypes.c_int()
        self.driver.call("cuDeviceGetCount", ctypes.byref(count))
        if ordinal >= count.value or ordinal == self.ordinal:
            return "there is no such other device"
        if not self._peers:
            return "this engine uses one device"
        status = self.driver.status(
            "cuDeviceCanAccessPeer", ctypes.byref(reachable), ctypes.c_int(self.ordinal),
            ctypes.c_int(ordinal),
        )  # fmt: skip
        if status or not reachable.value:
            return f"device {self.ordinal} can't access it"
        return ""

    @staticmethod
    def _property(ordinal: int) -> driver.MemAllocationProp:
        prop = driver.MemAllocationProp()
        prop.type = driver.MEM_ALLOCATION_TYPE_PINNED
        prop.location = driver.MemLocation(driver.MEM_LOCATION_TYPE_DEVICE, ordinal)
        return prop

    # --- common ------------------------------------------------------------------------------------

    @property
    def mapped(self) -> list[Span]:
        """All that is mapped for regions; what of it lies in none must not be written."""
        return [*self._pieces, *self._host]

    def is_lost(self) -> bool:
        """Whether the context is broken, as after an illegal access: nothing works in it any more."""
        return self.driver.status("cuCtxSynchronize") != 0

    def _why_not(self, error: driver.CudaError) -> str:
        if error.status == driver.ERROR_NO_DEVICE:
            return "the CUDA driver finds no device here"
        if error.status == driver.ERROR_OUT_OF_MEMORY:
            total = sum(region["size"] for region in self.regions)
            return f"the device has no room for {total:,} bytes of captured memory ({error})"
        return f"device memory could not be placed: {error}"


def _named(regions: list[int]) -> str:
    if len(regions) == 1:
        return f"region {regions[0]}"
    shown = ", ".join(map(str, regions[:8]))
    return f"each of the regions {shown}{' and others' if len(regions) > 8 else ''}"
