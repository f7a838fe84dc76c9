"""Where the regions of a HIP launch are: each at its captured address, for any kind of memory.

An AMD GPU's addresses are the process's own, so whatever this process maps may lie in the way: the ranges
are held before ROCr is loaded, and released one by one just before they are reserved. A reservation's address
is a hint, and success may come with another one. Host memory is mapped at its address and locked; where the
GPU would see it elsewhere it becomes device memory, and so does managed memory. A variable of the kernel's
code object lies where the loader puts it; its states are kept in a copy of it, which has no captured address.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from ..common.address_layout import Span, grouped, supersets
from ..common.failures import Refused
from ..common.placed_regions import PlacedRegions
from ..job import JobRegion
from . import hsa
from .held_addresses import Hold, unmap

_NEEDED = ("hsa_amd_vmem_address_reserve", "hsa_amd_vmem_handle_create", "hsa_amd_vmem_map")

Regions = Sequence[JobRegion]


class Placement(PlacedRegions):
    """Regions on one AMD GPU and around it. ``reserve`` must run before numpy is loaded."""

    kind = "hip"

    def __init__(self, regions: Regions, device: int, captured_device: int = 0) -> None:
        super().__init__(regions, device, captured_device)
        self.agent = 0
        self.device_pool = 0
        self._mapped: list[tuple[Span, int]] = []  # with the handle of the memory
        self._globals = 0

    def reserve(self, relocate: bool) -> list[int]:
        """Place every region; the indices of those whose address is taken (they move if ``relocate``).

        Raises Refused when the device is not there, too small, or of a ROCm that can't place memory.
        """
        hold = Hold(supersets([self.regions[i] for i in self._on_device()], mmap.PAGESIZE))
        taken = self._place_host(relocate)
        self.runtime = hsa.Runtime()
        try:
            self.runtime.start()
            self._choose_device()
            if not taken or relocate:
                self._lock_host()
            taken += self._place_device(relocate, hold, place=not taken or relocate)
            if not taken or relocate:
                self._place_globals()
                self._say_what_is_other()
        except hsa.HsaError as error:
            raise Refused(self._why_not(error)) from error
        finally:
            hold.release()
        return sorted(taken)

    # --- host memory -------------------------------------------------------------------------------

    def _lock_host(self) -> None:
        """Let the GPU see host memory where the host has it; what it would see elsewhere leaves the host."""
        kept = []
        for span in self._host:
            if self.runtime.lock(self.agent, span.start, span.size) == span.start:
                kept.append(span)
                continue
            self.runtime.call("hsa_amd_memory_unlock", span.start)
            unmap(span)
            for i in self._inside(list(range(len(self.regions))), span):
                self.regions[i]["kind"] = "device"
                self.notes.append(f"region {i} was host memory and is plain device memory here")
        self._host = kept

    # --- device memory -----------------------------------------------------------------------------

    def _choose_device(self) -> None:
        gpus = self.runtime.agents(hsa.DEVICE_TYPE_GPU)
        if self.ordinal >= len(gpus):
            raise Refused(f"there is no AMD GPU {self.ordinal} here: ROCm shows {len(gpus)}")
        self.agent = gpus[self.ordinal]
        vmem = all(map(self.runtime.has, _NEEDED)) and self.runtime.system(
            hsa.SYSTEM_VIRTUAL_MEM_API_SUPPORTED, 1
        )
        if not vmem:
            raise Refused(
                f"this ROCm (ROCr {self.runtime.version}) can't place memory at given addresses: its virtual "
                "memory API (hsa_amd_vmem_*) came with ROCm 6.1; use a newer ROCm"
            )
        self.device_pool = self._coarse_pool()
        self._granule = self.runtime.number(
            "hsa_amd_memory_pool_get_info", self.device_pool, hsa.POOL_ALLOC_GRANULE, 8
        )

    def _coarse_pool(self) -> int:
        for pool in self.runtime.pools(self.agent):
            segment = self.runtime.number("hsa_amd_memory_pool_get_info", pool, hsa.POOL_SEGMENT)
            if segment != hsa.SEGMENT_GLOBAL:
                continue
            flags = self.runtime.number("hsa_amd_memory_pool_get_info", pool, hsa.POOL_GLOBAL_FLAGS)
            if flags & hsa.POOL_FLAG_COARSE_GRAINED:
                return pool
        raise Refused(f"AMD GPU {self.ordinal} shows no device memory")

    def _place_device(self, relocate: bool, hold: Hold, place: bool) -> list[int]:
        taken: list[int] = []
        wanted = self._on_device()
        for span, inside in grouped(self.regions, wanted, self._granule):
            hold.release(span)
            start = self.runtime.reserve(span.size, span.start)
            if start != span.start:
                self.runtime.call("hsa_amd_vmem_address_free", start, span.size)
                taken += inside
                if not relocate:
                    continue
                start = self.runtime.reserve(span.size, 0)
                self._move(inside, start - span.start)
            if place and (relocate or not taken):
                self._map(Span(start, start + span.size))
        return taken

    def _map(self, span: Span) -> None:
        handle = self.runtime.vmem(self.device_pool, span.size)
        self.runtime.map(span.start, span.size, handle)
        self._mapped.append((span, handle))
        self.runtime.let_access(self.agent, span.start, span.size)

    def _allocate(self, size: int) -> int:
        self._globals = self.runtime.allocate(self.device_pool, size)
        return self._globals

    def _say_what_is_other(self) -> None:
        for i in self._on_device():
            region = self.regions[i]
            if region["kind"] == "managed":
                self.notes.append(f"region {i} was managed memory and is plain device memory here")
            if region["device"] not in (-1, self._captured_device):
                self.notes.append(f"region {i} was on AMD GPU {region['device']}, here it is on the launch's")

    # --- common ------------------------------------------------------------------------------------

    @property
    def mapped(self) -> list[Span]:
        """All that is mapped for regions; what of it lies in none must not be written."""
        return [*(span for span, _ in self._mapped), *self._host]

    def is_on_host(self, address: int) -> bool:
        """Whether the host may touch memory at an address of a region."""
        return any(span.start <= address < span.stop for span in self._host)

    def is_lost(self) -> bool:
        """Whether the device has stopped working for this process."""
        return bool(self.runtime.lost)

    def close(self) -> None:
        """Give everything back and end ROCr, which does not survive its end with memory still mapped."""
        for span, handle in self._mapped:
            self.runtime.status("hsa_amd_vmem_unmap", span.start, span.size)
            self.runtime.status("hsa_amd_vmem_handle_release", handle)
            self.runtime.status("hsa_amd_vmem_address_free", span.start, span.size)
        self._mapped = []
        for span in self._host:
            self.runtime.status("hsa_amd_memory_unlock", span.start)
        if self._globals:
            self.runtime.status("hsa_amd_memory_pool_free", self._globals)
        self.runtime.status("hsa_shut_down")

    def _inside(self, indices: list[int], span: Span) -> list[int]:
        return [i for i in indices if span.start <= self.regions[i]["base"] < span.stop]

    def _why_not(self, error: hsa.HsaError) -> str:
        if error.status in (hsa.ERROR_OUT_OF_RESOURCES, hsa.ERROR_INVALID_ALLOCATION) and self.agent:
            total = sum(region["size"] for region in self.regions)
            return f"the device has no room for {total:,} bytes of captured memory ({error})"
        if not self.agent:
            return f"ROCm does not start here: {error}"
        return f"device memory could not be placed: {error}"
