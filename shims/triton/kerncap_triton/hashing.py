"""Digests of memory, and which memory holds addresses: those differ between runs and mean the same."""

from __future__ import annotations

import array
import bisect
import hashlib
from typing import Dict, List, Tuple

from . import region_copies, torch_device
from .contract import key
from .reachable_memory import ReachableMemory, Region

DIGEST_BYTES = 16
PIECE = 1 << 20  # hashed by one thread
_THREADS_FROM = 4 << 20  # bytes: less is not worth them
_WORD = 8
_MOST_WORDS = 4096  # of a region that are looked at
_LEAST_ADDRESS = 1 << 32  # sizes, offsets and indices are mostly less


def digests(regions: List[Region], timeout_s: float) -> List[str]:
    """One for each region, in hex: of the digests of its pieces, which threads share.

    The caller has drained the stream. Raises Unsupported if a copy from the device does not finish.
    """
    found: Dict[Tuple[int, int], bytes] = {}

    def work(number: int, offset: int, address: int, length: int) -> None:
        found[number, offset] = hashlib.sha256(region_copies.read_bytes(address, length)).digest()

    on_host = [(number, region) for number, region in enumerate(regions) if region.is_host]
    on_device = [(number, region) for number, region in enumerate(regions) if not region.is_host]
    pieces = (
        piece for number, region in on_host for piece in region_copies.host_pieces(number, region, PIECE)
    )
    region_copies.run(pieces, work, sum(region.size for _, region in on_host))
    if on_device:
        torch_device.copy_out(on_device, work, timeout_s, PIECE, _THREADS_FROM)
    parts: List[List[bytes]] = [[] for _ in regions]
    for (number, _offset), digest in sorted(found.items()):
        parts[number].append(digest)
    return [hashlib.sha256(b"".join(each)).hexdigest()[: 2 * DIGEST_BYTES] for each in parts]


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
