"""`capture --dormant` and `kerncap arm` on a program that runs on, against the stand-in driver; and ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.cuda.conftest import Bench

DEADLINE_S = 300


def wait_for(path: Path, pattern: str) -> Path:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for found in path.glob(pattern):
            return found
        time.sleep(0.02)
    raise AssertionError(f"no {pattern} in {path}")


@pytest.mark.long
def test_armed_twice_while_it_runs(bench: Bench) -> None:
    folder = bench.kerncap.folder
    end = folder / "end"
    command = [
        sys.executable, "-m", "kerncap", "capture", "--dormant", "--json", "--no-self-check", "-o", "out",
        "--", bench.rig.client("ranges"), "wait", end,
    ]  # fmt: skip

    environment = {**os.environ, **bench.rig.environment()}
    pipe = subprocess.PIPE
    running = subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)
    try:
        session = wait_for(folder / "out", ".kerncap-session-*/*/records").parents[1]
        paths = []
        for selectors in (
            ("-k", "scale", "--range", "odd"),
            ("-k", "scale", "--where", "range == 'step/even'"),
        ):
            done = bench("arm", session, *selectors, "--wait", str(DEADLINE_S), "--json")
            assert done.status == 0, done.stderr
            paths += done.document["captured"]
    finally:
        end.touch()
        out, err = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0, err
    document = json.loads(out)
    assert [entry["range"] for entry in document["reproducers"]] == [["step", "odd"], ["step", "even"]]
    assert [entry["generation"] for entry in document["reproducers"]] == [1, 2]
    assert len(paths) == 2


def test_a_process_of_another_rank_stays_disarmed(bench: Bench) -> None:
    client = ("vector_add",)
    taken = bench.capture("-k", "vector_add", "--rank", "1,3", client=client, extra={"RANK": "3"})
    assert taken.path.parent.name == "rank3"
    refused = bench.capture("-k", "vector_add", "--rank", "1,3", client=client, extra={"RANK": "0"}, expect=0)
    assert "rank" in refused.reason
