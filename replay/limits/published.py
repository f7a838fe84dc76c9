"""Ceilings of AMD's accelerators from public documents: no run reaches them, and none was measured.

Source: AMD's data sheets of each (compute units, clocks, memory); CDNA 2, 3 and 4 architecture papers (128
bytes per clock from each channel of the L2 cache). The last cache is the Infinity Cache, if there is one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from kerncap.replay.limits import peaks
from kerncap.replay.limits.ceilings import Ceilings

_L2_BYTES_PER_CLOCK = 128  # of a channel


class _Chip(NamedTuple):
    arch: str
    units: int
    mhz: int
    l2_channels: int
    memory_mhz: int
    memory_bits: int
    cache_mib: int


_CHIPS = {
    "MI210": _Chip("gfx90a", 104, 1700, 32, 1600, 4096, 8),
    "MI250": _Chip("gfx90a", 104, 1700, 32, 1600, 4096, 8),  # of one of its two devices
    "MI250X": _Chip("gfx90a", 110, 1700, 32, 1600, 4096, 8),  # the same
    "MI300A": _Chip("gfx942", 228, 2100, 96, 2600, 8192, 256),
    "MI300X": _Chip("gfx942", 304, 2100, 128, 2600, 8192, 256),
    "MI325X": _Chip("gfx942", 304, 2100, 128, 3000, 8192, 256),
    "MI350X": _Chip("gfx950", 256, 2200, 128, 4000, 8192, 256),
    "MI355X": _Chip("gfx950", 256, 2400, 128, 4000, 8192, 256),
}


def names() -> list[str]:
    """Of the accelerators that are known here."""
    return [f"AMD Instinct {name}" for name in _CHIPS]


def of(device: str) -> Ceilings | None:
    """The ceilings of a device by its name; None if it is not known here.

    Of one that is partitioned they are those of the whole, and of a name that stands for two models
    ("AMD Instinct MI250X / MI250") those of the first.
    """
    found = re.search(r"\bMI\d{3}[AX]?\b", device)
    if found is None or found[0] not in _CHIPS:
        return None
    chip = _CHIPS[found[0]]
    bare = Ceilings(
        device=f"AMD Instinct {found[0]}", arch=chip.arch, driver="", sm_count=chip.units,
        clock_khz=1000 * chip.mhz, memory_clock_khz=1000 * chip.memory_mhz,
        memory_bus_bits=chip.memory_bits, l2_bytes=chip.cache_mib << 20, rates={}, origin="published",
    )  # fmt: skip
    rates = {f"{kind}_per_s": each for kind, each in peaks.all_operations_per_s(bare).items()}
    rates["dram_copy_bytes_per_s"] = peaks.dram_bytes_per_s(bare) or 0.0
    rates["l2_bytes_per_s"] = chip.l2_channels * _L2_BYTES_PER_CLOCK * chip.mhz * 1e6
    return msgspec.structs.replace(bare, rates=rates)
