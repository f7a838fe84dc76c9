"""`replay RANGE --limits`: the memory traffic and the launches that fusing launches of a range would save."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap import scratch
from kerncap.api.range_flow import Effects, Masks, add, all_effects, count, meet, take_away
from kerncap.format import LaunchRange
from kerncap.replay.byte_effects import load
from kerncap.replay.limits import published
from kerncap.replay.limits.ceilings import Ceilings
from kerncap.replay.limits.named_ceilings import named
from kerncap.replay.ranges.joined_memory import share
from kerncap.replay.ranges.memory_between_launches import Timeline
from kerncap.report.documents.ranges import Fusion, RangeLimitsDocument

MOST_LAUNCHES = 64  # of a range of which each pair is looked at


@dataclass(frozen=True)
class RangeLimits:
    """``whole``: all launches as one; ``pairs``: neighbours between which bytes flow, the best first."""

    path: Path
    device: str | None  # of the ceilings
    launch_us: float | None  # an empty launch there
    whole: Fusion
    pairs: tuple[Fusion, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        return RangeLimitsDocument(**{**vars(self), "path": str(self.path)}).as_dict()


def range_limits(path: Path | str, ceilings_of: str | None = None) -> RangeLimits:
    """What fusing the launches of a range saves; nothing is run.

    ``ceilings_of``: a file of ceilings or a device's name, for times; for an AMD GPU its published ones.
    Raises FormatError, UsageError, and BackendUnavailable for launches whose memory can't be shared.
    """
    given = named(ceilings_of) if ceilings_of is not None else None
    with LaunchRange.open(path) as opened, scratch.folder("range") as made:
        given = given or published.of(opened.launches[0].manifest.device.name)
        shared = share([launch.manifest for launch in opened.launches])
        measured = [load(launch) for launch in opened.launches]
        effects = list(all_effects(opened, Timeline(opened.launches, shared, made), shared, measured))
        names = [launch.manifest.kernel.name for launch in opened.launches]
        last = len(names) - 1
        whole = _fusion(effects, names, 0, last, given)
        notes = [
            f"what launch {number} ({names[number]}) reads and writes was not measured; a replay measures it"
            for number, one in enumerate(measured)
            if one is None
        ]
        pairs: list[Fusion] = []
        if 1 < last < MOST_LAUNCHES:
            pairs = [_fusion(effects, names, one, one + 1, given) for one in range(last)]
            pairs = [one for one in pairs if one.saved_reads or one.saved_writes]
        elif last >= MOST_LAUNCHES:
            notes.append(f"pairs are shown for at most {MOST_LAUNCHES} launches")
        pairs.sort(key=lambda one: -(one.saved_reads + one.saved_writes + one.more_writes))
        launch_us = given.rate("launch_us") if given is not None else None
        if given is not None and given.origin == "published":
            notes.append(f"the bandwidth of the {given.device} is published, not measured")
        return RangeLimits(
            Path(path), given.device if given else None, launch_us, whole, tuple(pairs), tuple(notes)
        )


def _fusion(
    effects: list[Effects], names: list[str], first: int, last: int, given: Ceilings | None
) -> Fusion:
    reads = writes = saved_reads = saved_writes = 0
    known: Masks = {}  # written by one of them and still there
    seen: Masks = {}  # read from outside and unchanged since
    flowed: Masks = {}  # of `known`, what another of them has read
    for outside, read, written in effects[first : last + 1]:
        for masks in (known, seen, flowed):
            take_away(masks, outside)
        inside = meet(read, known)
        fresh = dict(read)
        take_away(fresh, inside)
        reads, writes = reads + count(read), writes + count(written)
        saved_reads += count(inside) + count(meet(fresh, seen))
        saved_writes += count(meet(known, written))
        add(seen, fresh)
        add(flowed, inside)
        for masks in (seen, flowed):
            take_away(masks, written)
        add(known, written)
    for outside, read, written in effects[last + 1 :]:
        for masks in (outside, read):  # who changes some of a byte's memory may have read it
            take_away(flowed, masks)
        saved_writes += count(meet(flowed, written))
        take_away(flowed, written)
    more = count(flowed)
    times: list[float | None] = [None, None]
    if given is not None:
        mixtures = ((reads, writes), (reads - saved_reads, writes - saved_writes - more))
        rates = [(sum(one), given.dram(*one)) for one in mixtures]
        times = [1e3 * total / rate if rate else None for total, rate in rates]
    kernels = tuple(names[first : last + 1])
    return Fusion(first, last, kernels, reads, writes, saved_reads, saved_writes, more, last - first, *times)
