"""`kerncap list --timeline` on a GPU: what ran is where it ran, by CUPTI and by events."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.integration.conftest import CommandLine
from tests.integration.traces import Tracks, read_trace

from .captured import TARGETS

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

# How far CUPTI's clock, or the event whose time on the host is known, may be from the host's.
SLACK_US = 100.0


def timeline(kerncap: CommandLine, name: str, *options: str, **extra: str) -> tuple[dict[str, Any], Tracks]:
    done = kerncap(
        "list", "--json", "--timeline", name, *options, "--", sys.executable, TARGETS / "timed.py",
        env=extra, timeout=200,
    )  # fmt: skip
    assert done.status == 0 and "done" in done.stderr, done.stderr
    return done.document, read_trace(kerncap.folder / name)


def slices(tracks: Tracks, category: str) -> list[dict[str, Any]]:
    found = [event for track in tracks.values() for event in track if event["cat"] == category]
    return sorted(found, key=lambda event: event["ts"])


def in_their_ranges(tracks: Tracks, events: list[dict[str, Any]], name: str) -> int:
    """How many of these slices lie in a range of this name each, of which there are five."""
    ranges = [event for event in slices(tracks, "range") if event["name"] == name]
    assert len(ranges) == 5
    return sum(
        any(
            outer["ts"] - SLACK_US <= event["ts"]
            and event["ts"] + event["dur"] <= outer["ts"] + outer["dur"] + SLACK_US
            for outer in ranges
        )
        for event in events
    )


def launches(tracks: Tracks, word: str) -> list[dict[str, Any]]:
    return [event for event in slices(tracks, "launch") if word in event["args"]["kernel"]]


def test_by_cupti(kerncap: CommandLine) -> None:
    document, tracks = timeline(kerncap, "cupti.json")
    assert [clock["clock"] for clock in document["clocks"]] == ["cupti"]
    assert in_their_ranges(tracks, launches(tracks, "CUDAFunctor_add"), "add") == 5
    assert in_their_ranges(tracks, launches(tracks, "cos"), "beside") == 5
    assert in_their_ranges(tracks, launches(tracks, "MulFunctor"), "graph") == 15
    assert all(event["args"]["graph"] == 0 for event in launches(tracks, "MulFunctor"))
    assert in_their_ranges(tracks, launches(tracks, "__main__.double"), "double") == 5
    copies = slices(tracks, "copy")
    for name, around in (("copy host to device", "upload"), ("copy device to host", "download")):
        of_ours = [event for event in copies if event["name"] == name and event["args"]["bytes"] == 4 << 20]
        assert in_their_ranges(tracks, of_ours, around) == 5
    streams = {
        title for title, track in tracks.items() if any(event in track for event in launches(tracks, "cos"))
    }
    assert len(streams) == 1 and streams != {
        title for title, track in tracks.items() if any(event in track for event in launches(tracks, "add"))
    }
    assert document["timeline"]["lost"] == 0


def test_by_events(kerncap: CommandLine) -> None:
    """Kernels only; those of a graph have no time of their own."""
    document, tracks = timeline(kerncap, "events.json", KERNCAP_NO_CUPTI="1")
    assert [clock["clock"] for clock in document["clocks"]] == ["events"]
    assert in_their_ranges(tracks, launches(tracks, "CUDAFunctor_add"), "add") == 5
    assert in_their_ranges(tracks, launches(tracks, "cos"), "beside") == 5
    assert in_their_ranges(tracks, launches(tracks, "__main__.double"), "double") == 5
    assert not slices(tracks, "copy")


def test_by_the_hook(kerncap: CommandLine) -> None:
    document, tracks = timeline(kerncap, "hook.json", "--backend", "triton")
    assert [clock["clock"] for clock in document["clocks"]] == ["events"]
    assert in_their_ranges(tracks, launches(tracks, "__main__.double"), "double") == 5
