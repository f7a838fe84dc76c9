"""What a recorded launch did wrong: the keys that the sanitizer has to report, and those that it may."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from tests.fuzz.sanitizer.hints import broken
from tests.fuzz.sanitizer.language import Event, Machine
from tests.fuzz.sanitizer.tile import distinct

Key = tuple[str, int, "str | None"]  # check, line, argument
Place = tuple[int, str, "str | None"]  # line, kind, argument
Point = tuple[tuple[int, int, int], tuple[int, ...], int]  # program id, lane, offset in elements


@dataclass
class Verdict:
    """``must``: by key, the points at which it is so. ``may``: true or not, depending on the schedule of
    programs, on what stands in memory that nobody wrote, or on how wrap-around is read.

    ``races``: pairs of places in conflict; ``identical``: those that write the same. ``lanes``: stores of
    which two lanes of one program write different values to one element.
    """

    must: dict[Key, set[Point]] = field(default_factory=lambda: defaultdict(set))
    may: set[Key] = field(default_factory=set)
    placeless: set[Key] = field(default_factory=set)  # no offset can be told: the address is undefined
    races: set[tuple[Place, Place]] = field(default_factory=set)
    identical: set[tuple[Place, Place]] = field(default_factory=set)
    lanes: set[Place] = field(default_factory=set)
    lines: set[int] = field(default_factory=set)  # of operations that really access something
    steered: set[int] = field(default_factory=set)  # lines of accesses by an undefined mask
    any_order: bool = False  # other orders of programs were not all tried
    outside: set[Key] = field(default_factory=set)  # accesses that leave their storage, however they came to
    # Reads of what nobody wrote: wrong only if what stood there shows in what the launch does.
    unwritten: dict[Key, set[Point]] = field(default_factory=lambda: defaultdict(set))
    uses_unwritten: bool = False
    failed: set[tuple[int, str]] = field(default_factory=set)  # see `tile.Run`

    def settle_unwritten(self, used: bool) -> None:
        """``used``: other garbage in unwritten memory makes the launch do something else.

        Of several reads it is then not known which one shows, only that the launch is wrong.
        """
        self.uses_unwritten = used
        if used and len(self.unwritten) == 1:
            self.must.update(self.unwritten)
        else:
            self.may |= set(self.unwritten)

    def add(self, other: Verdict) -> None:
        """What another order of programs does."""
        for key, points in other.must.items():
            self.must[key] |= points
        for key, points in other.unwritten.items():
            self.unwritten[key] |= points
        for mine, theirs in (
            (self.may, other.may), (self.placeless, other.placeless), (self.races, other.races),
            (self.identical, other.identical), (self.lines, other.lines), (self.outside, other.outside),
            (self.steered, other.steered), (self.failed, other.failed), (self.lanes, other.lanes),
        ):  # fmt: skip
            mine |= theirs


def judge(machine: Machine, programs: list[tuple[int, int, int]], views: list[Any] | None = None) -> Verdict:
    """``views``: per argument, the elements of its storage that are the tensor's; None: storages bound."""
    verdict = Verdict(failed=set(machine.failed))
    for event in machine.events:
        verdict.lines.add(event.line)
        _one(verdict, event, machine, programs, views)
        _lanes(verdict, event, machine, programs)
    # What an atomic adds to garbage is garbage. A lane at an undefined place, or under an undefined
    # mask, may meet anybody.
    garbled = {
        machine.arguments[region].store
        for event in machine.events
        if event.kind == "atomic" and event.unwritten is not None and event.unwritten.any()
        for region in distinct(event.region[event.unwritten])
    }
    steered = {machine.arguments[region].store for _, region, _ in machine.steered}
    steered |= {
        machine.arguments[region].store
        for event in machine.events
        if event.undefined_place.any()
        for region in distinct(event.region[event.undefined_place])
    }
    for event in machine.events:
        for argument in (machine.arguments[region] for region in distinct(event.region)):
            key = ("uninit", event.line, argument.name)
            if machine.settled or (argument.store in garbled and key not in verdict.unwritten):
                verdict.may.add(key)
            if argument.store in steered:
                verdict.may.add(("race", event.line, argument.name))
    for line, region, _ in machine.steered:
        verdict.may |= {(check, line, machine.arguments[region].name) for check in ("uninit", "oob", "race")}
        verdict.must[("uninit", line, machine.arguments[region].name)] |= set()
        verdict.steered.add(line)
    for line, program, lane in broken(machine.promises):
        verdict.must["promise", line, None].add((programs[program], lane, 0))
    for line, name, program in machine.misused:
        verdict.must["descriptor", line, name].add((programs[program], (), 0))
    if len(programs) > 1:
        for store in range(len(machine.stores)):
            _races(verdict, machine, programs, store)
        if any("load" in (left[1], right[1]) for left, right in verdict.races):
            # Values that are equal in this order of programs need not be so in another.
            verdict.may |= {("race", place[0], place[2]) for pair in verdict.identical for place in pair}
    return verdict


def _one(verdict: Verdict, event: Event, machine: Machine, programs: Any, views: Any) -> None:
    for region in distinct(event.region):
        argument = machine.arguments[region]
        store = machine.stores[argument.store]
        here = event.region == region
        at = event.relative + argument.origin
        inside = (at >= 0) & (at < store.contents.size)
        if views is not None:
            inside = inside & views[region][np.clip(at, 0, store.contents.size - 1)]
        sure = here & ~event.undefined_place
        if (sure & ~inside).any():
            verdict.outside.add(("oob", event.line, argument.name))
        found = {
            "oob": sure & ~inside & ~event.wrong,
            "overflow": sure & event.wrong,
            "uninit": here & (event.undefined_place | event.undefined_value),
        }
        if event.unwritten is not None and (here & event.unwritten).any():
            key = ("uninit", event.line, argument.name)
            verdict.unwritten[key] |= _points(event, here & event.unwritten, programs)
        for check, bad in found.items():
            if bad.any():
                verdict.must[check, event.line, argument.name] |= _points(event, bad, programs)
        if (here & event.undefined_place).any():
            verdict.placeless.add(("uninit", event.line, argument.name))
        if event.wrapped or event.wrong.any() or event.undefined_place.any():
            verdict.may |= {(check, event.line, argument.name) for check in ("oob", "overflow", "race")}


