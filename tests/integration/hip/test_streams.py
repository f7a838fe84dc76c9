"""Ranges over two streams of a HIP program: the order that an event gives is proved, no other one is."""

from __future__ import annotations

from tests.parameters import first_of

from .conftest import Bench, Programs


@first_of(("joined", "ordered"), [("event", True), ("host", None), ("early", None)])
def test_the_order_of_two_streams(
    bench: Bench, programs: Programs, joined: str, ordered: bool | None
) -> None:
    """``early``: the event is recorded before the launch, and only the host's wait orders the two."""
    program = (str(programs("streams")), joined)
    run = bench.capture("-k", "^(filled|doubled)$", "--launches", "0:2", program=program)
    document = bench("inspect", "--json", run.path).document
    assert [(flow["from"], flow["to"], flow["ordered"]) for flow in document["flows"]] == [(0, 1, ordered)]


def test_streams_that_may_share_a_queue_are_not_ordered(bench: Bench, programs: Programs) -> None:
    program = (str(programs("streams")), "event")
    few = {"GPU_MAX_HW_QUEUES": "2"}
    run = bench.capture("-k", "^(filled|doubled)$", "--launches", "0:2", program=program, extra=few)
    [flow] = bench("inspect", "--json", run.path).document["flows"]
    assert flow["ordered"] is None
