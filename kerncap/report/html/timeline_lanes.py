"""A trace of `kerncap list --timeline` for a report: when the reproducer's kernel ran, among all else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from kerncap.report.html.material import Document
from kerncap.report.verdict_text import milliseconds

MAX_LANES = 12
LEFT, RIGHT = 210, 860  # of the drawing, in columns
_MAX_EVENTS = 2_000_000
_MAX_US = 1e15
_DEVICE = ("launch", "copy", "fill")


class Event(Struct, frozen=True, kw_only=True):
    """Other keys are ignored."""

    ph: str
    pid: int
    tid: int
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] = {}

    @property
    def is_timed(self) -> bool:
        return self.ph == "X" and abs(self.ts) < _MAX_US and 0 <= self.dur < _MAX_US


class Trace(Struct, frozen=True, kw_only=True):
    traceEvents: Annotated[tuple[Event, ...], Meta(max_length=_MAX_EVENTS)]


def condensed(trace: Trace, kernel: Collection[str], *, with_lanes: bool = True) -> Document | None:
    """What a page draws of it: columns in which each track was busy, by itself and with the kernel.

    ``kernel``: its names. None if the trace has no launch of it. Of texts only the tracks' titles are kept.
    ``with_lanes``: False for a text, which draws nothing.
    """
    timed = [event for event in trace.traceEvents if event.is_timed]
    work = [event for event in timed if event.cat in _DEVICE]
    own = [event for event in work if event.cat == "launch" and event.args.get("kernel") in kernel]
    if not own:
        return None
    start = min(event.ts for event in work)
    span = max(max(event.ts + event.dur for event in work) - start, 1e-3)
    durations = [event.dur for event in own]
    all_launches = [event.dur for event in work if event.cat == "launch"]
    times = [milliseconds(us / 1e3) for us in (span, sum(durations), min(durations), max(durations))]
    share = sum(durations) / max(sum(all_launches), 1e-9)
    found: Document = {
        "summary": f"{len(own):,} of {len(all_launches):,} launches in {times[0]}: {times[1]}, {share:.1%} "
        f"of all launches' time, {times[2]} to {times[3]} each"
    }
    return {**found, **_lanes(trace, own, work, start, span)} if with_lanes else found


def _lanes(trace: Trace, own: Sequence[Event], work: Sequence[Event], start: float, span: float) -> Document:
    titles = {
        (event.pid, event.tid): str(event.args.get("name", ""))
        for event in trace.traceEvents
        if event.ph == "M" and event.name == "thread_name"
    }
    mine, others = _columns(own, start, span), _columns(work, start, span)
    busiest = sorted(others, key=lambda track: (track not in mine, -len(others[track]), track))
    return {
        "lanes_left_out": max(0, len(busiest) - MAX_LANES),
        "lanes": [
            {
                "title": titles.get(track, ""),
                "own": _runs(mine[track]) if track in mine else [],
                "others": _runs(others[track]),
            }
            for track in busiest[:MAX_LANES]
        ],
    }


def _columns(events: Iterable[Event], start: float, span: float) -> dict[tuple[int, int], set[int]]:
    """Where each track is busy."""
    found: dict[tuple[int, int], set[int]] = defaultdict(set)
    scale = (RIGHT - LEFT - 1) / span
    for event in events:
        first = int((event.ts - start) * scale)
        last = int((event.ts + event.dur - start) * scale)
        found[event.pid, event.tid].update(range(LEFT + first, LEFT + last + 1))
    return found


def _runs(columns: set[int]) -> list[list[int]]:
    """Neighbours as [first, width]."""
    found: list[list[int]] = []
    for column in sorted(columns):
        if found and column == sum(found[-1]):
            found[-1][1] += 1
        else:
            found.append([column, 1])
    return found
