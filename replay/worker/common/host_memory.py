"""Host memory at captured addresses: `mmap(MAP_FIXED_NOREPLACE)`, best before torch is loaded.

The pages are shared with forked children, so a launch can run in a child of its own: a crash there
costs neither the memory nor the process that has torch and triton loaded. They are those of a file in memory,
whose holes are what nobody has touched.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..job import JobRegion
from .address_layout import Span, gaps, grouped
from .byte_ranges import Range, data_of
from .libc import MAP_FAILED, libc

_MAP_FIXED_NOREPLACE = 0x100000  # Linux 4.17; older kernels take the address as a hint only
_MAP_NORESERVE = 0x4000
_MADV_REMOVE, _MADV_NOHUGEPAGE = 9, 15


def map_pages(address: int, size: int, fixed: bool, file: int | None = None, offset: int = 0) -> int | None:
    """The address of new zero pages, or of those of a file; None when ``address`` is taken."""
    flags = mmap.MAP_SHARED | _MAP_NORESERVE | (mmap.MAP_ANONYMOUS if file is None else 0)
    if fixed:
        flags |= _MAP_FIXED_NOREPLACE
    rights = mmap.PROT_READ | mmap.PROT_WRITE
    got = libc().mmap(address, size, rights, flags, -1 if file is None else file, offset)
    if got == MAP_FAILED:
        if fixed:
            return None
        raise OSError(ctypes.get_errno(), f"mmap of {size} bytes: {os.strerror(ctypes.get_errno())}")
    if fixed and got != address:
        libc().munmap(got, size)
        return None
    if file is not None:  # a huge page would count as touched by who touches a byte of it
        libc().madvise(ctypes.c_void_p(got), ctypes.c_size_t(size), _MADV_NOHUGEPAGE)
    return int(got)


class HostMemory:
    """Regions on the host. ``reserve`` finds them free more surely before torch and numpy are imported."""

    kind = "host"

    def __init__(self, regions: Sequence[JobRegion]) -> None:
        self.regions: list[JobRegion] = [{**region} for region in regions]
        self.relocated: dict[int, int] = {}  # region -> where it was captured
        self._spans: list[Span] = []
        self._file: int | None = None
        self._places: list[tuple[int, int]] = []  # of each span: the address, where it is in the file

    def reserve(self, relocate: bool) -> list[int]:
        """Place every region; the indices of those whose address is taken (they move if ``relocate``)."""
        taken: list[int] = []
        spans = grouped(self.regions, range(len(self.regions)), mmap.PAGESIZE)
        self._file = _file_of(sum(span.size for span, _ in spans))
        offset = 0
        for span, inside in spans:
            start = map_pages(span.start, span.size, True, self._file, offset)
            if start is None:
                taken += inside
                if not relocate:
                    continue
                start = map_pages(0, span.size, False, self._file, offset)
                assert start is not None
                for i in inside:
                    self.relocated[i] = self.regions[i]["base"]
                    self.regions[i]["base"] += start - span.start
            self._spans.append(Span(start, start + span.size))
            self._places.append((start, offset))
            offset += span.size
        self._places.sort()
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

    def touched(self, region: int) -> list[Range]:
        """The parts of a region that anybody has accessed since they were forgotten; the rest is zero."""
        size = self.regions[region]["size"]
        if self._file is None or not size:
            return [(0, size)]
        base = self.regions[region]["base"]
        start, offset = self._places[bisect_right(self._places, (base, sys.maxsize)) - 1]
        return data_of(self._file, offset + base - start, size)

    def forget(self, region: int, start: int, stop: int) -> None:
        """Make bytes zero, and whole pages untouched."""
        base = self.regions[region]["base"]
        low, high = -(-(base + start) // mmap.PAGESIZE), (base + stop) // mmap.PAGESIZE
        if low >= high or self._file is None or _remove(low * mmap.PAGESIZE, (high - low) * mmap.PAGESIZE):
            self.tensor(region, start, stop - start).zero_()
            return
        for first, end in ((start, low * mmap.PAGESIZE - base), (high * mmap.PAGESIZE - base, stop)):
            self.tensor(region, first, end - first).zero_()

    def to_device(self, tensor: Any) -> Any:
        return tensor

    def room_for(self, size: int) -> bool:
        """Whether a second copy of ``size`` bytes may be kept; staged files are mapped, so never needed."""
        return False

    def synchronize(self) -> None:
        """Nothing runs behind our back on the host."""


def _file_of(size: int) -> int | None:
    """A file in memory; None if the system has none."""
    try:
        file = os.memfd_create("kerncap", os.MFD_CLOEXEC)
    except OSError:
        return None
    try:
        os.ftruncate(file, size)
    except OSError:
        os.close(file)
        return None
    return file


def _remove(address: int, size: int) -> bool:
    """Give pages back, which are zero from then on; whether that failed."""
    failed: int = libc().madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _MADV_REMOVE)
    return failed != 0
