"""On an NVIDIA GPU: what a Triton launch is compiled to, candidates of every stage, configurations, times."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.api.compare import CompareResult, bisect_status, compare
from kerncap.api.replay import ReplayOptions, write_set
from kerncap.exit_status import Bisect
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.outcome import CandidateError, Config
from kerncap.replay.paired_times import median, ratio
from kerncap.replay.repeated_runs import dirtied
from kerncap.replay.verdict import judge
from tests.integration.conftest import CommandLine
from tests.processes import descendants

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

SAMPLES = Path(__file__).parents[3] / "samples"
STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin")
BUDGET_MS = 150.0


@pytest.fixture(scope="module")
def repro(kerncap_of_module: CommandLine) -> Path:
    [path] = kerncap_of_module.capture(
        "-k", "^add_kernel$", "--launch", "0:1", target=SAMPLES / "vector_add" / "run.py"
    )
    return path


@pytest.fixture(scope="module", params=["jit", "binary"])
def engine(request: pytest.FixtureRequest, repro: Path) -> Iterator[tuple[Engine, Measured]]:
    trust.agree_to_derived(repro)
    with Reproducer.open(repro) as reproducer, Engine(reproducer, request.param) as found:
        yield found, write_set(reproducer, found)


def source(engine: Engine) -> str:
    text = engine.reproducer.source_text()
    assert text is not None
    return text


def test_facts_of_what_is_launched(engine: tuple[Engine, Measured]) -> None:
    found = engine[0].compiled(ORIGINAL)
    assert found.registers and 0 < found.registers < 256 and found.spilled_bytes == 0
    assert found.occupancy and 0 < found.occupancy <= 1 and found.blocks_per_sm
    assert found.block == (32 * (found.num_warps or 0), 1, 1) and found.shared_bytes is not None
    assert set(found.stages) >= {"cubin", "ptx"}
    assert all(Path(path).stat().st_size for path in found.stages.values())


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_is_a_candidate(engine: tuple[Engine, Measured], tmp_path: Path, stage: str) -> None:
    found, measured = engine
    path = tmp_path / f"edited.{stage}"
    path.write_bytes(Path(found.compiled(ORIGINAL).stages[stage]).read_bytes())
    found.load_candidate(path)
    verdict = judge(found, measured, CANDIDATE)
    assert verdict.passed and verdict.exact, verdict.line
    compiled = found.compiled(CANDIDATE)
    assert compiled.registers == found.compiled(ORIGINAL).registers
    assert list(compiled.stages) == [name for name in STAGES if STAGES.index(name) >= STAGES.index(stage)]


@pytest.mark.parametrize(
    ("stage", "what", "other"),
    [("ttir", r"arith\.addf", "arith.subf"), ("ttgir", r"arith\.addf", "arith.subf"),
     ("llir", r"\bfadd\b", "fsub"), ("ptx", r"\badd\.f32\b", "sub.f32")],
)  # fmt: skip
def test_a_wrong_stage_fails_and_a_broken_one_says_where(
    engine: tuple[Engine, Measured], tmp_path: Path, stage: str, what: str, other: str
) -> None:
    found, measured = engine
    text = Path(found.compiled(ORIGINAL).stages[stage]).read_text()
    assert re.search(what, text), text
    path = tmp_path / f"edited.{stage}"
    path.write_text(re.sub(what, other, text))
    found.load_candidate(path)
    assert not judge(found, measured, CANDIDATE).passed
    path.write_text(re.sub(what, "nonsense", text, count=1))
    with pytest.raises(CandidateError, match="does not compile") as caught:
        found.load_candidate(path)
    assert caught.value.line, caught.value.detail
    assert "nonsense" in path.read_text().split("\n")[caught.value.line - 1]
    assert judge(found, measured, ORIGINAL).passed  # the worker outlives the compiler


@pytest.mark.parametrize("engine", ["jit"], indirect=True)
def test_configurations(engine: tuple[Engine, Measured]) -> None:
    found, measured = engine
    n = next(int(a.value.value) for a in found.manifest.arguments if a.name == "n")  # type: ignore[union-attr]
    compiled = found.load_configured(
        "wide", Config({"BLOCK": 512}, {"num_warps": 8, "num_stages": 2}, (-(-n // 512), 1, 1))
    )
    assert (compiled.num_warps, compiled.grid) == (8, (-(-n // 512), 1, 1))
    assert compiled.block == (256, 1, 1)
    verdict = judge(found, measured, "wide")
    assert verdict.passed, verdict.line
    with pytest.raises(CandidateError, match="num_warps"):
        found.load_configured("none", Config(options={"num_warps": 3}))
    with pytest.raises(CandidateError):
        found.load_configured("large", Config({"BLOCK": 1 << 22}))
    found.unload("wide")


@pytest.mark.parametrize("engine", ["jit"], indirect=True)
def test_a_compile_error_names_the_line_of_the_file(engine: tuple[Engine, Measured], tmp_path: Path) -> None:
    found, _ = engine
    path = tmp_path / "edited.py"
    lines = source(found).split("\n")
    at = next(i for i, line in enumerate(lines) if "tl.store" in line)
    lines.insert(at, f"{lines[at][: len(lines[at]) - len(lines[at].lstrip())]}missing = undefined_name + 1")
    path.write_text("\n".join(lines))
    with pytest.raises(CandidateError, match="undefined_name") as caught:
        found.load_candidate(path)
    assert caught.value.line == at + 1


def test_the_same_kernel_takes_the_same_time(engine: tuple[Engine, Measured], tmp_path: Path) -> None:
    found, measured = engine
    path = tmp_path / "same.cubin"
    path.write_bytes(Path(found.compiled(ORIGINAL).stages["cubin"]).read_bytes())
    found.load_candidate(path)
    times = found.interleaved([ORIGINAL, CANDIDATE], 200, sorted(measured.written), dirtied(measured))
    told = ratio(times[ORIGINAL], times[CANDIDATE])
    assert 0.95 < told.median < 1.05, told
    assert judge(found, measured, ORIGINAL).exact


@pytest.mark.parametrize("engine", ["jit"], indirect=True)
def test_a_day_of_saves_leaks_nothing_and_each_is_fast(
    engine: tuple[Engine, Measured], tmp_path: Path
) -> None:
    found, measured = engine
    path = tmp_path / "edited.py"
    text = source(found)
    taken = []

    def save(number: int) -> None:
        path.write_text(text.replace("tl.store(", f"# save {number}\n    tl.store(", 1))
        begin = time.perf_counter()
        found.load_candidate(path)
        assert judge(found, measured, CANDIDATE).passed
        taken.append((time.perf_counter() - begin) * 1e3 - found.compiled(CANDIDATE).compile_ms)

    for number in range(10):
        save(number)
    before = used_mib()
    for number in range(10, 80):
        save(number)
    assert used_mib() - before <= 8
    assert median(taken[10:]) <= BUDGET_MS, sorted(taken)


def used_mib() -> int:
    """Device memory that the processes of this test use; other tests have the device too."""
    done = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    used = {int(pid): int(mib) for pid, mib in (line.split(",") for line in done.stdout.splitlines())}
    found = [used[pid] for pid in {os.getpid(), *descendants(os.getpid())} & used.keys()]
    assert found, done.stdout
    return sum(found)


def compared(path: Path, *which: str) -> CompareResult:
    return compare(path, which, ReplayOptions(timed_runs=20, trust=True))


def test_captured_against_rebuilt(repro: Path) -> None:
    result = compared(repro, "captured", "rebuilt")
    assert result.passed and bisect_status(result) == Bisect.GOOD, result.as_dict()
    assert all(variant.compiled.registers and variant.times_ms for variant in result.variants)
    (difference,) = result.differences
    by_stage = {stage.stage: stage for stage in difference.stages}
    assert {"ttir", "ttgir", "ptx", "sass"} <= set(by_stage)
    # The same compiler made both: nothing differs.
    assert all(stage.same and stage.instructions[0] > 3 for stage in difference.stages), result.as_dict()


def test_the_command_line_compares(repro: Path, kerncap_of_module: CommandLine) -> None:
    done = kerncap_of_module(
        "replay", repro, "--compare", "captured,rebuilt", "--bisect", "--python", sys.executable, timeout=300
    )
    assert done.status == Bisect.GOOD, done.stdout + done.stderr
    assert "SASS  the same" in done.stdout and done.result_line.startswith("Result: PASS")
