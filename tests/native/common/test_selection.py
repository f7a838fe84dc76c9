"""Which launches are taken: by number, --where, range, rank, limits."""

from __future__ import annotations

from kerncap.format.records import RecordKind
from tests.native.common.captured import Run


def test_launch_range(capture: Run) -> None:
    capture({"launch": [2, 4]}, LAUNCHES=6)
    assert [launch["ordinal"] for launch in capture.of(RecordKind.LAUNCH)] == [2, 3]
    counts = capture.counts()
    assert counts["launches"] == 6 and counts["filtered"] == {"ordinal": 4} and counts["captured"] == 2


def test_where(capture: Run) -> None:
    capture({"where": "grid[0] >= 3"}, LAUNCHES=5)
    [launch] = capture.of(RecordKind.LAUNCH)
    assert launch["grid"] == [3, 1, 1] and launch["ordinal"] == 0
    assert capture.counts()["filtered"] == {"ordinal": 2, "where": 2}


def test_where_without_the_name(capture: Run) -> None:
    capture({"where": "num_warps == 4"})
    assert not capture.of(RecordKind.LAUNCH)
    assert capture.counts()["filtered"] == {"where: no name num_warps": 3}


def test_default_selection(capture: Run) -> None:
    capture.answers["other(float*, int)"] = {"match": False, "reason": "no source"}
    capture({"by_default": True}, TWO_KERNELS=1)
    assert [launch["kernel"]["name"] for launch in capture.of(RecordKind.LAUNCH)] == ["scale"]
    assert capture.counts("other(float*, int)")["filtered"] == {"no source": 3}
    assert [seen["source_known"] for seen in capture.of(RecordKind.SEEN)] == [True, False]


def test_default_selection_has_limits(capture: Run) -> None:
    capture({"by_default": True, "limit_bytes": 5000}, TWO_KERNELS=1)
    assert len(capture.of(RecordKind.COMPLETE)) == 1 and not capture.of(RecordKind.FAILED)
    assert capture.counts("other(float*, int)")["filtered"] == {"limit": 3}


def test_max_size_is_refused_by_name(capture: Run) -> None:
    capture({"max_size": 1000}, LAUNCHES=20)
    failed = capture.of(RecordKind.FAILED)
    assert len(failed) == 16  # then the kernel is left alone
    assert "3.906 KiB, more than --max-size 1000 bytes: parameter 0: 3.906 KiB" in failed[0]["reason"]
    assert capture.counts()["filtered"] == {"failed": 4} and not capture.files()


def test_list_only(capture: Run) -> None:
    capture({"list_only": True, "by_default": True}, LAUNCHES=10, TWO_KERNELS=1)
    counts = capture.counts()
    assert counts["launches"] == 10 and counts["time_ns"] == 10_000 and not capture.of(RecordKind.LAUNCH)
    assert (counts["timed"], counts["min_ns"], counts["max_ns"]) == (10, 1000, 1000)
    # The program launches each time with another grid.
    assert [row["grid"] for row in counts["rows"]] == [[i + 1, 1, 1] for i in range(10)]
    assert counts["rows"][0] == {
        "grid": [1, 1, 1], "block": [128, 1, 1], "shared_bytes": 16, "config": None,
        "stream": "the fake stream", "device": 0, "range": [], "route": "cuLaunchKernel", "launches": 1,
        "time_ns": 1000, "timed": 1, "min_ns": 1000, "max_ns": 1000,
    }  # fmt: skip
    whole = capture.of(RecordKind.COUNTS)[-1]
    assert (whole["clock"], whole["clock_reason"]) == ("events", "it is a fake")


def test_rows_by_range(capture: Run) -> None:
    capture({"list_only": True, "by_default": True}, case="capture_in_ranges")
    assert [row["range"] for row in capture.counts()["rows"]] == [["step", "even"], ["step", "odd"]] * 2


def test_a_range_that_was_asked_for(capture: Run) -> None:
    capture.ranges["step/odd"] = True
    capture({"range": "even", "launch": [0, 9]}, case="capture_in_ranges")
    assert [launch["range"] for launch in capture.of(RecordKind.LAUNCH)] == [["step", "odd"]] * 2
    assert [launch["ordinal"] for launch in capture.of(RecordKind.LAUNCH)] == [0, 1]
    assert capture.counts()["filtered"]["range"] == 2
    asked = [question["range"] for question in capture.asked if question["ask"] == "range"]
    assert asked == ["step/even", "step/odd"]  # each once


def test_where_knows_range_and_rank(capture: Run) -> None:
    where = "range == 'step/even' and rank == 2"
    capture({"where": where, "launch": [0, 9]}, case="capture_in_ranges", RANK=2)
    assert [launch["range"] for launch in capture.of(RecordKind.LAUNCH)] == [["step", "even"]] * 2


def test_another_rank_is_disarmed(capture: Run) -> None:
    capture({"ranks": [0, 2]}, RANK=1, LOCAL_RANK=1)
    [process] = capture.of(RecordKind.PROCESS)
    assert (process["rank"], process["local_rank"]) == (1, 1)
    assert capture.counts()["filtered"] == {"rank": 3} and not capture.of(RecordKind.LAUNCH)
    assert not [question for question in capture.asked if question["ask"] == "match"]


def test_the_rank_that_was_asked_for(capture: Run) -> None:
    capture({"ranks": [0, 2]}, RANK=2)
    assert len(capture.of(RecordKind.COMPLETE)) == 1
