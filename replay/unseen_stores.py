"""Stores of values that are there already, by a launch that changes no byte: seen on other contents.

`write_set` poisons a unit whole, and learns nothing if that ends badly: poisoned indices lead anywhere. Here
such a unit is halved until a part can be poisoned; what gets its old bytes back was stored. And what changes
elsewhere, under two poisons alike, is stored if the contents of the unit ask for it.
"""

from __future__ import annotations

import time
from collections import deque

from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.plain_run import EndedBadly, OutOfTime, PlainRun
from kerncap.replay.pointer_words import PointerWords
from kerncap.replay.poisoned_launch import SEED_A, SEED_B
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.write_set_units import units

_SMALL = 64  # bytes: below it, poison could equal what was stored by chance
_MOST_UNITS = 64
_MOST_CRASHES = 12  # each costs a worker


def stored_on_other_contents(engine: Engine, seconds: float) -> dict[int, Bits]:
    """Bytes by region that the captured kernel stores, as far as other contents show it.

    Words that point into memory keep their contents. Nothing is found if every run on other contents faults.
    """
    search = _Search(engine, time.monotonic() + seconds)
    try:
        return search.run()
    except (OutOfTime, EndedBadly):
        return {}
    finally:
        engine.reload()  # poisoned indices may have led anywhere


class _Search:
    def __init__(self, engine: Engine, deadline: float) -> None:
        self._plain = PlainRun(engine, ORIGINAL, deadline, "what it stores could not be measured")
        self._sizes = [region.size for region in engine.manifest.regions]
        self._pointers = PointerWords(engine.manifest, engine.pre_files(), engine.pointed_at)
        self._units = units(engine.manifest)

    def run(self) -> dict[int, Bits]:
        if len(self._units) > _MOST_UNITS:
            return {}
        self._plain.run()
        crashes = 0
        parts = deque(
            (unit.region, unit.bits(self._sizes[unit.region]) & ~self._pointers.of(unit))
            for unit in self._units
        )
        found: dict[int, Bits] = {}
        while parts and crashes < _MOST_CRASHES:
            region, mask = parts.popleft()
            if bitmap.count(mask) < _SMALL:
                continue
            seen = self._stored(region, mask)
            if seen is None:
                crashes += 1
                parts.extend((region, half) for half in bitmap.halves(mask))
                continue
            for number, bits in seen.items():
                found[number] = found.get(number, bitmap.empty(self._sizes[number])) | bits
        return found

    def _stored(self, region: int, mask: Bits) -> dict[int, Bits] | None:
        """What two runs store with these bytes poisoned; None if one of them does not end well."""
        restored, elsewhere = bitmap.empty(self._sizes[region]), list[dict[int, Bits]]()
        for seed in (SEED_A, SEED_B):
            engine = self._plain.ready()
            engine.fill(region, 0, self._sizes[region], seed, mask)
            if not self._plain.launch().ok or engine.gap_writes():
                return None
            restored |= engine.diff(region, "poison", seed, mask)
            changed = {number: engine.diff(number, "pre") for number in engine.differing("pre")}
            if region in changed:
                changed[region] = changed[region] & ~mask
            elsewhere.append(changed)
        first, second = elsewhere
        found = {number: bits & second[number] for number, bits in first.items() if number in second}
        # One stored byte in 256 is one poison by chance, and hardly any is both.
        found[region] = found.get(region, bitmap.empty(self._sizes[region])) | restored
        return {number: bits for number, bits in found.items() if bits.any()}
