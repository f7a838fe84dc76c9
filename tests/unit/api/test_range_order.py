"""Which launches are ordered, and which may be: by streams, events, the host, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest

from kerncap.api.range_order import Facts, ordered
from kerncap.format import schema

A, B, DEFAULT, BLOCKING = range(4)
STREAMS = tuple(
    schema.RangeStream(kind=kind) for kind in ("non_blocking", "non_blocking", "legacy", "blocking")
)


def call(what: str, stream: int | None = None, event: int | None = None, thread: int = 0) -> dict[str, Any]:
    return {"call": what, "stream": stream, "event": event, "thread": thread}


def answer(
    *calls: dict[str, Any],
    streams: tuple[int, int] = (A, B),
    threads: tuple[int, int] = (0, 0),
    facts: tuple[Facts, Facts] = (Facts(), Facts()),
) -> bool | None:
    """Whether the first of two launches is before the second, with these calls between them."""
    order = schema.StreamOrder(
        streams=STREAMS,
        launches=tuple(
            schema.LaunchPlace(stream=stream, thread=thread)
            for stream, thread in zip(streams, threads, strict=True)
        ),
        calls=tuple(schema.OrderingCall(before=1, **one) for one in calls),
    )
    return ordered(order, facts).orders(0, 1)


def test_nothing_orders_two_streams() -> None:
    assert answer() is False
    assert answer(streams=(A, A)) is True
    assert answer(call("record", A, 0)) is False
    assert answer(call("wait", B, 0), call("record", A, 0)) is None, "who recorded what was waited for?"
    assert answer(call("record", B, 0), call("wait", A, 0)) is False, "the wrong way round"


def test_an_event_is_what_was_recorded_last() -> None:
    assert answer(call("record", A, 0), call("wait", B, 0)) is True
    assert answer(call("record", A, 0), call("record", B, 0), call("wait", B, 0)) is False
    assert answer(call("record", A, 0), call("synchronize_event", event=0)) is True


@pytest.mark.parametrize(
    ("streams", "stream", "expected"),
    [
        ((BLOCKING, DEFAULT), None, True),
        ((DEFAULT, BLOCKING), None, True),
        ((DEFAULT, A), None, False),
        ((BLOCKING, A), DEFAULT, False),
    ],
)
def test_the_default_stream(streams: tuple[int, int], stream: int | None, expected: bool) -> None:
    calls = [] if stream is None else [call("work", stream)]
    assert answer(*calls, streams=streams) is expected


def test_another_thread_orders_nothing_surely() -> None:
    assert answer(call("synchronize", A, thread=1)) is None
    assert answer(call("record", A, 0), call("wait", B, 0, thread=1)) is None
    assert answer(call("record", A, 0), call("record", A, 0, thread=1), call("wait", B, 0)) is None
    assert answer(threads=(0, 1)) is None
    assert answer(call("synchronize", A), threads=(0, 1)) is None


def test_what_is_not_known_may_order() -> None:
    assert answer(call("unknown")) is None
    assert answer(call("unknown"), streams=(A, A)) is True
    assert answer(facts=(Facts(may_wait=True), Facts())) is None, "it may wait for the second"
    assert answer(facts=(Facts(), Facts(may_wait=True))) is None
    assert answer(facts=(Facts(seen_by_host=True), Facts())) is None
    assert answer(facts=(Facts(records_events=True), Facts())) is None
    assert answer(facts=(Facts(), Facts(after_gap=True))) is None
    assert answer(streams=(A, A), facts=(Facts(in_graph=True), Facts(in_graph=True))) is None
    assert answer(streams=(A, A), facts=(Facts(in_graph=True), Facts())) is True
