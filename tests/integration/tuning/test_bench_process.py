"""A bench in a process of its own: its answers, its end, and what is said where it ends on its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.errors import ReplayError
from kerncap.format import Reproducer
from kerncap.replay.tuning.bench_process import BenchApart
from kerncap.replay.tuning.trial_launch import BenchOptions
from tests.processes import descendants
from tests.unit.replay.build import add

OPTIONS = BenchOptions(engine="interpreter")
HANG_S = 200.0


def runs(pid: int) -> bool:
    """Whether it is there, and no zombie that nobody waits for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def reproducer(tmp_path: Path) -> tuple[str, Path]:
    path = add(4000, 1024).seal(tmp_path)
    with Reproducer.open(path) as opened:
        return opened.manifest_sha256, path


@pytest.fixture
def bench(reproducer: tuple[str, Path]) -> Iterator[BenchApart]:
    digest, path = reproducer
    with BenchApart({digest: path}, OPTIONS) as opened:
        yield opened


def test_trials_and_finals_as_in_this_process(bench: BenchApart, reproducer: tuple[str, Path]) -> None:
    digest, _ = reproducer
    facts = bench.facts()
    assert facts["device"] == "cpu" and facts["original_ms"][digest] > 0
    bench.announce([digest], [{"BLOCK": 1024}])
    [trial] = bench.trials([digest], {"BLOCK": 1024}, {})
    assert (trial.state, trial.digest, trial.point) == ("timed", digest, {"BLOCK": 1024}) and trial.ms
    [final] = bench.finals({digest: [{"BLOCK": 1024}]}, 2)
    assert not final.problem and len(final.times_ms) == len(final.original_ms) == 2


def test_what_can_not_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="nowhere"):
        BenchApart({"0" * 64: tmp_path / "nowhere"}, OPTIONS)


def test_one_that_is_killed_says_so_and_nothing_waits(
    bench: BenchApart, reproducer: tuple[str, Path]
) -> None:
    digest, _ = reproducer
    os.kill(bench.pid, signal.SIGKILL)
    for _ in range(2):  # whether it is known yet or not
        with pytest.raises(ReplayError, match="the process that runs trials ended"):
            bench.trials([digest], {"BLOCK": 1024}, {})


@pytest.mark.long
def test_it_ends_with_whoever_started_it(reproducer: tuple[str, Path]) -> None:
    digest, path = reproducer
    text = (
        "import sys, time; from pathlib import Path\n"
        "from kerncap.replay.tuning.bench_process import BenchApart\n"
        "from kerncap.replay.tuning.trial_launch import BenchOptions\n"
        f"bench = BenchApart({{{digest!r}: Path({str(path)!r})}}, BenchOptions(engine='interpreter'))\n"
        "print(bench.pid, flush=True); time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        its = [pid, *descendants(pid)]
        assert len(its) > 1, "no engine runs in it"
        starter.kill()
    deadline = time.monotonic() + HANG_S
    while left := [each for each in its if runs(each)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.05)
