"""What a shim says besides launches: the last ones of a process, progress."""

from __future__ import annotations

import threading

import pytest

from kerncap.format.records import RecordKind
from tests.unit.capture.native_seal.session import Run


def test_the_last_launches_and_progress_are_taken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    said = threading.Event()
    lines: list[str] = []

    def line(text: str) -> None:
        lines.append(text)
        said.set()

    monkeypatch.setattr("kerncap.log.line", line)
    process = run.process()
    run.collector.follow()
    last = [{"kernel": "add", "grid": [1, 1, 1], "block": [32, 1, 1], "stream": "0x0", "index": 9}]
    process.say(RecordKind.LAST, {"launches": last, "error": "an illegal memory access"})
    process.say(RecordKind.LAST, {"launches": [], "error": "later"})
    process.say(RecordKind.PROGRESS, {"launch": 0, "kernel": "add", "done": 1 << 30, "total": 4 << 30})
    assert said.wait(60)
    run.finish(process)
    [log] = run.collector.processes.values()
    assert log.last is not None and log.last.error == "an illegal memory access"
    assert lines == ["add (launch 0): 1.0 GiB of 4.0 GiB copied"]


def test_progress_of_a_session_left_behind_is_not_said_again(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    process = run.process()
    process.say(RecordKind.PROGRESS, {"launch": 0, "kernel": "add", "done": 1, "total": 2})
    run.finish(process)
    assert "copied" not in capsys.readouterr().err
