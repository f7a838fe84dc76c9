"""What a report draws of a trace."""

from __future__ import annotations

from typing import Any

import msgspec

from kerncap.report.html.timeline_lanes import LEFT, MAX_LANES, RIGHT, Trace, condensed


def made(*slices: tuple[int, str, float, float]) -> Trace:
    """Launches: track, kernel, start and length in microseconds."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": f"stream {tid}"}}
        for tid in sorted({tid for tid, *_ in slices})
    ]
    events += [
        {"ph": "X", "cat": "launch", "name": "k", "pid": 1, "tid": tid, "ts": ts, "dur": dur,
         "args": {"kernel": kernel}}
        for tid, kernel, ts, dur in slices
    ]  # fmt: skip
    return msgspec.convert({"traceEvents": events}, Trace)


def test_the_kernel_is_drawn_among_the_others() -> None:
    found = condensed(made((2, "other", 0, 500), (1, "m.mine", 0, 250), (1, "m.mine", 750, 250)), {"m.mine"})
    assert found is not None
    assert found["summary"].startswith("2 of 3 launches in 1 ms: 500 us, 50.0% of all launches' time")
    first, second = found["lanes"]
    assert (first["title"], second["title"]) == ("stream 1", "stream 2") and second["own"] == []
    assert first["own"] == first["others"] and first["own"][0] == [LEFT, 163]
    assert sum(first["own"][-1]) == RIGHT


def test_a_trace_without_the_kernel_and_one_of_many_tracks() -> None:
    assert condensed(made((1, "other", 0, 1)), {"mine"}) is None
    assert condensed(made(), {"mine"}) is None
    found = condensed(made(*((tid, "mine" if tid == 40 else "o", tid, 0) for tid in range(50))), {"mine"})
    assert found is not None and len(found["lanes"]) == MAX_LANES
    assert found["lanes"][0]["title"] == "stream 40" and found["lanes_left_out"] == 50 - MAX_LANES


def test_numbers_that_are_none_are_left_out() -> None:
    wrong = [(1, "mine", float("nan"), 1.0), (1, "mine", 0.0, float("inf")), (1, "mine", 1e308, 1e308)]
    found = condensed(made(*wrong, (1, "mine", 5, 1)), {"mine"})
    assert found is not None and found["summary"].startswith("1 of 1 launches")
