"""Native launches that store what is there already, on the stand-in driver: judged, not left open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.replay import ReplayOptions, replay
from kerncap.format import Reproducer
from kerncap.replay.byte_effects import load
from kerncap.replay.worker.common import bitmap

from .native import Native

_N = 4096


pytestmark = pytest.mark.usefixtures("stand_in")


def judged(path: Path) -> tuple[Answer, str, dict[int, bitmap.Bits]]:
    result = replay(path, ReplayOptions(timed_runs=0, timeout_s=10.0))
    with Reproducer.open(path) as reproducer:
        kept = load(reproducer)
        assert kept is not None
        return (
            result.answer, " ".join([*result.verdict.reasons, *result.verdict.notes]),
            kept.written,
        )  # fmt: skip


def test_a_mask_that_is_nowhere_set_hides_no_store(tmp_path: Path) -> None:
    launch = Native("masked").array(np.ones(_N, np.float32)).array(np.zeros(_N, np.uint8)).integer(_N)
    answer, said, written = judged(launch.seal(tmp_path))
    assert answer is Answer.YES
    assert "leaves every byte as it was: its stores are known" in said
    assert bitmap.count(written[0]) > _N and 1 not in written, "the array, and no byte of its mask"


def test_zeros_over_zeros_beside_what_steers_them(tmp_path: Path) -> None:
    where = np.random.default_rng(4).permutation(_N).astype(np.uint32)
    launch = Native("steered", with_views=False)
    launch.array(np.concatenate([where, np.zeros(_N, np.uint32)])).integer(_N)
    answer, _, written = judged(launch.seal(tmp_path))
    assert answer is Answer.YES
    zeros = bitmap.span(8 * _N, 4 * _N, 8 * _N)
    assert bitmap.count(written[0] & zeros) == 4 * _N, "all of the zeros"
    assert not (written[0] & ~zeros).any(), "and none of the indices"


def test_a_launch_that_stores_nothing_stays_open(tmp_path: Path) -> None:
    launch = Native("_Z7nothingPfi").array(np.zeros(_N, np.float32)).integer(_N)
    answer, said, _ = judged(launch.seal(tmp_path))
    assert answer is Answer.UNDECIDED and "writes nothing" in said
