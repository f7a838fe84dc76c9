"""A configuration that gives the right result and reads past a tensor is not chosen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerncap.api.tune.safe_choice import safe_choice
from kerncap.format import Reproducer, schema
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.search import Found
from kerncap.replay.tuning.space import LaunchSpace
from kerncap.replay.tuning.trial import Final, Trial
from tests.unit.replay.build import ADD, add, value

UNMASKED = ADD.replace("tl.load(x_ptr + i, mask=mask)", "tl.load(x_ptr + i)")
TIMES = {8: 4.0, 16: 2.0, 32: 1.0}


@pytest.mark.parametrize("remeasured", [(), (16, 32)])
def test_what_reads_past_a_tensor_is_dropped(tmp_path: Path, remeasured: tuple[int, ...]) -> None:
    """Whether the finalists were measured again, and whether any of them is safe, or not."""
    launch = add(1000, 8, UNMASKED)  # a multiple of 8 only
    launch.grid_source = schema.GridSource(
        source="lambda meta: (triton.cdiv(n, meta['BLOCK']),)", bindings={"n": value(1000)}
    )
    found = Found()
    for block, ms in TIMES.items():
        for warps in (4, 8):
            point = {"BLOCK": block, "num_warps": warps}
            found.trials[points.key(point)] = {"a": Trial(point, "a", "timed", ms=ms + warps / 100, runs=5)}
    found.finals = [
        Final({"BLOCK": block, "num_warps": 4}, "a", [TIMES[block]] * 3, [4.0] * 3) for block in remeasured
    ]
    with Reproducer.open(launch.seal(tmp_path)) as reproducer:
        choice = safe_choice(found, {"a": LaunchSpace(reproducer)}, (), sys.executable)
    assert choice.best[0].point == {"BLOCK": 8, "num_warps": 4}
    dropped = [
        note for note in choice.notes if "was dropped on a: oob: load of 4 bytes at x_ptr + 1000" in note
    ]
    assert len(dropped) == len(choice.notes) and dropped[0].startswith("BLOCK=32 num_warps=4 ")
