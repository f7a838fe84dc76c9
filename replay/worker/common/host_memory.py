"""Host memory at captured addresses: `mmap(MAP_FIXED_NOREPLACE)`, best before torch is loaded.

The pages are shared with forked children, so a launch can run in a child of its own: a crash there
costs neither the memory nor the process that has torch and triton loaded.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from typing import Any

from ..job import JobRegion
from .address_layout import Span, gaps, grouped

_MAP_FIXED_NOREPLACE = 0x100000  # Linux 4.17; older kernels take the address as a hint only
_MAP_NORESERVE = 0x4000
_MAP_FAILED = ctypes.c_void_p(-1).value


def map_pages(address: int, size: int, fixed: bool) -> int | None:
    """The address of new zero pages, or None when ``address`` is taken."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    ]  # fmt: skip
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    if fixed:
        flags |= _MAP_FIXED_NOREPLACE
    got = libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if got == _MAP_FAILED:
        if fixed:
            return None
        raise OSError(ctypes.get_errno(), f"mmap of {size} bytes: {os.strerror(ctypes.get_errno())}")
    if fixed and got != address:
        libc.munmap(got, size)
        return None
    return int(got)


class HostMemory:
    """Regions on the host. ``reserve`` finds them free more surely before torch and numpy are imported."""

    kind = "host"

    def __init__(self, regions: Sequence[JobRegion]) -> None:
        self.regions: list[JobRegion] = [{**region} for region in regions]
        self.relocated: dict[int, int] = {}  # region -> where it was captured
        self._spans: list[Span] = []

    def reserve(self, relocate: bool) -> list[int]:
        """Place every region; the indices of those whose address is taken (they move if ``relocate``)."""
        taken: list[int] = []
        for span, inside in grouped(self.regions, range(len(self.regions)), mmap.PAGESIZE):
            if map_pages(span.start, span.size, fixed=True) is not None:
                self._spans.append(span)
                continue
            taken += inside
            if relocate:
                start = map_pages(0, span.size, fixed=False)
                assert start is not None
                self._spans.append(Span(start, start + span.size))
                for i in inside:
                    self.relocated[i] = self.regions[i]["base"]
                    self.regions[i]["base"] += start - span.start
        return taken

    def open(self, torch: Any) -> None:
        """Wrap the placed pages as tensors; nothing is copied."""
        self._torch = torch
        # A pool of threads would not survive the fork that a launch runs in.
        torch.set_num_threads(1)

    def tensor(self, region: int, offset: int, size: int) -> Any:
        """``size`` bytes of a region from ``offset`` on, as uint8."""
        if size == 0:
            return self._torch.empty(0, dtype=self._torch.uint8)
        return self._at(self.regions[region]["base"] + offset, size)

    def gap_tensors(self) -> list[tuple[int, Any]]:
        """(address, bytes) of the rest of every page that holds a region."""
        return [(gap.start, self._at(gap.start, gap.size)) for gap in gaps(self.regions, self._spans)]

    def zero_tensors(self) -> list[tuple[int, Any]]:
        """None: on the host a launch gets views, which lie in regions."""
        return []

    def _at(self, address: int, size: int) -> Any:
        return self._torch.frombuffer((ctypes.c_ubyte * size).from_address(address), dtype=self._torch.uint8)

    def to_device(self, tensor: Any) -> Any:
        return tensor

    def room_for(self, size: int) -> bool:
        """Whether a second copy of ``size`` bytes may be kept; staged files are mapped, so never needed."""
        return False

    def synchronize(self) -> None:
        """Nothing runs behind our back on the host."""
