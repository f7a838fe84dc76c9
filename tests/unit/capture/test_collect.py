"""A session's records become reproducers, whatever state the target left them in."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture.collect import Collector
from kerncap.capture.process_log import ProcessLog
from kerncap.capture.target import TargetResult
from kerncap.format import Reproducer, records, schema
from kerncap.format.records import RecordKind
from tests.unit.capture.recorded import (
    BYTES,
    RecordedProcess,
    bare_session,
    complete_payload,
    counts_payload,
    launch_payload,
    post_bytes,
    pre_bytes,
    sealer,
)


class Run:
    """One session and its collector."""

    def __init__(self, folder: Path, at_the_end: bool = False) -> None:
        self.session = bare_session(folder / "session")
        self.output = folder / "out"
        self.output.mkdir()
        self.collector = Collector(
            self.session.folder, sealer(self.session, self.output), at_the_end=at_the_end
        )

    def process(self, pid: int = 4242) -> RecordedProcess:
        return RecordedProcess(self.session.folder, pid)

    def final_folders(self) -> list[str]:
        return sorted(path.name for path in self.output.iterdir())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_complete_launch_is_sealed_while_the_process_lives(run: Run) -> None:
    process = run.process()
    process.launch(0)
    run.collector.poll()
    assert run.collector.sealed == [] and run.final_folders() == []
    process.complete(0)
    run.collector.poll()
    [sealed] = run.collector.sealed
    with Reproducer.open(sealed.path) as reproducer:
        manifest = reproducer.manifest
        assert reproducer.read("pre", 0, 0, BYTES) == pre_bytes(0)
        assert reproducer.read("post", 0, 0, BYTES) == post_bytes(0)
        reproducer.verify()
    assert manifest.kernel.name == "scale" and manifest.launch.grid == (4, 1, 1)
    assert manifest.arguments[0].signature == "*fp32" and manifest.arguments[0].divisibility == 16
    assert manifest.oracle == schema.Oracle(kind="trusted")
    assert manifest.platform.packages == {"torch": "2.9", "triton": "3.5"}
    assert manifest.command == ("python", "app.py")
    assert not (process.folder / "0.pre").exists(), "its raw bytes are not kept twice"
    process.end()


def test_a_dropped_launch_leaves_nothing(run: Run) -> None:
    process = run.process()
    process.launch(0)
    process.say(RecordKind.DROPPED, {"launch": 0, "reason": "finite"})
    process.end()
    run.collector.finish(TargetResult(0, process.pid))
    assert (run.collector.sealed, run.collector.failed, run.final_folders()) == ([], [], [])


def test_the_last_launches_are_sealed_at_the_end_only(tmp_path: Path) -> None:
    run = Run(tmp_path, at_the_end=True)
    process = run.process()
    for number in range(3):
        process.launch(number)
        process.complete(number)
        run.collector.poll()
        if number >= 1:
            process.say(RecordKind.DROPPED, {"launch": number - 1, "reason": "not the last"})
    assert run.collector.sealed == []
    process.end()
    run.collector.finish(TargetResult(0, process.pid))
    assert [sealed.ordinal for sealed in run.collector.sealed] == [2]


def test_a_launch_cut_short_has_no_folder_and_one_line(run: Run) -> None:
    process = run.process()
    process.launch(0)
    process.complete(0)
    process.launch(1)
    process.end()
    run.collector.finish(TargetResult(139, process.pid, signal=11))
    assert [sealed.ordinal for sealed in run.collector.sealed] == [0]
    assert len(run.final_folders()) == 1
    [line] = run.collector.failed
    assert "launch 1" in line and "killed by SIGSEGV" in line


@pytest.mark.parametrize(
    ("target", "kind", "error"),
    [
        (TargetResult(139, 4242, signal=11), "fault", "killed by SIGSEGV"),
        (TargetResult(3, 4242), "fault", "exited with status 3"),
        (TargetResult(143, 4242, signal=15, forwarded=15), "timeout", "killed by SIGTERM"),
        (TargetResult(139, 1, signal=11), "fault", "process 4242 ended (status unknown)"),
    ],
)
def test_on_fault_the_pre_state_alone_is_sealed(
    run: Run, target: TargetResult, kind: str, error: str
) -> None:
    process = run.process()
    process.launch(0, condition="on_fault")
    process.end()
    run.collector.finish(target)
    [sealed] = run.collector.sealed
    with Reproducer.open(sealed.path) as reproducer:
        assert reproducer.manifest.oracle == schema.Oracle(kind=kind, error=error)  # type: ignore[arg-type]
        assert reproducer.read("pre", 0, 0, BYTES) == pre_bytes(0)


def test_a_torn_record_ends_the_reading_and_a_later_append_resumes_it(run: Run) -> None:
    process = run.process()
    process.launch(0)
    record = records.encode(RecordKind.COMPLETE, complete_payload(0))
    (process.folder / "0.post").write_bytes(post_bytes(0))
    process.raw(record[:-9])
    run.collector.poll()
    assert run.collector.sealed == []
    process.raw(record[-9:])
    run.collector.poll()
    assert len(run.collector.sealed) == 1
    process.end()


def test_a_kind_of_a_newer_hook_is_skipped(run: Run) -> None:
    process = run.process()
    body = b"{}"
    head = records.HEADER.pack(records.MAGIC, 99, 1, len(body), zlib.crc32(body), 0)
    process.raw(head + body + b"\0" * 6)
    process.launch(0)
    process.complete(0)
    process.end()
    run.collector.finish(TargetResult(0, process.pid))
    assert len(run.collector.sealed) == 1


HOSTILE_LAUNCHES: dict[str, dict[str, Any]] = {
    "a path out of the session": {"pre": {"file": "../../etc/passwd"}},
    "a view on no region": {
        "views": [{"region": 7, "offset": 0, "dtype": "float32", "itemsize": 4, "shape": [1], "strides": [1]}]
    },
    "a view past its region": {
        "views": [
            {"region": 0, "offset": BYTES, "dtype": "float32", "itemsize": 4, "shape": [9], "strides": [1]}
        ]
    },
    "a region too large for its file": {
        "regions": [{"base": 0, "size": 2**40, "kind": "host", "device": -1, "reason": "x"}]
    },
    "a size beyond 2^48": {"regions": [{"base": 0, "size": 2**60, "kind": "host", "device": -1}]},
    "an argument of no kind": {"arguments": [{"name": "x", "role": "runtime", "value": {"kind": "evil"}}]},
    "offsets for other regions": {"pre_offsets": [0, 4096]},
    "a memfd that never came": {"pre": {"memfd": 3}},
    "a source that is a path": {"source": "/etc/passwd"},
    "no regions but text": {"regions": "many"},
}


@pytest.mark.parametrize("changes", HOSTILE_LAUNCHES.values(), ids=HOSTILE_LAUNCHES)
def test_what_cannot_be_used_is_one_line_and_the_next_launch_is_sealed(
    run: Run, changes: dict[str, Any]
) -> None:
    process = run.process()
    process.launch(0, **changes)
    process.complete(0)
    process.launch(1)
    process.complete(1)
    process.end()
    run.collector.finish(TargetResult(0, process.pid))
    assert [sealed.ordinal for sealed in run.collector.sealed] == [1]
    lines = run.collector.failed + run.collector.processes["4242-0"].complaints
    assert len(lines) == 1 and "\n" not in lines[0]
    assert len(run.final_folders()) == 1, "nothing half-written stays"


HOSTILE_ENDS: dict[str, dict[str, Any]] = {
    "a chunk outside its region": {"chunks": [[0, 5]]},
    "a chunk of no region": {"chunks": [[4, 0]]},
    "more chunks than bytes": {"chunks": [[0, 0], [0, 0]]},
    "code out of the folder": {"code": [{"stage": "ttir", "file": "code/../../secret"}]},
    "code that is not there": {"code": [{"stage": "ttir", "file": "code/none.ttir"}]},
    "an unknown status": {"status": "splendid"},
}


@pytest.mark.parametrize("changes", HOSTILE_ENDS.values(), ids=HOSTILE_ENDS)
def test_an_end_that_cannot_be_used_is_one_line(run: Run, changes: dict[str, Any]) -> None:
    process = run.process()
    process.launch(0)
    process.complete(0, **changes)
    process.end()
    run.collector.finish(TargetResult(0, process.pid))
    lines = run.collector.failed + run.collector.processes["4242-0"].complaints
    assert len(lines) == 1 and run.collector.sealed == [] and run.final_folders() == []


def test_links_and_pipes_in_the_place_of_files_are_refused(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(pre_bytes(0))
    process = run.process()
    payload = launch_payload(0)
    (process.folder / "0.pre").symlink_to(secret)
    process.say(RecordKind.LAUNCH, payload)
    process.complete(0)
    os.mkfifo(process.folder / "1.pre")
    process.say(RecordKind.LAUNCH, launch_payload(1))
    process.complete(1)
    process.end()
    run.collector.finish(TargetResult(0, process.pid))
    assert run.collector.sealed == [] and len(run.collector.failed) == 2


def test_a_pipe_as_records_does_not_hang(run: Run) -> None:
    folder = run.session.folder / "77-0"
    folder.mkdir()
    os.mkfifo(folder / "records")
    run.collector.poll()
    assert run.collector.processes["77-0"].process is None


def test_counts_are_summed_over_processes(run: Run) -> None:
    for pid in (10, 11):
        process = run.process(pid)
        process.counts({"app.a": counts_payload(3, filtered={"name": 3})}, overhead_ns=500)
        process.counts({"app.a": counts_payload(5, filtered={"name": 4})}, overhead_ns=700)
        process.end()
    run.collector.poll()
    kernels, totals = run.collector.counts()
    assert kernels["app.a"].launches == 10, "cumulative: the last record of each process counts"
    assert kernels["app.a"].filtered == {"name": 8}
    assert (totals.launches, totals.overhead_ns) == (10, 1400)


def test_a_used_folder_is_never_overwritten(run: Run) -> None:
    process = run.process()
    process.launch(0)
    process.complete(0)
    run.collector.poll()
    [first] = run.collector.sealed
    before = (first.path / "manifest.json").read_bytes()
    process.launch(1)
    process.complete(1)
    run.collector.poll()
    second = run.collector.sealed[1]
    assert second.path != first.path
    assert (first.path / "manifest.json").read_bytes() == before
    process.end()


def test_a_process_that_lives_on_is_left_open(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerncap.capture.collect.LINGER_S", 0.0)
    process = run.process()
    process.launch(0)
    alive = run.collector.finish(TargetResult(0, 1))
    assert [log.pid for log in alive] == [4242]
    assert run.collector.failed == [], "its launch may still complete"
    process.end()


@given(st.binary(max_size=400))
def test_any_bytes_as_records_are_survived(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("any") / "5-0"
    folder.mkdir()
    (folder / "records").write_bytes(records.encode(RecordKind.END, {"time_ns": 1}) + data)
    log = ProcessLog(folder, 5)
    log.read_new()
    assert log.ended


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_keys = st.sampled_from(sorted(launch_payload(0)) + sorted(complete_payload(0)) + ["kernels", "reason"])


@given(st.sampled_from(list(RecordKind)), st.dictionaries(_keys, _json, max_size=5))
def test_any_payload_is_taken_or_refused_in_a_line(
    tmp_path_factory: pytest.TempPathFactory, kind: RecordKind, changes: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("payload") / "5-0"
    folder.mkdir()
    base = {RecordKind.LAUNCH: launch_payload(0), RecordKind.COMPLETE: complete_payload(0)}.get(kind, {})
    (folder / "records").write_bytes(records.encode(kind, {**base, **changes}))
    log = ProcessLog(folder, 5)
    log.read_new()
    assert all("\n" not in line for line in log.complaints)
