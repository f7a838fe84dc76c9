"""A seeded slice of the mutation campaign; with KERNCAP_FUZZ_MANIFEST=1 it is run whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.manifest.campaign import WRONG, cases
from tests.parameters import first_of

ROOT = Path(__file__).parents[3]
WHOLE = bool(os.environ.get("KERNCAP_FUZZ_MANIFEST"))
EVERY = 1 if WHOLE else 1200  # of 18,585 cases
PARTS = 4
SEED = 1


@first_of("part", range(PARTS))
@pytest.mark.timeout(7200 if WHOLE else 600)
def test_every_command_refuses_in_one_line_or_does_its_work(tmp_path: Path, part: int) -> None:
    every = EVERY if part == 0 or WHOLE else EVERY // 12
    words = [str(SEED), str(every), str(part), str(PARTS), str(tmp_path / "work")]
    command = [sys.executable, "-m", "tests.hostile.manifest.campaign", *words]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    print(found["counts"])
    assert not found["wrong"], "\n".join(found["wrong"][:20])
    assert found["counts"]["refused"] and found["counts"]["runs"] == found["counts"]["cases"] * 18


def test_each_key_has_wrong_values_of_many_kinds() -> None:
    found: dict[object, int] = {}
    for golden, steps, _ in cases():
        found[golden, steps] = found.get((golden, steps), 0) + 1
    assert len(found) > 500 and set(found.values()) == {len(WRONG)} and len(WRONG) >= 8
