"""What the reproducer of one side shows of a launch that the other side, a recorded run, has only digests of.

A launch that reads nothing of the memory that differs before it leaves the same with either contents. So
other results come from other code, or from other arguments; if it reads all of it, they may come from there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kerncap.api.diff.windows import MOST_MASKED
from kerncap.api.diverge.launch_differences import Pair
from kerncap.capture.payloads import TracedRecord
from kerncap.format import Reproducer, WriteSet


@dataclass(frozen=True)
class _Effects:
    """Of one storage: whether the launch reads all of it, nothing of it, and whether it writes all of it."""

    reads_all: bool
    reads_nothing: bool
    writes_all: bool


def shown(
    pair: Pair, launch: TracedRecord, reproducer: Reproducer
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Arguments that the launch reads and that differ before it, and results that differ.

    ``launch`` is the traced one of the reproducer's side. None if that can't be known without the other
    side's memory: it reads a part of what differs, or leaves bytes of it as they were.
    """
    written = WriteSet.load(reproducer)
    if written is None or pair.uncompared:
        return None
    before = {name: _effects(name, launch, reproducer, written) for name in pair.before}
    if not all(one is not None and (one.reads_all or one.reads_nothing) for one in before.values()):
        return None
    reads = tuple(name for name, one in before.items() if one is not None and one.reads_all)
    if reads:
        return reads, pair.after
    after = tuple(name for name in pair.after if (one := before.get(name)) is None or one.writes_all)
    return ((), after) if after else None


def storage_of(name: str, reproducer: Reproducer) -> tuple[int, int, int] | None:
    """Region, start and size of an argument's storage, if it has one."""
    regions = reproducer.manifest.regions
    storages = set()
    for view in reproducer.manifest.views:
        if view.name == name:
            start, size = view.storage or (0, regions[view.region].size)
            storages.add((view.region, start, size))
    return storages.pop() if len(storages) == 1 else None


def _effects(name: str, launch: TracedRecord, reproducer: Reproducer, written: WriteSet) -> _Effects | None:
    """None if the reproducer does not have just the storage that was traced, or it is too large."""
    traced = {launch.hashed[view.region].size for view in launch.views if view.name == name}
    storage = storage_of(name, reproducer)
    if storage is None:
        return None
    region, start, size = storage
    if traced != {size} or size > MOST_MASKED:
        return None
    if region not in written.regions:  # nothing of it is written or left
        return _Effects(reads_all=True, reads_nothing=False, writes_all=False)
    writes, also_reads, untouched = (
        np.unpackbits(written.mask(region, kind), bitorder="little")[start : start + size].view(bool)
        for kind in ("written", "also_input", "untouched")
    )
    unread = (writes & ~also_reads) | untouched
    return _Effects(not unread.any(), bool(unread.all()), bool(writes.all()))
