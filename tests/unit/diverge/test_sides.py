"""What is said of a side."""

from __future__ import annotations

import shlex

from kerncap.api.diverge.two_runs import capture_command
from kerncap.capture.trace_file import Trace
from tests.unit.diverge.launches import launch


def test_what_a_recorded_side_says_to_run_is_only_a_capture() -> None:
    """A trace comes from a stranger, and its reader pastes the command into a shell."""
    run = Trace(command=("prog; touch /tmp/a", "$(touch /tmp/b)"))
    words = shlex.split(capture_command(run, launch("f'; touch /tmp/c; '")))
    assert words[:3] == ["kerncap", "capture", "-k"] and "touch" in words[3]
    assert words[4:] == ["--launch", "0", "--", *run.command]
