"""Outputs that a launch left as they were poisoned."""

from __future__ import annotations

from collections.abc import Callable

from kerncap.format.schema import Manifest
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.memory_names import by_view, owner_name, place_name
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.write_set_units import units


def never_written(
    engine: Engine, measured: Measured, different: dict[int, Bits], seed: int, again: Callable[[], int | None]
) -> list[str]:
    """Reasons: poison that is still there. A wrong result could look like one poison, but not like two.

    ``again`` runs the launch under another poison and gives its seed; None: that did not end well.
    """
    remaining = {}
    for region in different:
        bits = measured.output(region)
        remaining[region] = bits & ~engine.diff(region, "poison", seed, bits)
    if not any(
        (bits & different[region]).any() or _holds_an_element(engine.manifest, region, bits)
        for region, bits in remaining.items()
    ):
        return []
    engine.snapshot("result")
    generation = engine.generation
    other_seed = again()
    if other_seed is None:
        return []
    for region, left in remaining.items():
        remaining[region] = left & ~engine.diff(region, "poison", other_seed, left)
    if engine.generation == generation:
        engine.restore("result")
        engine.drop("result")
    return [
        f"{bitmap.count(part):,} bytes of {owner_name(engine.manifest, region, view)} were never written "
        f"(first at {place_name(engine.manifest, region, bitmap.first(part))})"
        for region, bits in remaining.items()
        for view, part in by_view(engine.manifest, region, bits)
    ]


def _holds_an_element(manifest: Manifest, region: int, bits: Bits) -> bool:
    """Whether any element is poison as a whole; of single bytes one in 256 is, whatever was written."""
    for unit in units(manifest):
        if unit.region == region:
            whole = unit.bits(manifest.regions[region].size)
            views = [manifest.views[number] for number in unit.views]
            width = min((v.itemsize for v in views if v.offset % v.itemsize == 0), default=1)
            width = width if width in (1, 2, 4, 8) else 1
            if (bits & whole & ~bitmap.widened(whole & ~bits, width)).any():
                return True
    return False
