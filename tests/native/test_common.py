"""The vendor-neutral part of the shims: its cases in C++, plain and under sanitizers, and captures against a
fake device whose records are read back as the command line reads them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncap.capture.session_socket import SessionServer
from kerncap.format import records
from kerncap.format.records import RecordKind
from tests.contract import check_keys
from tests.native.building import PLAIN_AND_SANITIZED, shims
from tests.session_options import session_json

SOURCES = Path(__file__).parent / "common"
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="session", params=PLAIN_AND_SANITIZED)
def program(request: pytest.FixtureRequest) -> Path:
    return shims("common_tests", request.param) / "tests/common/common_tests"


def cases() -> list[str]:
    """Every case in the sources that needs no session; capture_* are run by tests of their own."""
    text = "\n".join(path.read_text() for path in sorted(SOURCES.glob("*.cpp")))
    found = re.findall(r"^CASE\((\w+)\)", text, re.MULTILINE)
    return sorted(name for name in found if not name.startswith("capture_"))


@pytest.mark.parametrize("name", cases())
def test_case(program: Path, name: str) -> None:
    run(program, name, {})


def run(program: Path, case: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [program, case],
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1 die_after_fork=0", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


class Run:
    """A session folder, a server that answers for the command line, and what the program left there."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder = folder
        self.program = program
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, dict[str, Any]] = {}
        self.memfds: dict[int, bytes] = {}
        self.ranges: dict[str, bool] = {}
        self.told = ""  # session.json
        self.told_bytes: int | None = None  # as much of it is there; None for all

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(question)
        if question["ask"] == "globals":
            assert (self.folder / question["process"] / question["image"]).read_bytes() == b".version 6.4"
            return {"globals": []}
        if question["ask"] == "range":
            return {"match": self.ranges.get(question["range"], False)}
        return self.answers.get(question["demangled"], {"match": True})

    def __call__(self, conf: dict[str, object], case: str = "capture_scenario", **environment: object) -> str:
        server = SessionServer(self.folder, TOKEN, self.answer)
        try:
            told = session_json(**{"token": TOKEN, "socket": server.path, "backend": "cuda", **conf})
            self.told = json.dumps(told)[: self.told_bytes]
            (self.folder / "session.json").write_text(self.told)
            session = {"KERNCAP_SESSION": str(self.folder / "session.json")}
            out = run(self.program, case, {**session, **{k: str(v) for k, v in environment.items()}})
            for number in range(4):
                for process in self.processes():
                    descriptor = server.descriptor(process.name, number)
                    if descriptor is not None:
                        self.memfds[number] = os.pread(descriptor, 1 << 24, 0)
            return out
        finally:
            server.close()

    def processes(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.glob("*/records"))

    def records(self, process: int = 0) -> list[records.Record]:
        data = (self.processes()[process] / "records").read_bytes()
        found = list(records.decode(data))
        for record in found:
            check_keys(record.kind, record.payload)
        assert found and found[-1].end_offset == len(data)
        return found

    def of(self, kind: RecordKind, process: int = 0) -> list[dict[str, Any]]:
        return [record.payload for record in self.records(process) if record.kind is kind]

    def counts(self, name: str = "scale(float*, int)") -> dict[str, Any]:
        counted: dict[str, Any] = self.of(RecordKind.COUNTS)[-1]["kernels"][name]
        return counted

    def files(self) -> set[str]:
        return {path.name for path in self.processes()[0].iterdir()} - {"records", "lock", "code"}


@pytest.fixture
def capture(tmp_path: Path, program: Path) -> Iterator[Run]:
    yield Run(tmp_path, program)


def floats(data: bytes, count: int = 1000) -> set[float]:
    return set(memoryview(data[: count * 4]).cast("f"))


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


