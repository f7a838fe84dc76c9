"""Device memory at captured addresses, through the driver's virtual memory calls.

A reservation's address hint is honoured only on 32 MiB granules, and success may come with another address.
So the 32 MiB-aligned superset of the regions is reserved, before torch takes any memory, and physical 2 MiB
pieces are mapped only where regions lie.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .. import driver
from ..failures import Refused
from .layout import Span, gaps, supersets

_RESERVE_ALIGNMENT = 32 * 1024 * 1024
_STAGING_BYTES = 16 * 1024 * 1024


class _Bytes:
    """Placed device memory as torch takes it without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 2
        }  # fmt: skip


class CudaMemory:
    """Regions on one CUDA device. ``reserve`` must run before torch is imported."""

    kind = "cuda"

    def __init__(self, regions: Sequence[dict[str, Any]], device: int) -> None:
        self.regions = [dict(region) for region in regions]
        self.relocated: dict[int, int] = {}
        self.ordinal = device
        self.driver = driver.Driver()
        self._pieces: list[Span] = []
        self._context = ctypes.c_void_p()

    def reserve(self, relocate: bool) -> list[int]:
        """Place every region; the indices of those whose address is taken (they move if ``relocate``).

        Raises Refused when the device is not there or has too little memory.
        """
        try:
            self._make_context()
            taken: list[int] = []
            for span in supersets(self.regions, _RESERVE_ALIGNMENT):
                inside = [
                    i for i, r in enumerate(self.regions) if r["size"] and span.start <= r["base"] < span.stop
                ]
                start = self._reserve_at(span)
                if start is None:
                    taken += inside
                    if not relocate:
                        continue
                    start = self._reserve_anywhere(span.size)
                    for i in inside:
                        self.relocated[i] = self.regions[i]["base"]
                        self.regions[i]["base"] += start - span.start
                if not taken or relocate:
                    self._map([self.regions[i] for i in inside])
        except driver.CudaError as error:
            raise Refused(f"device memory could not be placed: {error}") from error
        return taken

    def _make_context(self) -> None:
        device = ctypes.c_int()
        self.driver.call("cuInit", ctypes.c_uint(0))
        self.driver.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(self.ordinal))
        # The primary context is the one that torch and Triton use.
        self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.driver.call("cuCtxSetCurrent", self._context)

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

    def _map(self, regions: list[dict[str, Any]]) -> None:
        prop = driver.MemAllocationProp()
        prop.type = driver.MEM_ALLOCATION_TYPE_PINNED
        prop.location = driver.MemLocation(driver.MEM_LOCATION_TYPE_DEVICE, self.ordinal)
        granularity = ctypes.c_size_t()
        self.driver.call(
            "cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(prop), ctypes.c_int(0)
        )
        access = driver.MemAccessDesc(prop.location, driver.MEM_ACCESS_READWRITE)
        for piece in supersets(regions, granularity.value):
            handle = ctypes.c_uint64()
            size, start = ctypes.c_size_t(piece.size), ctypes.c_uint64(piece.start)
            self.driver.call(
                "cuMemCreate", ctypes.byref(handle), size, ctypes.byref(prop), ctypes.c_uint64(0)
            )
            self.driver.call("cuMemMap", start, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
            self.driver.call("cuMemSetAccess", start, size, ctypes.byref(access), ctypes.c_size_t(1))
            self.driver.call("cuMemRelease", handle)  # the mapping keeps it
            self._pieces.append(piece)

    def open(self, torch: Any) -> None:
        """Make torch use the device; the regions are not copied."""
        self._torch = torch
        self._device = torch.device("cuda", self.ordinal)
        torch.cuda.set_device(self._device)
        self._staging = torch.empty(_STAGING_BYTES, dtype=torch.uint8, pin_memory=True)

    def tensor(self, region: int, offset: int, size: int) -> Any:
        """``size`` bytes of a region from ``offset`` on, as uint8."""
        if size == 0:
            return self._torch.empty(0, dtype=self._torch.uint8, device=self._device)
        return self._at(self.regions[region]["base"] + offset, size)

    def gap_tensors(self) -> list[tuple[int, Any]]:
        """(address, bytes) of what is mapped beside the regions."""
        return [(gap.start, self._at(gap.start, gap.size)) for gap in gaps(self.regions, self._pieces)]

    def _at(self, address: int, size: int) -> Any:
        return self._torch.as_tensor(_Bytes(address, size), device=self._device)

    def to_device(self, tensor: Any) -> Any:
        """The tensor on the device; host bytes go through a pinned buffer (pageable is 60 times slower)."""
        if tensor.is_cuda:
            return tensor
        if tensor.dtype != self._torch.uint8 or not tensor.is_contiguous():
            return tensor.to(self._device)
        out = self._torch.empty(tensor.shape, dtype=tensor.dtype, device=self._device)
        for start in range(0, tensor.numel(), _STAGING_BYTES):
            part = tensor[start : start + _STAGING_BYTES]
            buffer = self._staging[: part.numel()]
            buffer.copy_(part)
            out[start : start + part.numel()].copy_(buffer)  # blocks: the buffer is used again
        return out

    def room_for(self, size: int) -> bool:
        """Whether ``size`` more bytes fit on the device with some to spare."""
        free, _ = self._torch.cuda.mem_get_info(self._device)
        return bool(size * 1.25 < free)

    def synchronize(self) -> None:
        self._torch.cuda.synchronize(self._device)

    def is_lost(self) -> bool:
        """Whether the context is broken, as after an illegal access: nothing works in it any more."""
        return self.driver.status("cuCtxSynchronize") != 0
