"""Why a replay that went wrong may say nothing of the kernel: what it needs that no reproducer can hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kerncap.format.schema import Manifest
from kerncap.replay.outcome import Facts
from kerncap.replay.worker.common.private_map import private_map

_WORD = 8
_STEP = 32 << 20
_MOST_BYTES = 2 << 30  # that are looked through
_NEAR = 36  # bits: a device's allocations lie within 64 GiB of each other, or nothing is known of the word
_NAMED = 3

FUNCTIONS = "the module has addresses of functions, which are others in each process"
HEAP = "the module calls the device's malloc, and that heap is not captured"


def of_shared(manifest: Manifest) -> str:
    """Of a launch that reaches memory of other processes: what they do meanwhile is not in a replay."""
    found = [f"region {n} is {r.shared}" for n, r in enumerate(manifest.regions) if r.shared]
    if not found:
        return ""
    named = ", ".join(found[:_NAMED])
    more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    return f"{named}{more}, and what other processes do with it meanwhile is not replayed"


def of_moved(facts: Facts, manifest: Manifest, files: list[list[Path]]) -> str:
    """Of a relocated replay: the words that may be addresses still, and were not changed."""
    if not facts.relocated:
        return ""
    moved = f"region {', '.join(map(str, facts.relocated))} is not at its captured address"
    found = unchanged_words(manifest, files)
    if not found:
        return f"{moved}, and kerncap can only guess which of its bytes are addresses"
    named = ", ".join(found[:_NAMED])
    more = f" and {len(found) - _NAMED:,} more words" if len(found) > _NAMED else ""
    return f"{moved}, and {named}{more} may be addresses that nothing is known of"


def unchanged_words(manifest: Manifest, files: list[list[Path]]) -> list[str]:
    """Words of the launch that are near its regions' addresses and in none of them, by their places."""
    ranges = sorted((r.base, r.base + r.size) for r in manifest.regions if r.size)
    if not ranges:
        return []
    starts = np.array([start for start, _ in ranges], dtype=np.uint64)
    stops = np.maximum.accumulate(np.array([stop for _, stop in ranges], dtype=np.uint64))
    near = np.unique(starts >> np.uint64(_NEAR))
    found = []
    parameters = manifest.launch.parameters
    if parameters is not None:
        data = np.frombuffer(bytes.fromhex(parameters.bytes), dtype=np.uint8)
        found += [f"parameter byte {at} ({word:#x})" for at, word in _strays(data, 0, starts, stops, near)]
    left = _MOST_BYTES
    for number, (region, parts) in enumerate(zip(manifest.regions, files, strict=True)):
        left -= region.size
        if left < 0 or region.size < _WORD:
            continue
        data = np.frombuffer(private_map(parts, region.size), dtype=np.uint8)
        for at, word in _strays(data, -region.base % _WORD, starts, stops, near):
            found.append(f"byte {at} of region {number} ({word:#x})")
            if len(found) > 1000:
                return found
    return found


def _strays(data: Any, skew: int, starts: Any, stops: Any, near: Any) -> Iterator[tuple[int, int]]:
    """(place, word) of the aligned words near the regions that are in none."""
    for begin in range(skew, len(data) - _WORD + 1, _STEP):
        part = data[begin : begin + _STEP]
        words = part[: len(part) // _WORD * _WORD].view(np.uint64)
        at = np.flatnonzero(np.isin(words >> np.uint64(_NEAR), near) & (words >> np.uint64(_NEAR) > 0))
        owner = np.searchsorted(starts, words[at], side="right") - 1
        inside = (owner >= 0) & (words[at] < stops[np.maximum(owner, 0)])
        for index in at[~inside]:
            yield begin + int(index) * _WORD, int(words[index])
