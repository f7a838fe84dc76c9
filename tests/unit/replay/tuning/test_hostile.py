"""`tune --hostile`: a source that attacks what judges its configurations, under Triton's interpreter."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.tune import TuneOptions, tune
from kerncap.api.tune.tune_result import TuneResult
from kerncap.replay.worker.torch_backend import confine
from tests.parameters import first_of
from tests.unit.replay import build

pytest.importorskip("torch")
pytest.importorskip("triton")

# In one configuration it is off by less than the tolerance, on one side, in another one for large numbers;
# its module marks where it ran.
SOURCE = (
    "import pathlib\n"
    + build.HEADER
    + """try:
    pathlib.Path({marker!r}).touch()
except OSError:
    pass


@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if BLOCK == 512:
        x = tl.minimum(x, 60.0)
    tl.store(out_ptr + i, x * 2.0 + (3e-6 if BLOCK == 256 else 0.0), mask=i < n)
"""
)


def tuned(folder: Path, marker: Path, block: int, hostile: bool) -> TuneResult:
    x = np.random.default_rng(5).standard_normal(256).astype(np.float32)
    launch = build.Launch(SOURCE.format(marker=str(marker)), "double", grid=(4, 1, 1))
    launch.tensor("x_ptr", x).tensor("out_ptr", np.zeros_like(x), 2 * x)
    launch.argument("n", 256).constexpr("BLOCK", 64)
    path = launch.seal(folder)
    space = folder / "space.json"
    space.write_text(json.dumps({"parameters": {"BLOCK": [block]}}))
    return tune([path], TuneOptions(space=str(space), engine="interpreter", workers=1, hostile=hostile))


@pytest.mark.skipif(bool(confine.missing()), reason="this Linux lacks what confines")
@first_of("block", [256, 512, 128])
def test_a_hostile_source_is_confined_and_its_finalists_are_judged(tmp_path: Path, block: int) -> None:
    marker = tmp_path / "marks" / "ran"
    marker.parent.mkdir()
    result = tuned(tmp_path, marker, block, hostile=True)
    assert not marker.exists()
    assert any("finalists were judged as verify judges candidates" in note for note in result.notes)
    assert [best.point["BLOCK"] for best in result.choice.best] == ([128] if block == 128 else [])
    assert result.answer is (Answer.YES if block == 128 else Answer.UNDECIDED), result.notes


@pytest.mark.long
def test_without_it_the_source_has_the_users_rights(tmp_path: Path) -> None:
    """And what is off by less than the tolerance is taken for another order of a sum."""
    marker = tmp_path / "ran"
    assert tuned(tmp_path, marker, 256, hostile=False).answer is Answer.YES
    assert marker.exists()