def test_no_values(capture: Run) -> None:
    capture({"no_values": True})
    [launch] = capture.of(RecordKind.LAUNCH)
    assert launch["pre"] is None and launch["closure"]["left_out"][0] == "all contents (--no-values)"
    assert launch["closure"]["included_bytes"] == 0 and not capture.files()
    assert capture.of(RecordKind.COMPLETE)[0]["post"] is None


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


def test_armed_twice(capture: Run) -> None:
    """Dormant at first; each generation has a selection of its own, counted from where it came."""
    (capture.folder / "arm").write_bytes(bytes(4096))

    def arm() -> None:
        for generation, launch in ((1, [1, 2]), (2, None)):
            while not (capture.folder / f"ready-{generation - 1}").exists():
                time.sleep(0.005)
            told = json.loads((capture.folder / "session.json").read_text())
            told.update(dormant=False, generation=generation)
            told["selection"]["launch"] = launch
            (capture.folder / f"session-{generation}.json").write_text(json.dumps(told))
            with (capture.folder / "arm").open("r+b") as page:
                page.write(generation.to_bytes(8, "little"))

    arming = threading.Thread(target=arm)
    arming.start()
    capture(
        {"dormant": True},
        case="capture_when_armed",
        READY=f"{capture.folder}/ready-",
        GENERATIONS=2,
        LAUNCHES=5,
    )
    arming.join()
    launches = capture.of(RecordKind.LAUNCH)
    assert [(launch["generation"], launch["ordinal"]) for launch in launches] == [(1, 1), (2, 0)]
    counts = capture.counts()
    assert (counts["launches"], counts["captured"]) == (15, 2)
    assert counts["filtered"] == {"dormant": 5, "ordinal": 8}
    matches = [question["generation"] for question in capture.asked if question["ask"] == "match"]
    assert matches == [1, 2] and len(capture.of(RecordKind.SEEN)) == 1


def test_armed_before_the_process_started(capture: Run) -> None:
    (capture.folder / "arm").write_bytes((3).to_bytes(8, "little") + bytes(4088))
    told = session_json(token=TOKEN, backend="cuda", generation=3)
    (capture.folder / "session-3.json").write_text(json.dumps(told))
    capture({"dormant": True})
    # No socket in that file: nobody could be asked.
    assert capture.counts()["filtered"] == {"no answer": 3}


def test_a_generation_that_cannot_be_read(capture: Run) -> None:
    (capture.folder / "arm").write_bytes((1).to_bytes(8, "little") + bytes(4088))
    capture({"dormant": True})
    assert capture.counts()["filtered"] == {"dormant": 3}


def test_nothing_is_taken_while_a_stream_captures(capture: Run) -> None:
    capture({}, CAPTURING=1)
    assert capture.counts()["filtered"] == {"graph capture": 3} and not capture.of(RecordKind.LAUNCH)


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


def test_costs_are_printed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(program, "gate_pass_cost", {})
    assert "a pass costs" in out
    with capsys.disabled():
        sys.stderr.write(f"[{program.parent.name}] {out}")


def test_session_json_is_left_alone(capture: Run) -> None:
    capture({})
    assert (capture.folder / "session.json").read_text() == capture.told


@pytest.mark.parametrize("told_bytes", [0, 1, 100, 300, -1])
def test_a_session_json_that_is_cut_off_leaves_the_program_alone(capture: Run, told_bytes: int) -> None:
    capture.told_bytes = told_bytes
    assert "runs 3 data 8" in capture({}) and not capture.processes() and not capture.asked


def test_options_that_are_nonsense_leave_their_defaults(capture: Run) -> None:
    nonsense = {
        "chunk_bytes": 4097, "max_size": -1, "drain_timeout_s": "long", "launch": [1], "when": "never",
        "ranks": None, "memory": 7, "limit_kernels": 1e300, "last": None, "where": [],
    }  # fmt: skip
    assert "runs 3 data 8" in capture(nonsense)
    assert capture.of(RecordKind.LAUNCH)[0]["closure"]["mode"] == "reachable"
