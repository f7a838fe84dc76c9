"""Which view and which region of A belongs to which of B.

Views pair by their argument's name. Regions pair by what they are to the launch, never by their address
alone: two runs have other addresses.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from kerncap.format import Reproducer
from kerncap.format.schema import Manifest, Region

_WORD = 8
_STEP = 4 << 20
_MOST_FOLLOWED = 256 << 20  # bytes that are looked through for pointers
_ADDRESS = re.compile(r"0x[0-9a-f]+|\b\d{9,}\b")


@dataclass
class Pairs:
    """``views`` and ``regions`` of A with those of B; ``how`` says by what a region was recognised."""

    views: dict[int, int] = field(default_factory=dict)
    regions: dict[int, int] = field(default_factory=dict)
    how: dict[int, str] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)  # regions of B that have a partner

    def join(self, a: int, b: int, how: str) -> None:
        """Make a pair of two regions, unless one of them is of a pair already."""
        if a not in self.regions and b not in self.taken:
            self.regions[a] = b
            self.how[a] = how
            self.taken.add(b)


def pair(a: Reproducer, b: Reproducer) -> Pairs:
    """Views by name, then regions: by views, names of variables, address, pointers, and last by size."""
    pairs = Pairs()
    pairs.views = _views(a.manifest, b.manifest)
    for first, second in pairs.views.items():
        view_a, view_b = a.manifest.views[first], b.manifest.views[second]
        pairs.join(view_a.region, view_b.region, f"holds {view_a.name or f'view {first}'}")
    _join(a, b, pairs, _global_key, "variable of that name")
    _join(a, b, pairs, lambda region: (region.base, region.size, region.kind), "the same address and size")
    _follow(a, b, pairs)
    _join(a, b, pairs, _role_key, "reached in the same way, of the same size")
    return pairs


def _views(a: Manifest, b: Manifest) -> dict[int, int]:
    found: dict[int, int] = {}
    named: dict[str, deque[int]] = defaultdict(deque)
    for number, view in enumerate(b.views):
        named[view.name].append(number)
    for number, view in enumerate(a.views):
        if named[view.name]:
            found[number] = named[view.name].popleft()
    left_a = [n for n in range(len(a.views)) if n not in found]
    left_b = sorted(number for numbers in named.values() for number in numbers)
    # Renamed: as many as before, each of the same type.
    if left_a and len(left_a) == len(left_b):
        alike = [a.views[m].dtype == b.views[n].dtype for m, n in zip(left_a, left_b, strict=True)]
        if all(alike):
            found.update(zip(left_a, left_b, strict=True))
    return found


def _global_key(region: Region) -> Hashable | None:
    return (region.module, region.name) if region.kind == "global" or region.name else None


def _role_key(region: Region) -> Hashable | None:
    return region.kind, _ADDRESS.sub("", region.reason), region.size


def _join(a: Reproducer, b: Reproducer, pairs: Pairs, key: Any, how: str) -> None:
    """Pair what is left and has the same key, in the order of the manifests."""
    there: dict[Hashable, deque[int]] = defaultdict(deque)
    for number, region in enumerate(b.manifest.regions):
        found = key(region)
        if found is not None and number not in pairs.taken:
            there[found].append(number)
    for number, region in enumerate(a.manifest.regions):
        found = key(region)
        if found is not None and number not in pairs.regions and there.get(found):
            pairs.join(number, there[found].popleft(), how)


class Places:
    """The regions of one side by address."""

    def __init__(self, regions: Iterable[Region]) -> None:
        listed = sorted((region.base, region.size, number) for number, region in enumerate(regions))
        self._base = np.array([base for base, _, _ in listed], dtype=np.uint64)
        self._size = np.array([size for _, size, _ in listed], dtype=np.uint64)
        self._number = np.array([number for _, _, number in listed], dtype=np.int64)

    def of(self, words: Any) -> tuple[Any, Any]:
        """(region, offset) that each word points to; region -1 if none. The byte past the end counts."""
        nowhere = np.full(len(words), -1, dtype=np.int64)
        if not len(self._base):
            return nowhere, np.zeros(len(words), dtype=np.uint64)
        at = np.searchsorted(self._base, words, side="right").astype(np.int64) - 1
        held = np.maximum(at, 0)
        offset = words - self._base[held]
        inside = (at >= 0) & (offset <= self._size[held])
        return np.where(inside, self._number[held], -1), np.where(inside, offset, 0)


class Pointers:
    """Tells whether two words of A and B point to the same place of regions that are a pair."""

    def __init__(self, a: Manifest, b: Manifest, regions: dict[int, int]) -> None:
        self._a, self._b = Places(a.regions), Places(b.regions)
        self._partner = np.full(len(a.regions) + 1, -2, dtype=np.int64)  # the last one stands for "none"
        for first, second in regions.items():
            self._partner[first] = second

    def alike(self, words_a: Any, words_b: Any) -> Any:
        """By word of two equally long arrays of uint64."""
        region_a, offset_a = self._a.of(words_a)
        region_b, offset_b = self._b.of(words_b)
        return (region_b >= 0) & (self._partner[region_a] == region_b) & (offset_a == offset_b)


def _follow(a: Reproducer, b: Reproducer, pairs: Pairs) -> None:
    """Pair regions that words at the same place of a pair point to, until nothing new is found."""
    left_a = set(range(len(a.manifest.regions))) - set(pairs.regions)
    left_b = set(range(len(b.manifest.regions))) - pairs.taken
    if not left_a or not left_b:
        return
    places = Places(a.manifest.regions), Places(b.manifest.regions)
    budget = _MOST_FOLLOWED
    for words in _parameters(a.manifest, b.manifest):
        _pair_words(a, b, pairs, places, *words)
    waiting = deque(pairs.regions.items())
    while waiting and budget > 0:
        first, second = waiting.popleft()
        known = len(pairs.regions)
        region_a, region_b = a.manifest.regions[first], b.manifest.regions[second]
        size = min(region_a.size, region_b.size, budget) // _WORD * _WORD
        if region_a.base % _WORD or region_b.base % _WORD:
            continue
        for start in range(0, size, _STEP):
            length = min(_STEP, size - start)
            budget -= length
            words_a, words_b = (
                np.frombuffer(one.read("pre", number, start, length), dtype="<u8")
                for one, number in ((a, first), (b, second))
            )
            _pair_words(a, b, pairs, places, words_a, words_b)
        waiting.extend(islice(pairs.regions.items(), known, None))


def _pair_words(
    a: Reproducer, b: Reproducer, pairs: Pairs, places: tuple[Places, Places], words_a: Any, words_b: Any
) -> None:
    (region_a, offset_a), (region_b, offset_b) = places[0].of(words_a), places[1].of(words_b)
    hit = np.flatnonzero((region_a >= 0) & (region_b >= 0) & (offset_a == offset_b))
    for first, second in dict.fromkeys(zip(region_a[hit].tolist(), region_b[hit].tolist(), strict=True)):
        one, other = a.manifest.regions[first], b.manifest.regions[second]
        if one.size == other.size and one.kind == other.kind:
            pairs.join(first, second, "pointed to from the same place")


def _parameters(a: Manifest, b: Manifest) -> list[tuple[Any, Any]]:
    """The parameter buffers of two native launches as words."""
    if a.launch.parameters is None or b.launch.parameters is None:
        return []
    data = [bytes.fromhex(one.launch.parameters.bytes) for one in (a, b) if one.launch.parameters]
    size = min(map(len, data)) // _WORD * _WORD
    return [tuple(np.frombuffer(one[:size], dtype="<u8") for one in data)]  # type: ignore[list-item]
