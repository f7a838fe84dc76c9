"""`kerncap diff` of what was captured: two runs of one program over the stand-in driver, and results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.integration.cuda.conftest import Bench, Rig


@dataclass(frozen=True)
class Runs:
    bench: Bench
    first: Path
    again: Path
    shorter: Path


@pytest.fixture(scope="module")
def runs(rig: Rig, shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """A list of pointers, captured twice; self-checks have measured what the launch only writes."""
    bench = Bench(CommandLine(tmp_path_factory.mktemp("runs")), rig)
    paths = [
        bench.capture("-k", "sum_of_list", client=("pointers", "list"), self_check=True).path
        for _ in range(2)
    ]
    other = bench.capture("-k", "sum_of_rows", client=("pointers", "rows")).path
    yield Runs(bench, *paths, other)


def test_two_runs_of_one_program_are_equal(runs: Runs) -> None:
    """Other addresses, and pointers in memory that hold them; an output buffer that nobody had written."""
    done = runs.bench("diff", runs.first, runs.again)
    assert done.status == 0, done.stdout
    assert done.result_line == "Result: EQUAL" and "pointers to the same place" in done.stdout


def test_another_launch_is_another(runs: Runs) -> None:
    done = runs.bench("diff", "--json", runs.first, runs.shorter)
    document = json.loads(done.stdout)
    assert (done.status, document["result"]) == (1, "different")
    assert {"launch", "arguments"} <= set(document["differing"])
    assert "sum_of_rows" in next(one["b"] for one in document["launch"] if one["what"] == "kernel")


def test_results_of_two_verdicts(runs: Runs) -> None:
    for name, path in (("a.json", runs.first), ("b.json", runs.again)):
        done = runs.bench("verify", "--json", path)
        assert done.status == 0, done.stderr
        (runs.bench.kerncap.folder / name).write_text(done.stdout)
    done = runs.bench("diff", "a.json", "b.json")
    assert done.status == 0 and done.stdout.startswith("kerncap verify: A a.json, B b.json"), done.stdout
    mixed = runs.bench("diff", "a.json", runs.first)
    assert mixed.status == 2 and len(mixed.stderr.splitlines()) == 1
