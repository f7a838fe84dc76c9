"""The file of ``kerncap list --timeline``: Trace Event Format, which Perfetto and chrome://tracing open.

Source: "Trace Event Format" of the Chromium project; Perfetto's importer reads complete events ("X") and
metadata ("M"), times in microseconds. Events of one track have to nest, so those that don't get a track more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kerncap.capture.timeline import Happened, TimedProcess, Timeline
from kerncap.format.contract import word

MAX_TITLE = 120  # of a process: its command's beginning
_HOST_FIRST = "\0"  # sorts before all streams

Track = tuple[int, str, int]  # pid, title, number among those that one title needs


def trace_text(timeline: Timeline, names: Mapping[str, str]) -> str:
    """One event a line. ``names``: how each kernel is called in short, by its qualified name."""
    zero = timeline.events[0].start_ns if timeline.events else 0
    tracks = _tracks(timeline.events)
    numbers = {track: number for number, track in enumerate(sorted(set(tracks)), 1)}
    events = [_process(process) for process in timeline.processes]
    events += [each for track, number in numbers.items() for each in _thread(track, number)]
    events += [
        _complete(event, track[0], numbers[track], zero, names)
        for event, track in zip(timeline.events, tracks, strict=True)
    ]
    head = {"displayTimeUnit": "ns", "otherData": {"clock": "CLOCK_MONOTONIC", "start_ns": zero}}
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    return f'{json.dumps(head)[:-1]}, "traceEvents": [\n{lines}\n]}}\n'


def timeline_line(timeline: Timeline, path: Path) -> str:
    """What was written, for people."""
    counts = [
        (timeline.count(word.timed.launch), "launch", "launches"),
        (timeline.count(word.timed.copy, word.timed.fill), "copy", "copies"),
        (timeline.count(word.timed.range), "range", "ranges"),
    ]
    what = ", ".join(f"{count} {one if count == 1 else more}" for count, one, more in counts)
    lost = f"; {timeline.lost} more found no room" if timeline.lost else ""
    return f"{path}: {what}{lost}; open it in ui.perfetto.dev or chrome://tracing"


def _tracks(events: Sequence[Happened]) -> list[Track]:
    """Of each event, which come by their starts; the outer one first."""
    open_ends: dict[Track, list[int]] = {}
    found: list[Track] = []
    for event in events:
        end_ns = event.start_ns + event.length_ns
        title, number = _title(event), 0
        while True:
            track = event.pid, title, number
            ends = open_ends.setdefault(track, [])
            while ends and ends[-1] <= event.start_ns:
                ends.pop()
            if not ends or ends[-1] >= end_ns:
                break
            number += 1
        ends.append(end_ns)
        found.append(track)
    return found


def _title(event: Happened) -> str:
    thing = event.thing
    if thing.kind == word.timed.range:
        return f"{_HOST_FIRST}host" + ("" if thing.thread is None else f", thread {thing.thread}")
    if thing.device is None:
        return f"{_HOST_FIRST}interpreter" if thing.stream is None else thing.stream
    return f"GPU {thing.device}, {thing.stream or 'any stream'}"


def _process(process: TimedProcess) -> dict[str, Any]:
    command = " ".join(process.command)[:MAX_TITLE] or "process"
    rank = "" if process.rank is None else f" (rank {process.rank})"
    return _metadata("process_name", process.pid, 0, {"name": command + rank})


def _thread(track: Track, number: int) -> list[dict[str, Any]]:
    pid, title, again = track
    name = title.lstrip(_HOST_FIRST) + (f" ({again + 1})" if again else "")
    return [
        _metadata("thread_name", pid, number, {"name": name}),
        _metadata("thread_sort_index", pid, number, {"sort_index": number}),
    ]


def _metadata(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


def _complete(event: Happened, pid: int, tid: int, zero: int, names: Mapping[str, str]) -> dict[str, Any]:
    thing = event.thing
    args: dict[str, Any] = {}
    name = event.name
    if thing.kind == word.timed.launch:
        name = names.get(event.name, event.name)
        args = {
            "kernel": event.name, "grid": thing.grid, "block": thing.block, "config": event.config,
            "graph": thing.graph,
        }  # fmt: skip
    elif thing.kind != word.timed.range:
        name = f"{thing.kind} {event.name}".rstrip()
        args = {
            "bytes": event.bytes,
            "GB/s": round(event.bytes / event.length_ns, 3) if event.length_ns else None,
        }
    return {
        "ph": "X", "name": name, "cat": thing.kind, "pid": pid, "tid": tid,
        "ts": (event.start_ns - zero) / 1e3, "dur": event.length_ns / 1e3,
        "args": {key: value for key, value in args.items() if value is not None},
    }  # fmt: skip
