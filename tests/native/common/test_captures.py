"""A launch that is captured: its records, its memory, threads and children."""

from __future__ import annotations

import pytest

from kerncap.format.records import RecordKind
from tests.native.common.captured import Run, floats


def test_one_launch_is_captured(capture: Run) -> None:
    assert "runs 3 data 8" in capture({})
    kinds = [record.kind.name for record in capture.records()]
    assert kinds == ["PROCESS", "SEEN", "LAUNCH", "COMPLETE", "COUNTS", "COUNTS", "END"]
    process, seen = capture.of(RecordKind.PROCESS)[0], capture.of(RecordKind.SEEN)[0]
    assert process["shim"] == "cuda" and process["argv"][1:] == ["capture_scenario"]
    assert (seen["kernel"], seen["mangled"], seen["image_kind"]) == ("scale", "_Z5scalePfi", "ptx")
    launch, complete = capture.of(RecordKind.LAUNCH)[0], capture.of(RecordKind.COMPLETE)[0]
    assert launch["kernel"] == {
        "name": "scale",
        "qualified_name": "scale(float*, int)",
        "mangled": "_Z5scalePfi",
    }
    assert (launch["ordinal"], launch["grid"], launch["block"]) == (0, [1, 1, 1], [128, 1, 1])
    assert launch["parameters"]["layout"] == [[0, 8], [8, 4]] and len(launch["parameters"]["bytes"]) == 24
    [region] = launch["regions"]
    assert region["size"] == 4000 and region["reason"] == "parameter 0" and region["kind"] == "device"
    assert launch["closure"]["consistency"] == "gated" and launch["closure"]["included_bytes"] == 4000
    folder = capture.processes()[0]
    assert floats((folder / launch["pre"]["file"]).read_bytes()) == {1.0}
    assert complete["chunks"] == [[0, 0]]
    assert floats((folder / complete["post"]["file"]).read_bytes()) == {2.0}
    assert (folder / launch["image"]["file"]).read_bytes() == b".version 6.4"
    counts = capture.counts()
    assert (counts["launches"], counts["matched"], counts["captured"]) == (3, 1, 1)
    assert counts["filtered"] == {"ordinal": 2}
    assert [question["ask"] for question in capture.asked] == ["match", "globals"]
    assert list(capture.folder.glob("cuda-*"))


def test_the_payloads_pass_the_command_lines_checks(capture: Run) -> None:
    from kerncap.capture.process_log import ProcessLog

    capture({})
    folder = capture.processes()[0]
    log = ProcessLog(folder, int(folder.name.split("-")[0]))
    log.read_new()
    assert not log.complaints and log.ended and log.pending[0].complete is not None


def test_no_values(capture: Run) -> None:
    capture({"no_values": True})
    [launch] = capture.of(RecordKind.LAUNCH)
    assert launch["pre"] is None and launch["closure"]["left_out"][0] == "all contents (--no-values)"
    assert launch["closure"]["included_bytes"] == 0 and not capture.files()
    assert capture.of(RecordKind.COMPLETE)[0]["post"] is None


def test_nothing_is_taken_while_a_stream_captures(capture: Run) -> None:
    capture({}, CAPTURING=1)
    assert capture.counts()["filtered"] == {"graph capture": 3} and not capture.of(RecordKind.LAUNCH)


def test_stop_ends_the_program(capture: Run) -> None:
    with pytest.raises(AssertionError):
        capture({"stop": True}, LAUNCHES=3)
    assert [record.kind.name for record in capture.records()][-1] == "END"
    assert capture.counts()["launches"] == 1


def test_seven_threads_launch_meanwhile(capture: Run) -> None:
    capture({"launch": [3, 6]}, case="capture_while_others_launch")
    mine = [entry for entry in capture.of(RecordKind.LAUNCH) if entry["kernel"]["name"] == "scale"]
    assert [launch["ordinal"] for launch in mine] == [3, 4, 5]
    done = {complete["launch"] for complete in capture.of(RecordKind.COMPLETE)}
    folder = capture.processes()[0]
    for launch in mine:
        assert launch["launch"] in done
        assert floats((folder / launch["pre"]["file"]).read_bytes()) == {2.0 ** launch["ordinal"]}


def test_a_forked_child_has_a_folder_of_its_own(capture: Run) -> None:
    # The child leaves what its parent's other threads may have been changing: no leak to report.
    options = {"ASAN_OPTIONS": "detect_leaks=0"}
    capture({"launch": [0, 9]}, case="capture_in_a_forked_child", **options)
    folders = {process.name: index for index, process in enumerate(capture.processes())}
    assert len(folders) == 2
    parents = {name: capture.of(RecordKind.PROCESS, i)[0]["parent_folder"] for name, i in folders.items()}
    [child] = [name for name, parent in parents.items() if parent is not None]
    assert parents[child] in folders and parents[parents[child]] is None
    # A device's addresses don't survive a fork: the child's map is empty.
    assert [launch["regions"] for launch in capture.of(RecordKind.LAUNCH, folders[child])] == [[]]
    assert len(capture.of(RecordKind.COMPLETE, folders[parents[child]])) == 2


def test_a_striped_pre_state(capture: Run) -> None:
    count = 20 << 20
    capture({}, FLOATS=count, LAUNCHES=1)
    [launch] = capture.of(RecordKind.LAUNCH)
    folder, pre = capture.processes()[0], launch["pre"]
    stripes, block = pre.get("stripes", 1), pre.get("stripe_bytes", 1 << 40)
    files = [folder / (pre["file"] + (f".{i}" if i else "")) for i in range(stripes)]
    assert sum(file.stat().st_size for file in files) == count * 4
    for offset in (0, block - 4, block, count * 4 - 4):
        if offset < count * 4:
            stripe, place = offset // block % stripes, offset // block // stripes * block + offset % block
            with files[stripe].open("rb") as file:
                file.seek(place)
                assert floats(file.read(4), 1) == {1.0}
