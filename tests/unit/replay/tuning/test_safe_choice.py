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
from tests.unit.replay.build import ADD, Launch, add, value

UNMASKED = ADD.replace("tl.load(x_ptr + i, mask=mask)", "tl.load(x_ptr + i)")
TIMES = {8: 4.0, 16: 2.0, 32: 1.0}


def unmasked(n: int) -> Launch:
    launch = add(n, 8, UNMASKED)
    launch.grid_source = schema.GridSource(
        source="lambda meta: (triton.cdiv(n, meta['BLOCK']),)", bindings={"n": value(n)}
    )
    return launch


@pytest.mark.parametrize("remeasured", [(), (16, 32)])
def test_what_reads_past_a_tensor_is_dropped(tmp_path: Path, remeasured: tuple[int, ...]) -> None:
    """Whether the finalists were measured again, and whether any of them is safe, or not."""
    launch = unmasked(1000)  # a multiple of 8 only
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


def test_one_for_all_is_safe_for_all(tmp_path: Path) -> None:
    """16 is never the best, and good for both; of 1,000 elements it reads past the end."""
    found = Found()
    for block, times in {8: (1.0, 10.0), 16: (1.5, 1.5), 32: (10.0, 1.0)}.items():
        point = {"BLOCK": block}
        found.trials[points.key(point)] = {
            digest: Trial(point, digest, "timed", ms=ms, runs=5)
            for digest, ms in zip("ab", times, strict=True)
        }
    with (
        Reproducer.open(unmasked(1000).seal(tmp_path)) as small,
        Reproducer.open(unmasked(1024).seal(tmp_path)) as large,
    ):
        spaces = {"a": LaunchSpace(small), "b": LaunchSpace(large)}
        choice = safe_choice(found, spaces, (), sys.executable)
    assert [best.point["BLOCK"] for best in choice.best] == [8, 32]
    assert choice.robust is not None and choice.robust.point == {"BLOCK": 8}
