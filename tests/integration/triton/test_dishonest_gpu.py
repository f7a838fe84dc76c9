"""Candidates that pretend, compiled, on a GPU; and work that is not in the stream of its launch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kerncap.api.replay import opened
from kerncap.api.verify import VerifyOptions
from kerncap.api.verifying.result import STAGES, Case
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.worker.streams import problem
from tests.integration.conftest import CommandLine

from .test_dishonest import DISHONEST, TARGETS, Resident

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

# Those that need no Python in the kernel itself, which a compiled one has not.
COMPILED = ("first_tile", "nan_everywhere", "noop", "other_shape", "outside", "tolerance", "wrong_tail")
IN_PROCESS = {
    "event_clock": "in the process that judges it",
    "own_run": "its module replaces how it is launched",
    "other_stream": "its module has hooks that run before each launch",
}


@pytest.fixture(scope="module")
def rows(kerncap_of_module: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    [path] = kerncap_of_module.capture("-k", "rms_rows", target=TARGETS / "rms_rows.py")
    options = VerifyOptions(trust=True, engine="jit")
    with opened(path, options) as (reproducer, engine):
        yield Resident(Case(reproducer, engine, CANDIDATE, options, tmp_path_factory.mktemp("candidates")))


@pytest.mark.parametrize("name", COMPILED)
def test_a_dishonest_candidate_fails_by_name(rows: Resident, name: str) -> None:
    result = rows.judge("dishonest", name)
    assert not result.passed
    assert DISHONEST[name] in result.verdict.reasons[0], result.verdict.reasons


@pytest.mark.parametrize("name", sorted(IN_PROCESS))
def test_a_module_that_interferes_with_the_worker_fails(rows: Resident, name: str) -> None:
    result = rows.judge("dishonest_gpu", name)
    assert not result.passed
    assert IN_PROCESS[name] in result.verdict.reasons[0], result.verdict.reasons


def test_honest_rewrites_pass_every_stage(rows: Resident) -> None:
    result = rows.judge("honest", "other_order", STAGES[1:])
    assert result.passed, result.verdict.reasons
    stages = {stage.name: stage for stage in result.stages}
    assert "all of its work is in the stream that it is launched in" in stages["oracle"].shown
    assert stages["numerics"].result == "pass", stages["numerics"].reasons
    if shutil.which("compute-sanitizer"):
        assert "compute-sanitizer memcheck reports nothing" in stages["memory"].shown, stages["memory"]
    assert rows.judge("honest", "other_split").passed


def test_a_size_that_was_written_into_the_source_fails_elsewhere(rows: Resident) -> None:
    result = rows.judge("elsewhere", "one_size", ("oracle", "shapes"))
    assert [stage.result for stage in result.stages] == ["pass", "pass", "fail"]


class _Memory:
    """One region in a tensor of torch's."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.regions = [{"size": tensor.numel()}]

    def tensor(self, region: int, offset: int, size: int) -> Any:
        return self._tensor[offset : offset + size]


def _launches(torch: Any, x: Any) -> dict[str, Callable[[], None]]:
    other = torch.cuda.Stream()

    def honest() -> None:
        x.fill_(3)

    def without_waiting() -> None:
        with torch.cuda.stream(other):
            x.fill_(3)

    def returns_early() -> None:
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            torch.cuda._sleep(20_000_000)
            x.fill_(3)

    def joined() -> None:
        returns_early()
        torch.cuda.current_stream().wait_stream(other)

    return {"honest": honest, "without": without_waiting, "early": returns_early, "joined": joined}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("honest", ""),
        ("joined", ""),
        ("without", "the stream that it was launched in"),  # seen at once, or when a graph has none of it
        ("early", "went on writing after its stream had finished"),
    ],
)
def test_work_outside_of_the_stream_is_seen(name: str, said: str) -> None:
    torch: Any = pytest.importorskip("torch")
    x = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
    found = problem(torch, _Memory(x), [0], _launches(torch, x)[name])
    assert said in found and bool(found) == bool(said), found
