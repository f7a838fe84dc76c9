"""What is the same of every device: where its regions are, and those of the host among them."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from ..job import JobRegion, PlacedRegion
from .address_layout import Span, grouped
from .host_memory import map_pages

_GLOBAL_ALIGNMENT = 256
_VIRTUAL_TABLE = "_ZTV"  # Source: Itanium C++ ABI, "Virtual Tables and RTTI"


def is_own_global(region: JobRegion) -> bool:
    """Whether a region is a variable of the kernel's own module."""
    return bool(region["kind"] == "global" and not region.get("module", 0))


def is_virtual_table(name: str | None) -> bool:
    """Whether a variable is what calls of a class's virtual functions go by."""
    return bool(name and name.startswith(_VIRTUAL_TABLE))


def is_placed(region: JobRegion) -> bool:
    """Whether a region has to lie at its captured address. The driver places variables and arrays."""
    return not is_own_global(region) and region["kind"] != "array"


class PlacedRegions:
    """Regions of a launch on device ``ordinal``, which was ``captured_device``, and around it."""

    def __init__(self, regions: Sequence[JobRegion], ordinal: int, captured_device: int) -> None:
        self.regions: list[PlacedRegion] = [{**region, "captured": region["base"]} for region in regions]
        self.relocated: dict[int, int] = {}  # region -> where it was captured
        self.notes: list[str] = []
        self.ordinal = ordinal
        self.zero_blocks: list[Span] = []  # the pages behind all ranges of zeros, each mapped here too
        self._captured_device = captured_device
        self._host: list[Span] = []

    def _of_kind(self, kind: str) -> list[int]:
        return [i for i, region in enumerate(self.regions) if region["kind"] == kind and region["size"]]

    def _on_device(self) -> list[int]:
        return [
            i
            for i, region in enumerate(self.regions)
            if region["size"] and region["kind"] != "host" and is_placed(region)
        ]

    def _place_host(self, relocate: bool) -> list[int]:
        """Map what was host memory; the regions whose address is taken, which move if ``relocate``."""
        taken: list[int] = []
        for span, inside in grouped(self.regions, self._of_kind("host"), mmap.PAGESIZE):
            if map_pages(span.start, span.size, fixed=True) is not None:
                self._host.append(span)
                continue
            taken += inside
            if relocate:
                start = map_pages(0, span.size, fixed=False)
                assert start is not None
                self._host.append(Span(start, start + span.size))
                self._move(inside, start - span.start)
        return taken

    def _move(self, indices: list[int], by: int) -> None:
        for i in indices:
            self.relocated[i] = self.regions[i]["base"]
            self.regions[i]["base"] += by

    def _place_globals(self) -> None:
        """A home for what the states say of the module's variables and of arrays, wherever there is room."""
        own = [i for i, region in enumerate(self.regions) if not is_placed(region)]
        total = 0
        for i in own:
            self.regions[i]["captured"] = self.regions[i]["base"]
            self.regions[i]["base"] = total
            total += -(-self.regions[i]["size"] // _GLOBAL_ALIGNMENT) * _GLOBAL_ALIGNMENT
        if total:
            start = self._allocate(total)
            for i in own:
                self.regions[i]["base"] += start

    def _allocate(self, size: int) -> int:
        """The address of plain device memory."""
        raise NotImplementedError
