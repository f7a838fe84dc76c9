"""A session.json that is odd, cut off or full of nonsense."""

from __future__ import annotations

import pytest

from kerncap.format.records import RecordKind
from tests.native.common.captured import Run


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
