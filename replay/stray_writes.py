"""Writes where the captured kernel writes nothing: idle bytes, outside of its views, between regions."""

from __future__ import annotations

from kerncap.format.schema import Manifest
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.memory_names import address_name, place_name
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.write_set_units import outside_views, units, whole_elements


def settle(engine: Engine, measured: Measured, seed: int) -> dict[int, Bits]:
    """Put idle bytes as the oracle has them; those that are no poison any more: something wrote there."""
    hit: dict[int, Bits] = {}
    for region in measured.untouched:
        idle = measured.watched(region)
        if idle.any():
            touched = engine.diff(region, "poison", seed, idle)
            if touched.any():
                # A byte that equals poison by chance goes with the element that it belongs to.
                for unit in units(engine.manifest):
                    if unit.region == region:
                        touched |= whole_elements(engine.manifest, unit, touched) & idle
                hit[region] = touched
            engine.put("post", region, idle)
    return hit


def outside_reasons(manifest: Manifest, outside: dict[int, Bits]) -> list[str]:
    """Bytes that were changed although the captured kernel does not write them."""
    return [
        f"{bitmap.count(bits):,} bytes outside the write set were changed "
        f"(first at {place_name(manifest, region, bitmap.first(bits))})"
        for region, bits in outside.items()
        if bits.any()
    ]


def stray_notes(manifest: Manifest, measured: Measured) -> list[str]:
    """What the captured kernel itself writes beside its arguments."""
    found = []
    for region, written in measured.written.items():
        stray = written & outside_views(manifest, region)
        if stray.any():
            where = place_name(manifest, region, bitmap.first(stray))
            found.append(
                f"the captured kernel writes {bitmap.count(stray):,} bytes outside every argument "
                f"(first at {where})"
            )
    return found


def gap_reasons(engine: Engine) -> list[str]:
    """Writes to memory that belongs to no region."""
    moved = set(engine.facts.relocated)
    bases = [region.base for region in engine.manifest.regions]
    found = []
    for start, _last, count in engine.gap_writes():
        if any(zero.base <= start < zero.base + zero.size for zero in engine.manifest.zeros):
            found.append(f"{count:,} bytes were written to memory that the application left zero")
            continue
        where = f"address {start:#x}" if moved else address_name(engine.manifest, start, bases)
        found.append(f"{count:,} bytes outside every captured region were written (first at {where})")
    return found
