"""`kerncap list --timeline`: when launches and ranges ran, kept until a TIMELINE record has them.

Times are of time.perf_counter_ns(), which is CLOCK_MONOTONIC: processes of one machine share it.
"""

from __future__ import annotations

import json
import threading
from typing import Any, Dict, List, Optional

from .contract import key

MAX_EVENTS = 1 << 18  # of a process, as shims/common/timeline.h has it
MAX_THINGS = 1 << 15
EVENTS_OF_A_RECORD = 8192

is_on = False


class _Kept:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.numbers: Dict[str, int] = {}  # of things, by their JSON
        self.things: List[Dict[str, Any]] = []  # not recorded yet, as are the events
        self.events: List[List[int]] = []
        self.added = self.lost = 0


_kept = _Kept()


def start_afresh() -> None:
    """A process that has launched nothing."""
    global _kept
    _kept = _Kept()


def add(thing: Dict[str, Any], start_ns: int, length_ns: int) -> None:
    """One occurrence of ``thing``, a TimedThing of the contract. What finds no room is left out."""
    thing = {name: value for name, value in thing.items() if value is not None}
    text = json.dumps(thing)
    with _kept.lock:
        known = text in _kept.numbers
        if _kept.added >= MAX_EVENTS or (not known and len(_kept.numbers) >= MAX_THINGS):
            _kept.lost += 1
            return
        if not known:
            _kept.numbers[text] = len(_kept.numbers)
            _kept.things.append(thing)
        _kept.events.append([_kept.numbers[text], start_ns, max(0, length_ns), 0])
        _kept.added += 1


def is_due() -> bool:
    """Whether as much has come together as one record should hold."""
    return len(_kept.events) >= EVENTS_OF_A_RECORD


def take() -> Optional[Dict[str, Any]]:
    """The payload of a record of what is new; None if nothing is."""
    with _kept.lock:
        if not (_kept.things or _kept.events or _kept.lost):
            return None
        taken = {key.things: _kept.things, key.events: _kept.events, key.lost: _kept.lost}
        _kept.things, _kept.events, _kept.lost = [], [], 0
        return taken
