"""Digests of memory, and which memory holds addresses: those differ between runs and mean the same."""

from __future__ import annotations

import array
import bisect
from typing import Dict, List, Optional, Tuple

from . import fingerprints, native_shims, region_copies, torch_device
from .contract import key
from .fingerprints import Sums
from .reachable_memory import ReachableMemory, Region, Unsupported

_THREADS_FROM = 4 << 20  # bytes: less is not worth them
_WORD = 8
_MOST_WORDS = 4096  # of a region that are looked at
_LEAST_ADDRESS = 1 << 32  # sizes, offsets and indices are mostly less

Numbered = Tuple[int, Region]


def digests(regions: List[Region], chunk_bytes: int, timeout_s: float) -> List[str]:
    """One for each region, in hex: by the shim on the device, if it can; otherwise by threads here.

    The caller has drained the stream. Raises Unsupported if a copy from the device does not finish, and
    without numpy.
    """
    found: Dict[int, str] = {}
    on_device: Dict[int, List[Numbered]] = {}
    on_host: List[Numbered] = []
    for each in enumerate(regions):
        (on_host if each[1].is_host else on_device.setdefault(each[1].device_index, [])).append(each)
    left: List[Numbered] = []
    for index, here in on_device.items():
        answer = _by_shim(index, here)
        if answer is None:
            left += here
        else:
            found.update(answer)
    found.update(_copied(on_host, left, chunk_bytes, timeout_s))
    return [found[number] for number in range(len(regions))]


def _by_shim(device: int, regions: List[Numbered]) -> Optional[Dict[int, str]]:
    shim = native_shims.find()
    if shim is None or not shim.is_live:
        return None
    with torch_device.current(device):
        answer = shim.digests(device, [(region.base, region.size) for _, region in regions])
    return None if answer is None else dict(zip([number for number, _ in regions], answer))


def _copied(
    on_host: List[Numbered], on_device: List[Numbered], chunk_bytes: int, timeout_s: float
) -> Dict[int, str]:
    sums: Dict[Tuple[int, int], Sums] = {}

    def work(number: int, offset: int, address: int, length: int) -> None:
        try:
            sums[number, offset] = fingerprints.sums(region_copies.read_bytes(address, length))
        except ImportError:
            raise Unsupported("numpy, which hashes memory here, is not installed") from None

    pieces = (piece for each in on_host for piece in region_copies.host_pieces(*each, chunk_bytes))
    region_copies.run(pieces, work, sum(region.size for _, region in on_host))
    if on_device:
        torch_device.copy_out(on_device, work, timeout_s, chunk_bytes, _THREADS_FROM)
    parts: Dict[int, List[Sums]] = {number: [] for number, _ in [*on_host, *on_device]}
    for (number, _offset), both in sorted(sums.items()):
        parts[number].append(both)
    return {number: fingerprints.digest(each) for number, each in parts.items()}


def holding_addresses(reachable: ReachableMemory) -> List[bool]:
    """For each region whether a tensor of 64-bit integers on it points into this process's memory."""
    wide = {
        view[key.region] for view in reachable.views if view[key.dtype] in ("int64", "uint64")
    }  # fmt: skip
    ranges: List[Tuple[int, int]] = []
    found = []
    for number, region in enumerate(reachable.regions):
        words = [] if number not in wide else [w for w in _first_words(region) if w >= _LEAST_ADDRESS]
        if words and not ranges:
            ranges = _mapped()
        found.append(any(_is_in(ranges, one) for one in words))
    return found


def _first_words(region: Region) -> List[int]:
    length = min(region.size // _WORD, _MOST_WORDS) * _WORD
    if region.is_host:
        data = bytes(region_copies.read_bytes(region.base, length)) if length else b""
    else:
        with torch_device.quiet():
            data = bytes(torch_device.as_bytes(region)[:length].cpu().numpy())
    return array.array("Q", data).tolist()


def _mapped() -> List[Tuple[int, int]]:
    """What of the address space is taken, ascending; a device's memory has its place in it too."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            start, _, end = line.split(" ", 1)[0].partition("-")
            found.append((int(start, 16), int(end, 16)))
    return found


def _is_in(ranges: List[Tuple[int, int]], address: int) -> bool:
    at = bisect.bisect_right(ranges, (address, 1 << 64)) - 1
    return at >= 0 and ranges[at][0] <= address < ranges[at][1]
