"""Reads the file of `kerncap list --timeline` as Perfetto's importer does, and holds it to the format."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

Tracks = dict[str, list[dict[str, Any]]]  # by title; of several processes alike, together


def read_trace(path: Path) -> Tracks:
    """Its slices by track. Asserts names of processes and tracks, whole numbers, and slices that nest."""
    document = json.loads(path.read_text())
    assert document["displayTimeUnit"] in ("ms", "ns")
    titles: dict[tuple[int, int], str] = {}
    slices: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    processes = set()
    for event in document["traceEvents"]:
        place = event["pid"], event["tid"]
        assert all(isinstance(number, int) for number in place) and isinstance(event["args"], dict)
        if event["ph"] == "M" and event["name"] == "process_name":
            assert event["args"]["name"]
            processes.add(event["pid"])
        elif event["ph"] == "M" and event["name"] == "thread_name":
            assert place not in titles
            titles[place] = event["args"]["name"]
        elif event["ph"] == "M":
            assert event["name"] == "thread_sort_index" and isinstance(event["args"]["sort_index"], int)
        else:
            assert event["ph"] == "X" and event["name"] and event["cat"]
            assert event["ts"] >= 0 and event["dur"] >= 0
            slices[place].append(event)
    assert slices.keys() == titles.keys() and {pid for pid, _ in titles} == processes
    for track in slices.values():
        _nest(track)
    tracks: Tracks = defaultdict(list)
    for place, track in slices.items():
        tracks[titles[place]] += track
    return tracks


def _nest(track: list[dict[str, Any]]) -> None:
    ends: list[float] = []
    for event in sorted(track, key=lambda event: (event["ts"], -event["dur"])):
        end = event["ts"] + event["dur"]
        while ends and ends[-1] <= event["ts"] + 1e-6:
            ends.pop()
        assert not ends or end <= ends[-1] + 1e-6, event
        ends.append(end)


def within(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    """Whether a slice ran while another one was open."""
    return bool(outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"])
