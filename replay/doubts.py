"""Why a replay that went wrong may say nothing of the kernel: what it needs that no reproducer can hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kerncap.format.schema import Manifest
from kerncap.log import size
from kerncap.replay.outcome import Facts
from kerncap.replay.worker.common.private_map import private_map

_WORD = 8
_STEP = 32 << 20
_MOST_BYTES = 2 << 30  # that are looked through
_NEAR = np.uint64(
    36
)  # bits: a device's allocations lie within 64 GiB of each other, or nothing is known of the word
_LEAST, _MOST = np.uint64(32), np.uint64(47)  # bits of an address of a device
_NAMED = 3
_ADDRESS_BITS, _ADDRESS, _NO_TAG = np.uint64(48), np.uint64((1 << 48) - 1), np.uint64(0xFFFF)
_PAGE = 4096  # whose address AMD's drivers give
_BEFORE_A_FAULT = np.uint64(64 << 20)  # bytes: a pointer may have an index

# Source: nvshmemi_common_device_defines.cuh of NVSHMEM 3; each module that calls it has the variable.
_NVSHMEM = "nvshmemi_device_state_d"

FUNCTIONS = "the module has addresses of functions, which are others in each process"
HEAP = "the module calls the device's malloc, and that heap is not captured"


def of_runtime(missing: tuple[str, ...]) -> str:
    """Of a HIP kernel: what it may use that the application's HIP runtime passes, and a replay can't."""
    if not missing:
        return ""
    return f"the kernel may use what only the application's HIP runtime has: {', '.join(missing)}"


def of_heap(manifest: Manifest, files: list[list[Path]]) -> str:
    """Of a launch beside kernels that use the device's heap: the words that may be addresses there.

    No call of the driver tells where that heap is.
    """
    limits = manifest.launch.limits
    if limits is None or not limits.heap_in_use:
        return ""
    found = _strays(manifest, files, lambda words: (words >> _LEAST > 0) & (words >> _MOST == 0))
    if not found and sum(region.size for region in manifest.regions) <= _MOST_BYTES:
        return ""
    named = f"{_some(found)} may be" if found else "what is not looked through may hold"
    return f"{named} addresses of the device's heap, which other kernels use and which is not captured"


def of_tagged(manifest: Manifest, files: list[list[Path]], ending: str) -> str:
    """Of a fault whose address is known: the words that lead there without their upper 16 bits.

    Memory that only such words lead to is not captured.
    """
    at = re.search(r"memory fault at (0x[0-9a-f]+)", ending)
    if at is None:
        return ""
    last = np.uint64(int(at[1], 16) | _PAGE - 1)

    def leads_there(words: Any) -> Any:
        tags = words >> _ADDRESS_BITS
        return (tags > 0) & (tags < _NO_TAG) & (last - (words & _ADDRESS) < _BEFORE_A_FAULT)

    found = _strays(manifest, files, leads_there, lambda words: words & _ADDRESS)
    if not found:
        return ""
    more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
    return (
        f"{found[0]}{more} may have a tag in the upper bits of an address that leads to the fault, and "
        "memory that only such words lead to is not captured; capture with --memory all"
    )


def of_segfault(manifest: Manifest, files: list[list[Path]], ending: str) -> str:
    """Of a kernel that died on the host: words that may lead to memory that is not captured."""
    if not re.search(r"died with SIG(SEGV|BUS)", ending):
        return ""
    found = unchanged_words(manifest, files)
    return f"{_some(found, ' words')} may be addresses of memory that is not captured" if found else ""


def of_shared(manifest: Manifest) -> str:
    """Of a launch that reaches memory of other processes: what they do meanwhile is not in a replay."""
    found = [f"region {n} is {r.shared}" for n, r in enumerate(manifest.regions) if r.shared]
    found += [f"{r.name} is the state of NVSHMEM" for r in manifest.regions if r.name == _NVSHMEM]
    if not found:
        return ""
    decides = ""
    if manifest.collective is not None:
        decides = f"; kerncap verify --together, with all {manifest.collective.ranks} ranks, would decide it"
    return f"{_some(found)}, and what other processes do with it meanwhile is not replayed{decides}"


def of_missing(manifest: Manifest) -> str:
    """Of a launch whose memory is not all there, as far as is known: what it may need beside it."""
    closure = manifest.closure
    if closure.left_out_bytes:
        remedy = "" if closure.mode == "all" else "; capture with --memory all"
        return f"{size(closure.left_out_bytes)} of the application's memory are left out{remedy}"
    if manifest.launch.textures:
        return "words of the captured textures and surfaces may be handles of others, which are not known"
    return ""


def of_moved(facts: Facts, manifest: Manifest, files: list[list[Path]]) -> str:
    """Of a relocated replay: the words that may be addresses still, and were not changed."""
    if not facts.relocated:
        return ""
    moved = f"region {', '.join(map(str, facts.relocated))} is not at its captured address"
    found = unchanged_words(manifest, files)
    if not found:
        return f"{moved}, and kerncap can only guess which of its bytes are addresses"
    return f"{moved}, and {_some(found, ' words')} may be addresses that nothing is known of"


def _some(found: list[str], what: str = "") -> str:
    more = f" and {len(found) - _NAMED:,} more{what}" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more


def unchanged_words(manifest: Manifest, files: list[list[Path]]) -> list[str]:
    """Words of the launch that are near its regions' addresses and in none of them, by their places."""
    bases = np.array([r.base for r in manifest.regions if r.size], dtype=np.uint64)
    near = np.unique(bases >> _NEAR)
    return _strays(manifest, files, lambda words: np.isin(words >> _NEAR, near) & (words >> _NEAR > 0))


def _strays(
    manifest: Manifest,
    files: list[list[Path]],
    may_be: Callable[[Any], Any],
    address_of: Callable[[Any], Any] = lambda words: words,
) -> list[str]:
    """The aligned words in no region that ``may_be`` addresses, by their places; the first thousand."""
    ranges = sorted((r.base, r.base + r.size) for r in manifest.regions if r.size)
    starts = np.array([start for start, _ in ranges], dtype=np.uint64)
    stops = np.maximum.accumulate(np.array([stop for _, stop in ranges], dtype=np.uint64))

    def in_none(data: Any, skew: int) -> Iterator[tuple[int, int]]:
        for begin in range(skew, len(data) - _WORD + 1, _STEP):
            part = data[begin : begin + _STEP]
            words = part[: len(part) // _WORD * _WORD].view(np.uint64)
            at = np.flatnonzero(may_be(words))
            addresses = address_of(words[at])
            owner = np.searchsorted(starts, addresses, side="right") - 1
            inside = owner >= 0
            inside[inside] = addresses[inside] < stops[owner[inside]]
            for index in at[~inside]:
                yield begin + int(index) * _WORD, int(words[index])

    found = []
    parameters = manifest.launch.parameters
    if parameters is not None:
        data = np.frombuffer(bytes.fromhex(parameters.bytes), dtype=np.uint8)
        found += [f"parameter byte {at} ({word:#x})" for at, word in in_none(data, 0)]
    left = _MOST_BYTES
    for number, (region, parts) in enumerate(zip(manifest.regions, files, strict=True)):
        left -= region.size
        if left < 0 or region.size < _WORD:
            continue
        data = np.frombuffer(private_map(parts, region.size), dtype=np.uint8)
        for at, word in in_none(data, -region.base % _WORD):
            found.append(f"byte {at} of region {number} ({word:#x})")
            if len(found) > 1000:
                return found
    return found
