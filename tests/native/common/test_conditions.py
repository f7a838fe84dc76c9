"""Launches that are kept if they fault, hang, differ or are not finite; the last ones."""

from __future__ import annotations

import pytest

from kerncap.format.records import RecordKind
from tests.native.common.captured import Run, floats


def test_a_stream_that_does_not_finish(capture: Run) -> None:
    """Released at the deadline, named, and the next match is taken; the program's result is its own."""
    out = capture({"drain_timeout_s": 0.03}, LAUNCHES=4, HANG_AT=0)
    assert "runs 4 data 16" in out
    first, second = capture.of(RecordKind.FAILED)
    assert first["reason"] == "the fake stream did not finish within 0.03 s after the launch"
    assert second["reason"] == (
        "the fake stream did not finish within 0.03 s before the launch; no other thread waits for kerncap, "
        "so it may wait for this launch or for what this thread does next"
    )
    assert first["launch"] == 0 and second["launch"] is None
    [complete] = capture.of(RecordKind.COMPLETE)
    assert complete["launch"] > 0 and f"{complete['launch']}.pre" in capture.files()
    assert "0.pre" not in capture.files()


def test_a_launch_that_the_driver_refuses(capture: Run) -> None:
    capture({}, REFUSE_AT=0)
    assert "the driver refused the launch: FAKE_ERROR (1)" in capture.of(RecordKind.FAILED)[0]["reason"]
    assert capture.of(RecordKind.COMPLETE)[0]["launch"] == 1


def test_a_fault_without_a_condition(capture: Run) -> None:
    capture({}, FAULT_AT=0)
    [complete] = capture.of(RecordKind.COMPLETE)
    assert (complete["status"], complete["oracle"], complete["error"]) == (
        "fault",
        "fault",
        "FAKE_ERROR (700)",
    )
    assert complete["post"] is None and complete["duration_ns"] is None
    [last] = capture.of(RecordKind.LAST)
    assert [entry["index"] for entry in last["launches"]] == [0]
    assert last["launches"][0]["kernel"] == "scale(float*, int)" and last["error"] == "FAKE_ERROR (700)"


def test_on_fault(capture: Run) -> None:
    capture({"on_fault": True}, LAUNCHES=4, FAULT_AT=2)
    launches = capture.of(RecordKind.LAUNCH)
    assert [launch["pre"] for launch in launches] == [{"memfd": 0}] * 3
    assert all(launch["condition"] == "on_fault" for launch in launches)
    assert [dropped["launch"] for dropped in capture.of(RecordKind.DROPPED)] == [0, 1]
    [complete] = capture.of(RecordKind.COMPLETE)
    assert (complete["launch"], complete["status"]) == (2, "fault")
    assert floats(capture.memfds[0]) == {4.0}


def test_on_fault_timeout(capture: Run) -> None:
    capture({"on_fault": True, "fault_timeout_s": 0.02}, LAUNCHES=2, HANG_AT=1)
    [complete] = capture.of(RecordKind.COMPLETE)
    assert (complete["launch"], complete["status"]) == (1, "timeout")
    assert complete["error"] == "it did not finish within 0.02 s"


def test_on_fault_without_a_socket(capture: Run) -> None:
    capture({"on_fault": True, "socket": "/nowhere"}, LAUNCHES=2, FAULT_AT=1)
    # Nobody answers about the kernel either, so nothing matches.
    assert capture.counts()["filtered"] == {"no answer": 2}


@pytest.mark.parametrize("room", [0, 1 << 20], ids=["host", "device"])
def test_differs(capture: Run, room: int) -> None:
    # Launches 0 and 1 ran three times each and agreed; run 8 is the second one of launch 2.
    out = capture({"when": "differs"}, LAUNCHES=4, ODD_RUN=8, CLONE_BYTES=room)
    assert "runs 9" in out
    assert [dropped["reason"] for dropped in capture.of(RecordKind.DROPPED)] == ["not differs"] * 2
    [complete] = capture.of(RecordKind.COMPLETE)
    assert complete["oracle"] == "suspect" and complete["condition"] == "differs"
    assert complete["detail"].endswith("differs in 1 chunk, first at byte 14 of the region of parameter 0")
    launch = capture.of(RecordKind.LAUNCH)[-1]
    assert launch["pre"] == {"memfd": 0} and floats(capture.memfds[0]) == {4.0}
    post = (capture.processes()[0] / complete["post"]["file"]).read_bytes()
    assert floats(post) == {8.0}  # the first run's
    assert not [name for name in capture.files() if name.endswith(".after")]


@pytest.mark.parametrize("room", [0, 1 << 20], ids=["host", "device"])
def test_nonfinite(capture: Run, room: int) -> None:
    capture({"when": "nonfinite"}, LAUNCHES=4, NAN_AT=2, CLONE_BYTES=room)
    assert len(capture.of(RecordKind.DROPPED)) == 2
    [complete] = capture.of(RecordKind.COMPLETE)
    assert complete["detail"] == "parameter 0[7] = nan, 1 element" and complete["launch"] == 2
    assert floats(capture.memfds[0]) == {4.0}


def test_last(capture: Run) -> None:
    capture({"last": 2}, LAUNCHES=5)
    assert [dropped["launch"] for dropped in capture.of(RecordKind.DROPPED)] == [0, 1, 2]
    assert capture.files() == {"3.pre", "3.post", "4.pre", "4.post"}
    assert capture.counts()["captured"] == 2
