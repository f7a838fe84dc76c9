"""Ranges of native launches: one reproducer, replayed in order, and what came in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerncap.api.range_order import Facts, ordered
from kerncap.format import LaunchRange
from tests.integration.cuda.conftest import Bench, Captured


def launched(path: Path) -> list[tuple[int, str]]:
    """(position, kernel) of each launch of a range whose digests are all right."""
    with LaunchRange.open(path) as opened:
        opened.verify()
        return [(launch.position, launch.manifest.kernel.name) for launch in opened.launches]


def replayed(bench: Bench, captured: Captured, *options: str) -> dict[str, Any]:
    return bench.judge(captured.path, *options, command="replay")


def test_what_the_host_changes_in_between_is_found_and_done_again(bench: Bench) -> None:
    captured = bench.capture("--launches", "1:4", client=("chain",), self_check=True)
    names = ["vector_add", "scale_in_place", "vector_add"]
    assert launched(captured.path) == list(zip([1, 2, 3], names, strict=True))
    assert [check["result"] for check in captured.document["self_checks"].values()] == ["pass"]
    document = replayed(bench, captured)
    assert document["result"] == "pass" and document["exact"], document
    assert [step["changed_between_regions"] for step in document["steps"]] == [0, 0, 1]
    assert "changed between launches 1 and 2 by something outside the range" in str(document["notes"])
    flows = bench("inspect", "--json", captured.path).document["flows"]
    assert [tuple(flow.values()) for flow in flows] == [(0, 1, 4000, True), (1, 2, 4000, True)]


@pytest.mark.long
def test_nothing_is_said_where_nothing_came_in_between(bench: Bench) -> None:
    captured = bench.capture("--from", "scale_in_place", "--to", "vector_add", client=("chain", "alone"))
    assert launched(captured.path) == [(2, "scale_in_place"), (3, "vector_add")]
    document = replayed(bench, captured)
    assert document["result"] == "pass" and not document["notes"], document
    assert replayed(bench, captured, "--until", "0")["launches"] == 1
    assert replayed(bench, captured, "--only", "1")["result"] == "pass"


def test_variables_of_a_module_are_one_for_its_launches(bench: Bench) -> None:
    captured = bench.capture("--launches", "3:7", client=("chain", "variables"))
    with LaunchRange.open(captured.path) as opened:
        names = [{region.name for region in one.manifest.regions if region.name} for one in opened.launches]
    assert names == [set(), {"factor", "calls"}, {"factor", "calls"}, set()]
    document = replayed(bench, captured)
    assert document["result"] == "pass" and document["exact"] and not document["notes"], document
    # The count of calls, four bytes, goes from one to the next with what they scale.
    flows = bench("inspect", "--json", captured.path).document["flows"]
    assert {"from": 1, "to": 2, "bytes": 4004, "ordered": True} in flows, flows


def test_launches_left_out_by_their_name_are_done_as_the_application_did(bench: Bench) -> None:
    captured = bench.capture("-k", "vector_add", "--launches", "1:3", client=("chain", "alone"))
    assert launched(captured.path) == [(1, "vector_add"), (2, "vector_add")]
    document = replayed(bench, captured)
    assert document["result"] == "pass", document
    # What scale_in_place did to the sum.
    assert [step["changed_between_regions"] for step in document["steps"]] == [0, 1]


@pytest.mark.parametrize(("edition", "result"), [(3, "fail"), (0, "pass")])
def test_a_candidate_for_one_launch(bench: Bench, edition: int, result: str) -> None:
    captured = bench.capture("--launches", "1:4", client=("chain",))
    candidate = bench.candidate("edited", edition)
    options = ("--launch", "2", "--rtol", "0", "--atol", "0", "--candidate", candidate)
    assert bench.judge(captured.path, *options)["result"] == result


def test_a_slice_is_a_reproducer(bench: Bench) -> None:
    captured = bench.capture("--launches", "1:4", client=("chain",))
    done = bench("slice", "--json", captured.path, "1", "-o", "sliced")
    sliced = bench.kerncap.folder / done.document["path"]
    bench.passes(sliced)
    refused = bench("minimize", captured.path)
    assert refused.status == 2 and "kerncap slice" in refused.stderr, refused.stderr


@pytest.mark.parametrize(("occurrence", "expected"), [((), [0, 1]), (("1",), [2, 3])])
def test_all_launches_within_an_nvtx_range(
    bench: Bench, occurrence: tuple[str, ...], expected: list[int]
) -> None:
    captured = bench.capture("--range", "step", "--whole-range", *occurrence, client=("ranges",))
    assert launched(captured.path) == [(position, "scale_in_place") for position in expected]


def test_what_orders_streams_is_recorded(bench: Bench) -> None:
    # Streams that nothing orders race for the same values: two plain runs differ now and then.
    captured = bench.capture("--launches", "0:32", client=("stream_order",), same=False)
    with LaunchRange.open(captured.path) as opened:
        order = opened.manifest.order
        assert order is not None and len(opened.launches) == 32
    found = ordered(order, [Facts()] * 32)
    # Of each pair: whether the first launch is before the second; None: something may order them.
    assert [found.orders(one, one + 1) for one in range(0, 32, 2)] == [
        False,  # nothing
        True,  # an event
        False,  # one that was recorded before
        True,  # the host waits for the stream,
        True,  # for an event,
        True,  # for everything
        True,  # the default stream
        False,  # and streams that it does not wait for
        True,  # a copy to the host
        None,  # another event with the handle of one that was recorded
        None,  # a query
        None,  # a function of the host
        None,  # values in memory
        True,  # on the default stream and another one
        True,  # over a third stream
        True,  # the host waits for a context that it names
    ]
