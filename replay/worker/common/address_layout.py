"""Address arithmetic that both memories share: aligned supersets of regions and what lies between them."""

from __future__ import annotations

from collections.abc import Sequence
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


def gaps(regions: Sequence[JobRegion], spans: Sequence[Span]) -> list[Span]:
    """What of ``spans`` belongs to no region: a write there is a write out of bounds."""
    taken = sorted((r["base"], r["base"] + r["size"]) for r in regions if r["size"])
    found: list[Span] = []
    for span in spans:
        at = span.start
        for start, stop in taken:
            if stop <= at or start >= span.stop:
                continue
            if start > at:
                found.append(Span(at, start))
            at = max(at, stop)
        if at < span.stop:
            found.append(Span(at, span.stop))
    return found
