"""A range with a launch that only its application can run."""

from __future__ import annotations

from pathlib import Path

from kerncap.answer import Answer
from kerncap.api.range_replay import replay_range
from kerncap.api.replay import ReplayOptions
from kerncap.format import Reproducer
from kerncap.format.range_writer import write_range
from tests.unit.format.damage import GOLDEN


def test_a_launch_that_is_only_described_leaves_the_range_undecided(tmp_path: Path) -> None:
    with Reproducer.open(GOLDEN.with_name("v1.9-ranks")) as collective:
        path = write_range(tmp_path, [(0, collective), (3, collective)])
    result = replay_range(path, ReplayOptions(trust=True))
    assert result.answer is Answer.UNDECIDED and not result.steps and result.first_differing is None
    [reason] = result.verdict.reasons
    assert reason.startswith("launch 0 (scale): it needs NCCL's communicator"), reason
    assert result.as_dict()["result"] == "undecided"
