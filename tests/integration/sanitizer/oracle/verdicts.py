"""What one recorded run means: accesses out of bounds, races, unwritten and undefined values, and so on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.integration.sanitizer.oracle.record import Event, Recorder

POINTS = 20_000  # of one violation; a witness is looked up among them
BYTES_OF_A_RACE = 4_000  # conflicting bytes that are looked at pair by pair

Site = tuple[str, int, str, "str | None"]  # file, line, kind, argument
Point = tuple[tuple[int, int, int], tuple[int, ...], int]  # program id, lane, offset in bytes


@dataclass
class Verdict:
    """Violations by (check, line, argument), each with its points; races also by pairs of places."""

    violations: dict[tuple[str, int, str | None], set[Point]] = field(default_factory=dict)
    # ((line, kind, argument), (line, kind, argument)), smaller first; identical: both wrote the same.
    races: set[tuple[Any, Any]] = field(default_factory=set)
    identical: set[tuple[Any, Any]] = field(default_factory=set)
    events: int = 0

    def add(self, check: str, line: int, argument: str | None, points: set[Point]) -> None:
        known = self.violations.setdefault((check, line, argument), set())
        if len(known) < POINTS:
            known |= points

    @property
    def expected(self) -> set[tuple[str, int, str | None]]:
        return set(self.violations)


def judge(run: Recorder, other: Recorder | None, bounds: str) -> Verdict:
    """``other``: the same launch with other values in masked lanes, where there are such lanes."""
    verdict = Verdict(events=len(run.events))
    names = [region.name for region in run.memory.regions]
    for event in run.events:
        _one_access(verdict, event, names, bounds)
    for broken in run.broken:
        verdict.add(broken.check, broken.line, broken.argument, {(broken.program, (), 0)})
    _races(verdict, run, names)
    _lanes(verdict, run, names)
    if other is not None:
        _undefined(verdict, run, other, names)
    return verdict


def _points(event: Event, which: Any) -> set[Point]:
    chosen = np.flatnonzero(which)[:POINTS]
    shape = event.shape
    # A scalar is an array of one element here.
    lanes = zip(*(axis.tolist() for axis in np.unravel_index(event.lanes[chosen], shape)), strict=True)
    return {
        (event.program, lane, offset)
        for lane, offset in zip(lanes, event.at.relative[chosen].tolist(), strict=True)
    }


def _one_access(verdict: Verdict, event: Event, names: list[str], bounds: str) -> None:
    fine = event.at.in_view if bounds == "view" else event.at.inside
    # What is outside because an integer wrapped around is an overflow, said once.
    checks: list[tuple[str, Any]] = [
        ("oob", ~fine & ~event.overflowed),
        ("overflow", event.overflowed),
        ("alignment", event.misaligned),
    ]
    if event.unwritten is not None and event.kind != "store":
        checks.append(("uninit", event.unwritten))
    for check, bad in checks:
        if not bad.any():
            continue
        for region in np.unique(event.at.region[bad]):
            argument = names[int(region)] if region >= 0 else None
            verdict.add(check, event.line, argument, _points(event, bad & (event.at.region == region)))


def _site(event: Event, region: int, names: list[str]) -> tuple[int, str, str | None]:
    return event.line, event.kind, names[region] if region >= 0 else None


def _races(verdict: Verdict, run: Recorder, names: list[str]) -> None:
    if run.number < 1:
        return
    for store in range(len(run.memory.stores)):
        columns: list[list[Any]] = [[], [], [], []]  # byte, event, element, byte of the element
        for number, event in enumerate(run.events):
            chosen = np.flatnonzero(event.at.inside & (event.at.store == store))
            if not chosen.size:
                continue
            bytes_of = event.at.offset[chosen, None] + np.arange(event.width)
            columns[0].append(bytes_of.ravel())
            columns[1].append(np.full(bytes_of.size, number))
            columns[2].append(np.repeat(chosen, event.width))
            columns[3].append(np.tile(np.arange(event.width), chosen.size))
        if columns[0]:
            _races_of_storage(verdict, run, names, *(np.concatenate(one) for one in columns))


def _races_of_storage(verdict: Verdict, run: Recorder, names: list[str], *columns: Any) -> None:
    order = np.argsort(columns[0], kind="stable")
    byte, event, element, part = (one[order] for one in columns)
    programs = np.array([one.number for one in run.events])
    writes = np.array([one.kind != "load" for one in run.events])
    starts = np.flatnonzero(np.r_[True, byte[1:] != byte[:-1]])
    first = np.minimum.reduceat(programs[event], starts)
    last = np.maximum.reduceat(programs[event], starts)
    written = np.maximum.reduceat(writes[event], starts)
    ends = np.r_[starts[1:], byte.size]
    looked_at: dict[Any, int] = defaultdict(int)
    for group in np.flatnonzero((first != last) & written):
        rows = slice(starts[group], ends[group])
        key = tuple(sorted({(run.events[e].line, run.events[e].kind) for e in event[rows].tolist()}))
        looked_at[key] += 1
        if looked_at[key] > BYTES_OF_A_RACE // (8 if not run.synchronised else 1):
            continue
        _races_of_byte(verdict, run, names, event[rows].tolist(), element[rows].tolist(), part[rows].tolist())


def _races_of_byte(
    verdict: Verdict,
    run: Recorder,
    names: list[str],
    events: list[int],
    elements: list[int],
    parts: list[int],
) -> None:
    # One entry per event: of several lanes of one operation, the last wrote.
    per_event = {e: (element, part) for e, element, part in zip(events, elements, parts, strict=True)}
    entries = [(run.events[e], element, part) for e, (element, part) in per_event.items()]
    for i, (a, a_element, a_part) in enumerate(entries):
        if a.kind == "load" and i and all(one[0].kind == "load" for one in entries):
            break
        for b, b_element, b_part in entries[i + 1 :]:
            if a.number == b.number or (a.kind == "load" and b.kind == "load"):
                continue
            if a.kind == "atomic" and b.kind == "atomic":
                continue
            early, late = (a, b) if a.moment < b.moment else (b, a)
            if late.clock[early.number] >= early.moment:
                continue
            site_a = _site(a, int(a.at.region[a_element]), names)
            site_b = _site(b, int(b.at.region[b_element]), names)
            pair = (min(site_a, site_b, key=str), max(site_a, site_b, key=str))
            if (
                a.kind == b.kind == "store"
                and a.values is not None
                and b.values is not None
                and a.values[a_element, a_part] == b.values[b_element, b_part]
            ):
                verdict.identical.add(pair)
                continue
            verdict.races.add(pair)
            for one, element, site in ((a, a_element, site_a), (b, b_element, site_b)):
                which = np.zeros(one.lanes.size, np.bool_)
                which[element] = True
                verdict.add("race", site[0], site[2], _points(one, which))


def _lanes(verdict: Verdict, run: Recorder, names: list[str]) -> None:
    """Of two lanes of one store at one place, either may come last."""
    for event in run.events:
        if event.kind != "store" or event.values is None:
            continue
        first: dict[tuple[int, int], int] = {}
        for element in np.flatnonzero(event.at.inside).tolist():
            place = int(event.at.store[element]), int(event.at.offset[element])
            other = first.setdefault(place, element)
            if (event.values[element] != event.values[other]).any():
                site = _site(event, int(event.at.region[element]), names)
                verdict.races.add((site, site))
                which = np.zeros(event.lanes.size, np.bool_)
                which[[other, element]] = True
                verdict.add("race", site[0], site[2], _points(event, which))


def _undefined(verdict: Verdict, run: Recorder, other: Recorder, names: list[str]) -> None:
    """What differs between two runs that differ in undefined lanes alone depends on them."""
    for a, b in zip(run.events, other.events, strict=False):
        if (a.line, a.kind, a.program) != (b.line, b.kind, b.program):
            verdict.add("uninit", a.line, None, set())  # the paths part: a branch depends on it
            return
        same = a.lanes.shape == b.lanes.shape and bool(
            (a.lanes == b.lanes).all() and (a.at.relative == b.at.relative).all()
        )
        if not same:
            bad = np.ones(a.lanes.size, np.bool_)
            if a.lanes.shape == b.lanes.shape:
                bad = (a.lanes != b.lanes) | (a.at.relative != b.at.relative)
        elif a.values is not None and b.values is not None:
            bad = (a.values != b.values).any(axis=1)
        else:
            continue
        for region in np.unique(a.at.region[bad]):
            argument = names[int(region)] if region >= 0 else None
            verdict.add("uninit", a.line, argument, _points(a, bad & (a.at.region == region)))
