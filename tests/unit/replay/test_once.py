"""A launch in a worker that was told beforehand what to do, as tools that hold a process get it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from kerncap.replay.choose_engine import Choice
from kerncap.replay.limits import isolated_launch
from kerncap.replay.staging import stage

from . import native

pytestmark = pytest.mark.usefixtures("stand_in")


def test_it_launches_on_the_captured_memory(tmp_path: Path) -> None:
    choice = Choice(sys.executable, "native", "cuda", 0)
    with Reproducer.open(native.add().seal(tmp_path)) as reproducer:
        job = stage(reproducer, choice.launcher, choice.memory, choice.device)
        try:
            said = isolated_launch.output(
                "none",
                isolated_launch.command(job, choice, isolated_launch.own_file(job, choice), 60.0),
                job.folder,
                60.0,
            )
            assert isolated_launch.problem(job, "none") == "", said
            assert isolated_launch.ended(job)
        finally:
            job.close()