def _lanes(verdict: Verdict, event: Event, machine: Machine, programs: Any) -> None:
    """Of two lanes of one store at one place, either may come last."""
    if event.kind != "store":
        return
    for region in distinct(event.region):
        argument = machine.arguments[region]
        size = machine.stores[argument.store].contents.size
        at = event.relative + argument.origin
        sure = (event.region == region) & ~event.undefined_place & ~event.undefined_value
        chosen = np.flatnonzero(sure & (at >= 0) & (at < size))
        _, element = np.unique(at[chosen], return_inverse=True)
        low = np.full(element.size, np.iinfo(np.int64).max)
        high = np.full(element.size, np.iinfo(np.int64).min)
        np.minimum.at(low, element, event.values[chosen])
        np.maximum.at(high, element, event.values[chosen])
        differ = (low < high)[element]
        if differ.any():
            place: Place = (event.line, event.kind, argument.name)
            verdict.lanes.add(place)
            verdict.races.add((place, place))
            mask = np.zeros(event.lanes.size, np.bool_)
            mask[chosen[differ]] = True
            verdict.must["race", event.line, argument.name] |= _points(event, mask, programs)


def _points(event: Event, bad: Any, programs: Any) -> set[Point]:
    chosen = np.flatnonzero(bad)
    offsets = event.relative[chosen].tolist()
    if not event.shape:
        return {(programs[event.program], (), offset) for offset in offsets}
    axes = (axis.tolist() for axis in np.unravel_index(event.lanes[chosen], event.shape))
    lanes = zip(*axes, strict=True)
    return {(programs[event.program], lane, offset) for lane, offset in zip(lanes, offsets, strict=True)}


# --- races -------------------------------------------------------------------------------------------


def _races(verdict: Verdict, machine: Machine, programs: Any, store: int) -> None:
    size = machine.stores[store].contents.size
    sites: dict[Place, list[Any]] = defaultdict(list)
    for event in machine.events:
        for region in distinct(event.region):
            argument = machine.arguments[region]
            if argument.store != store:
                continue
            at = event.relative + argument.origin
            chosen = np.flatnonzero(
                (event.region == region) & (at >= 0) & (at < size) & ~event.undefined_place
            )
            if chosen.size:
                place: Place = (event.line, event.kind, argument.name)
                sites[place].append((event, chosen, at[chosen]))
    if all(place[1] == "load" for place in sites):
        return
    tables = {place: _table(entries, size) for place, entries in sites.items()}
    undefined: set[Key] = set()  # stores of values that are equal only because none of them is there
    for left, right in combinations_with_replacement(sorted(tables, key=str), 2):
        kinds = (left[1], right[1])
        if kinds in (("load", "load"), ("atomic", "atomic")):
            continue
        a, b = tables[left], tables[right]
        both = a.touched & b.touched
        conflict = both & ((a.first != b.last) | (a.last != b.first))
        if not conflict.any():
            continue
        same = np.zeros(size, np.bool_)
        if kinds == ("store", "store"):
            same = (np.minimum(a.low, b.low) == np.maximum(a.high, b.high)) & conflict
        garbled = same & (a.undefined | b.undefined)
        if garbled.any():
            undefined |= {("race", place[0], place[2]) for place in (left, right)}
        if (same & ~garbled).any():
            verdict.identical.add((left, right))
        differ = conflict & ~same
        if not differ.any():
            continue
        verdict.races.add((left, right))
        for place in (left, right):
            key = ("race", place[0], place[2])
            for event, chosen, at in sites[place]:
                hit = chosen[differ[at]]
                if hit.size:
                    mask = np.zeros(event.lanes.size, np.bool_)
                    mask[hit] = True
                    verdict.must[key] |= _points(event, mask, programs)
        # What is read depends on who came first: so does everything that a load of this storage says.
        for place in tables:
            if place[1] != "store":
                verdict.may.add(("uninit", place[0], place[2]))
    verdict.may |= undefined - verdict.must.keys()


@dataclass
class _Table:
    touched: Any
    first: Any  # program
    last: Any
    low: Any  # value
    high: Any
    undefined: Any  # some value that is stored


def _table(entries: list[Any], size: int) -> _Table:
    at = np.concatenate([one[2] for one in entries])
    program = np.concatenate([np.full(one[2].size, one[0].program) for one in entries])
    table = _Table(
        np.zeros(size, np.bool_), np.full(size, 1 << 30), np.full(size, -1),
        np.full(size, np.iinfo(np.int64).max), np.full(size, np.iinfo(np.int64).min),
        np.zeros(size, np.bool_),
    )  # fmt: skip
    table.undefined[at[np.concatenate([one[0].undefined_value[one[1]] for one in entries])]] = True
    table.touched[at] = True
    np.minimum.at(table.first, at, program)
    np.maximum.at(table.last, at, program)
    if entries[0][0].values is not None:
        values = np.concatenate([one[0].values[one[1]] for one in entries])
        np.minimum.at(table.low, at, values)
        np.maximum.at(table.high, at, values)
    return table
