"""Sealing where the disk or the session fails it: a clear line, nothing half-written."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture.collect import Collector
from kerncap.capture.payloads import LaunchRecord, convert
from kerncap.capture.read_progress import Followed
from kerncap.capture.seal import _runs
from kerncap.capture.session_folder import Session
from kerncap.capture.session_socket import SessionServer
from kerncap.capture.target import TargetResult
from kerncap.errors import CaptureError
from kerncap.format import Reproducer, ReproducerWriter, schema
from kerncap.format.region_sources import Piece
from kerncap.time_left import TimeLeft
from tests.unit.capture.recorded import (
    BYTES,
    RecordedProcess,
    bare_session,
    launch_payload,
    pre_bytes,
    sealer,
)


def collect(session: Session, output: Path, process: RecordedProcess) -> Collector:
    output.mkdir(exist_ok=True)
    collector = Collector(session.folder, sealer(session, output))
    process.end()
    collector.finish(TargetResult(0, process.pid))
    return collector


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["add_region_pre", "add_post_chunks", "finish_memory", "seal"])
def test_a_full_disk_is_said_and_the_raw_bytes_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(ReproducerWriter, where, full)
    session = bare_session(tmp_path / "session")
    process = RecordedProcess(session.folder)
    process.launch(0)
    process.complete(0)
    collector = collect(session, tmp_path / "out", process)
    [line] = collector.failed
    assert "no space left" in line and str(tmp_path / "out") in line and "free" in line
    assert os.listdir(tmp_path / "out") == [] and collector.unsealed == 1
    assert (process.folder / "0.pre").exists()

    monkeypatch.undo()
    again = Collector(session.folder, sealer(session, tmp_path / "out"))
    again.finish(None, wait_for_children=False)
    assert len(again.sealed) == 1, "with room it can be sealed later"


def test_a_disk_too_full_to_close_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = os.close

    def closing_fails(fd: int) -> None:
        """Of the file of chunks, as a file system with quotas does it."""
        path = os.readlink(f"/proc/self/fd/{fd}")
        close(fd)
        if path.endswith("memory/chunks"):
            full()

    monkeypatch.setattr(os, "close", closing_fails)
    monkeypatch.setattr(ReproducerWriter, "finish_memory", full)
    session = bare_session(tmp_path / "session")
    process = RecordedProcess(session.folder)
    process.launch(0)
    process.complete(0)
    collector = collect(session, tmp_path / "out", process)
    assert "no space left" in collector.failed[0] and os.listdir(tmp_path / "out") == []


def test_a_memfd_is_sealed_and_its_memory_given_back(tmp_path: Path) -> None:
    session = bare_session(tmp_path / "session")
    session.server = SessionServer(session.folder, "t")
    process = RecordedProcess(session.folder)
    descriptor = os.memfd_create("state")
    os.write(descriptor, pre_bytes(0))
    assert session.server._keep(
        f'{{"token": "t", "process": "{process.folder.name}", "memfd": 0}}'.encode(), [descriptor]
    )
    process.launch(0, pre={"memfd": 0}, condition="on_fault")
    collector = collect(session, tmp_path / "out", process)
    [sealed] = collector.sealed
    with Reproducer.open(sealed.path) as reproducer:
        assert reproducer.read("pre", 0, 0, BYTES) == pre_bytes(0)
    assert session.memfd(process.folder.name, 0) is None
    session.close()


def test_a_memfd_of_a_killed_kerncap_is_said_to_be_lost(tmp_path: Path) -> None:
    session = bare_session(tmp_path / "session")
    process = RecordedProcess(session.folder)
    process.launch(0, pre={"memfd": 0}, condition="on_fault")
    collector = collect(session, tmp_path / "out", process)
    assert collector.sealed == []
    assert "memory of the kerncap that was killed" in collector.failed[0]
    assert collector.unsealed == 0, "no reason to keep the session for it"


def test_a_large_launch_says_its_size_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kerncap.capture.seal.SAY_SIZE_ABOVE", 1000)
    session = bare_session(tmp_path / "session")
    process = RecordedProcess(session.folder)
    process.launch(0)
    process.complete(0)
    collect(session, tmp_path / "out", process)
    assert capsys.readouterr().err == f"kerncap: scale (launch 0): writing 4.0 KiB to {tmp_path / 'out'}\n"


def test_progress_is_said_every_two_seconds_and_never_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [100.0]
    monkeypatch.setattr("kerncap.time_left.time.monotonic", lambda: clock[0])

    class Slow:
        """Gives a chunk each 0.4 s."""

        def pieces(self, offset: int, size: int, step: int) -> Iterator[Piece]:
            for start in range(0, size, step):
                clock[0] += 0.4
                yield start, lambda _: bytes(step)

    left = TimeLeft("add: writing", in_bytes=True)
    followed = Followed(Slow(), lambda done: left(done, 10 << 20), before=0)
    starts = [start for start, _ in followed.pieces(0, 10 << 20, 1 << 20)]
    assert starts == list(range(0, 10 << 20, 1 << 20))
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "kerncap: add: writing 4.0 MiB of 10.0 MiB, 3.0 s left",
        "kerncap: add: writing 9.0 MiB of 10.0 MiB, 444 ms left",
    ]


def test_how_far_sealing_is_behind_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kerncap.capture.collect.SAY_BEHIND_S", 0.0)
    session = bare_session(tmp_path / "session")
    process = RecordedProcess(session.folder)
    for number in range(3):
        process.launch(number)
        process.complete(number)
    assert len(collect(session, tmp_path / "out", process).sealed) == 3
    assert capsys.readouterr().err.splitlines() == [
        "kerncap: 2 captured launches wait to be written, 8.0 KiB",
        "kerncap: 1 captured launch waits to be written, 4.0 KiB",
    ]


def test_code_and_source_come_along(tmp_path: Path) -> None:
    session = bare_session(tmp_path / "session")
    process = RecordedProcess(session.folder)
    (process.folder / "code" / "scale-1.ttir").write_bytes(b"module {}")
    (process.folder / "source-0.json").write_text('{"entry": 5}')
    process.launch(0, source="source-0.json")
    process.complete(0, code=[{"stage": "ttir", "file": "code/scale-1.ttir"}])
    collector = collect(session, tmp_path / "out", process)
    with Reproducer.open(collector.sealed[0].path) as reproducer:
        assert reproducer.code("ttir") == b"module {}"
        assert reproducer.manifest.source is None, "a damaged source graph costs the source alone"
        assert "source" in reproducer.manifest.notes[0]


def test_functions_among_the_arguments_get_their_names_in_the_module() -> None:
    from kerncap.capture.manifest import name_functions

    payload = launch_payload(0)
    function = {"kind": "function", "name": "<locals>.act"}
    payload["arguments"] = [
        {"name": "f", "role": "constexpr", "value": function},
        {
            "name": "g",
            "role": "constexpr",
            "value": {"kind": "sequence", "items": [function, {"kind": "none"}]},
        },
    ]
    launch = convert(payload, LaunchRecord, "launch")
    first, second = name_functions(launch.arguments, ["act", "act_1"])
    assert first.value == schema.FunctionValue(name="act")
    assert second.value == schema.SequenceValue(
        items=(schema.FunctionValue(name="act_1"), schema.NoneValue())
    )
    [unnamed, _] = name_functions(launch.arguments, [])
    assert unnamed.value == schema.FunctionValue(name="<locals>.act")


def test_a_launch_without_values_says_so(tmp_path: Path) -> None:
    session = bare_session(tmp_path / "session")
    process = RecordedProcess(session.folder)
    process.launch(0, pre=None, pre_offsets=[])
    process.complete(0, post=None, chunks=[])
    collector = collect(session, tmp_path / "out", process)
    with Reproducer.open(collector.sealed[0].path) as reproducer:
        assert any("--no-values" in note for note in reproducer.manifest.notes)
        assert reproducer.manifest.memory.pre_bytes == 0


def test_a_payload_is_refused_with_its_place() -> None:
    with pytest.raises(CaptureError, match=r"launch 0: .*regions\[0\]\.size"):
        convert(
            {**launch_payload(0), "regions": [{"base": 0, "size": -1, "kind": "host"}]},
            LaunchRecord,
            "launch 0",
        )


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=30), st.integers(1, 5))
def test_changed_chunks_are_read_in_runs(chunks: list[tuple[int, int]], most: int) -> None:
    """In the order of the session, which is that of its bytes; a run is of one region and without a gap."""
    runs = list(_runs(chunks, most))
    assert [(region, chunk + i) for region, chunk, count in runs for i in range(count)] == chunks
    assert all(1 <= count <= most for _, _, count in runs)
    for one, other in itertools.pairwise(runs):
        assert other[:2] != (one[0], one[1] + one[2]) or one[2] == most
