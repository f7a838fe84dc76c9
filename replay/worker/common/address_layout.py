"""Address arithmetic that both memories share: aligned supersets of regions and the gaps between them."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..job import JobRegion


class Span(NamedTuple):
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


def supersets(regions: Sequence[JobRegion], alignment: int) -> list[Span]:
    """Aligned spans that cover every region; neighbours that touch are merged, in address order."""
    spans = sorted(
        (r["base"] // alignment * alignment, -(-(r["base"] + r["size"]) // alignment) * alignment)
        for r in regions
        if r["size"]
    )
    merged: list[Span] = []
    for start, stop in spans:
        if merged and start <= merged[-1].stop:
            merged[-1] = Span(merged[-1].start, max(merged[-1].stop, stop))
        else:
            merged.append(Span(start, stop))
    return merged


def grouped(
    regions: Sequence[JobRegion], chosen: Iterable[int], alignment: int
) -> list[tuple[Span, list[int]]]:
    """`supersets` of the regions with these numbers, each with the numbers of those in it."""
    order = sorted((i for i in chosen if regions[i]["size"]), key=lambda i: regions[i]["base"])
    found: list[tuple[Span, list[int]]] = [
        (span, []) for span in supersets([regions[i] for i in order], alignment)
    ]
    at = 0
    for i in order:
        while regions[i]["base"] >= found[at][0].stop:
            at += 1
        found[at][1].append(i)
    return [(span, sorted(inside)) for span, inside in found]


def gaps(regions: Sequence[JobRegion], spans: Sequence[Span]) -> list[Span]:
    """What of ``spans`` belongs to no region: a write there is a write out of bounds."""
    taken = sorted((r["base"], r["base"] + r["size"]) for r in regions if r["size"])
    starts = [start for start, _ in taken]
    reached = list(itertools.accumulate((stop for _, stop in taken), max))
    found: list[Span] = []
    for span in spans:
        at = span.start
        for start, stop in taken[bisect_right(reached, at) : bisect_left(starts, span.stop)]:
            if start > at:
                found.append(Span(at, start))
            at = max(at, stop)
        if at < span.stop:
            found.append(Span(at, span.stop))
    return found
