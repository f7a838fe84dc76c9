"""On a GPU: what an nvcc kernel is compiled to, captured image against rebuilt one, saves in a row."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.api.compare import bisect_status, compare
from kerncap.api.replay import ReplayOptions, write_set
from kerncap.exit_status import Bisect
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.outcome import CandidateError
from kerncap.replay.paired_times import median, ratio
from kerncap.replay.repeated_runs import dirtied
from kerncap.replay.verdict import judge
from tests.integration.conftest import CommandLine

from .captured import Captured, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

BUDGET_MS = 150.0


@pytest.fixture(scope="module")
def several(kerncap_of_module: CommandLine) -> Captured:
    return capture(kerncap_of_module, build("several.cu"), options=("-k", "kc_", "--launch", "0:1"))


@pytest.fixture(scope="module")
def engine(several: Captured) -> Iterator[tuple[Engine, Measured]]:
    trust.agree_to_derived(several.one("kc_add"))
    with Reproducer.open(several.one("kc_add")) as reproducer, Engine(reproducer) as found:
        yield found, write_set(reproducer, found)


def test_facts_of_a_kernel(engine: tuple[Engine, Measured]) -> None:
    found = engine[0].compiled(ORIGINAL)
    assert found.registers and 0 < found.registers < 256 and found.max_threads
    assert found.blocks_per_sm and found.occupancy and 0 < found.occupancy <= 1
    assert found.block is not None and found.num_warps == -(-found.block[0] * found.block[1] // 32)


@pytest.mark.parametrize("kernel", ["kc_add", "kc_histogram", "kc_templateIf", "kc_large_shared"])
def test_captured_against_rebuilt(several: Captured, kernel: str) -> None:
    result = compare(several.one(kernel), ("captured", "rebuilt"), ReplayOptions(timed_runs=20, trust=True))
    assert result.passed and bisect_status(result) == Bisect.GOOD, result.as_dict()
    first, second = (variant.compiled for variant in result.variants)
    assert (first.registers, first.shared_bytes) == (second.registers, second.shared_bytes)
    (difference,) = result.differences
    assert [stage.stage for stage in difference.stages if stage.same] == [
        stage.stage for stage in difference.stages
    ], result.as_dict()


def test_saves_in_a_row_are_judged_within_the_budget(
    engine: tuple[Engine, Measured], several: Captured, tmp_path: Path
) -> None:
    found, measured = engine
    text = found.reproducer.source_text()
    assert text is not None
    path = tmp_path / "several.cu"
    taken = []
    for number in range(6):
        path.write_text(f"{text}\n// save {number}\n")
        begin = time.perf_counter()
        found.load_candidate(path)
        assert judge(found, measured, CANDIDATE).passed
        taken.append((time.perf_counter() - begin) * 1e3 - found.compiled(CANDIDATE).compile_ms)
    assert median(taken) <= BUDGET_MS, taken
    times = found.interleaved([ORIGINAL, CANDIDATE], 100, sorted(measured.written), dirtied(measured))
    assert 0.9 < ratio(times[ORIGINAL], times[CANDIDATE]).median < 1.1


def test_an_error_of_nvcc_names_the_line(engine: tuple[Engine, Measured], tmp_path: Path) -> None:
    found, _ = engine
    text = found.reproducer.source_text()
    assert text is not None
    path = tmp_path / "several.cu"
    path.write_text(f"{text}\n__global__ void broken() {{ undefined_name = 1; }}\n")
    with pytest.raises(CandidateError, match="undefined_name") as caught:
        found.load_candidate(path)
    assert caught.value.line == text.count("\n") + 2
