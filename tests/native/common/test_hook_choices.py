"""Kernels and launches that are the Triton hook's."""

from __future__ import annotations

from kerncap.format.records import RecordKind
from tests.native.common.captured import Run


def test_kernels_of_the_triton_hook(capture: Run) -> None:
    """Its kernels are neither asked about nor counted; what it chooses is captured with its annotation."""
    out = capture({"launch": [100, 200]}, OWN_AT=0, CHOOSE_AT=1, LAUNCHES=3)
    assert "fate 1" in out
    [launch] = capture.of(RecordKind.LAUNCH)
    assert launch["annotation"] == "1-0/5" and launch["grid"] == [2, 1, 1]
    assert not capture.of(RecordKind.SEEN)
    assert "scale(float*, int)" not in capture.of(RecordKind.COUNTS)[-1]["kernels"]


def test_a_choice_that_fails_says_so(capture: Run) -> None:
    out = capture({"max_size": 10}, OWN_AT=0, CHOOSE_AT=1)
    assert "fate 3 it can reach" in out and len(capture.of(RecordKind.FAILED)) == 1


def test_a_choice_inside_a_graph(capture: Run) -> None:
    capture({"launch": [100, 200]}, OWN_AT=0, GRAPH_CHOOSE_AT=1, AS_GRAPH=1)
    [launch] = capture.of(RecordKind.LAUNCH)
    assert launch["annotation"] == "1-0/6" and launch["route"] == "cuGraphLaunch node 2"
