"""What `kerncap list --timeline` has seen: when launches, copies and ranges ran, over all processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kerncap.capture.listed import Hooked
from kerncap.capture.payloads import TimedThing
from kerncap.capture.process_log import ProcessLog
from kerncap.format.contract import word


@dataclass(frozen=True)
class Happened:
    """One launch, copy, fill or range. ``start_ns`` is of CLOCK_MONOTONIC, which processes share."""

    thing: TimedThing
    name: str  # of a launch, its kernel's qualified name
    config: str | None
    pid: int
    start_ns: int
    length_ns: int
    bytes: int


@dataclass(frozen=True)
class TimedProcess:
    pid: int
    command: tuple[str, ...]
    rank: int | None


@dataclass(frozen=True)
class Timeline:
    """``events`` by their starts; ``lost`` counts those that found no room."""

    processes: tuple[TimedProcess, ...] = ()
    events: tuple[Happened, ...] = ()
    lost: int = 0

    def count(self, *kinds: str) -> int:
        return sum(event.thing.kind in kinds for event in self.events)


def collect(processes: Iterable[ProcessLog]) -> Timeline:
    """A launch that both the hook and a shim of its process saw counts once, as in the listing."""
    logs = [log for log in processes if log.process is not None]
    found: list[Happened] = []
    for log in logs:
        hooked = Hooked.of(log, logs)
        owners = [_owner(thing, hooked if log.is_native else None) for thing in log.things]
        for number, start_ns, length_ns, size in log.timed:
            owner = owners[number]
            if owner is not None:
                found.append(Happened(log.things[number], *owner, log.pid, start_ns, length_ns, size))
    known = {
        log.pid: TimedProcess(log.pid, log.process.argv, log.rank) for log in logs if log.process is not None
    }
    pids = {event.pid for event in found}
    return Timeline(
        tuple(process for pid, process in known.items() if pid in pids),
        tuple(sorted(found, key=lambda event: (event.start_ns, -event.length_ns))),
        sum(log.untimed for log in logs),
    )


def _owner(thing: TimedThing, hooked: Hooked | None) -> tuple[str, str | None] | None:
    if thing.kind != word.timed.launch or hooked is None:
        return thing.name, thing.config
    return hooked.owner(thing.name, thing.config)
