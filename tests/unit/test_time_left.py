"""What is said of long work, by a clock that the test moves."""

from __future__ import annotations

import pytest

from kerncap import time_left


def test_a_line_every_two_seconds_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter((100.0, 101.9, 102.0, 103.9, 104.0, 110.0))
    monkeypatch.setattr(time_left.time, "monotonic", lambda: next(clock))
    reached = time_left.TimeLeft("scale: carried out")
    for done in (10, 20, 39, 40, 100):
        reached(done, 100)
    assert capsys.readouterr().err.splitlines() == [
        "kerncap: scale: carried out 20 %, 8.0 s left",
        "kerncap: scale: carried out 40 %, 6.0 s left",
    ]


def test_bytes_are_said_as_such(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter((100.0, 102.0))
    monkeypatch.setattr(time_left.time, "monotonic", lambda: next(clock))
    time_left.TimeLeft("scale: writing", in_bytes=True)(1 << 30, 4 << 30)
    assert capsys.readouterr().err == "kerncap: scale: writing 1.0 GiB of 4.0 GiB, 6.0 s left\n"
