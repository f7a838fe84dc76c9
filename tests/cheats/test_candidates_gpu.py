"""The cheats, compiled, on a GPU; and work that is not in the stream of its launch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kerncap.api.verify import VerifyOptions
from kerncap.api.verify.verify_result import STAGES, StageResult
from kerncap.replay.worker.torch_backend.streams import problem
from tests.integration.conftest import CommandLine

from .edited import RIGHT
from .resident import CHEATS, Cheat, Resident, reopened, resident

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def rows(kerncap_of_module: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    folder = tmp_path_factory.mktemp("candidates")
    with resident(kerncap_of_module, folder, VerifyOptions(trust=True, engine="jit")) as opened:
        yield opened


@pytest.fixture(scope="module")
def attacked(rows: Resident, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    """The same launch, judged as `verify --hostile` does: no Python of a candidate runs in the worker."""
    options = VerifyOptions(trust=True, engine="jit", hostile=True)
    with reopened(rows, tmp_path_factory.mktemp("hostile"), options) as opened:
        yield opened


# The longest come first: with `--dist worksteal` they run beside all others.
@pytest.mark.parametrize("stage", STAGES[:0:-1])
def test_an_honest_rewrite_passes_each_stage(rows: Resident, stage: str) -> None:
    found = _of_honest(rows, stage, must_pass=("oracle", "numerics", "memory"))
    if stage == "oracle":
        assert "all of its work is in the stream that it is launched in" in found.shown
    if stage == "memory" and shutil.which("compute-sanitizer"):
        assert "compute-sanitizer memcheck reports nothing" in found.shown, found


@pytest.mark.parametrize("stage", STAGES[:0:-1])
def test_an_honest_rewrite_passes_each_stage_among_attackers(attacked: Resident, stage: str) -> None:
    _of_honest(attacked, stage, must_pass=("oracle", "timing"))


def _of_honest(resident: Resident, stage: str, must_pass: tuple[str, ...]) -> StageResult:
    """What a stage says of it: a pass, or for some stages that they can't run."""
    result = resident.honest("other_order", (stage,))
    smoke, found = result.stages
    print(stage, found.result, found.reasons, found.not_shown)
    assert found.result in (("pass",) if stage in must_pass else ("pass", "skipped")), found.reasons
    if resident.case.options.hostile:
        assert "not where its image was launched" in smoke.shown[1]
    return found


def test_another_split_passes(rows: Resident, attacked: Resident) -> None:
    assert rows.honest("other_split").passed
    assert attacked.honest("other_split").passed


COMPILED = [cheat for cheat in CHEATS.values() if cheat.compiles]


@pytest.mark.parametrize("cheat", COMPILED, ids=lambda cheat: cheat.name)
def test_a_cheat_is_told_by_name(rows: Resident, cheat: Cheat) -> None:
    result = rows.cheat(cheat.name, cheat.stages(cheat.device))
    assert result.passed == (cheat.device == RIGHT), result.verdict.reasons
    if not result.passed:
        assert any(cheat.device in reason for reason in result.verdict.reasons), result.verdict.reasons


@pytest.mark.parametrize(
    "cheat", [c for c in CHEATS.values() if not c.compiles], ids=lambda cheat: cheat.name
)
def test_what_only_python_can_do_passes_in_no_case(rows: Resident, cheat: Cheat) -> None:
    result = rows.cheat(cheat.name)
    assert not result.passed, result.verdict


@pytest.mark.parametrize("cheat", COMPILED, ids=lambda cheat: cheat.name)
def test_a_cheat_is_told_by_name_among_attackers(attacked: Resident, cheat: Cheat) -> None:
    expected = cheat.hostile or cheat.device
    result = attacked.cheat(cheat.name, cheat.stages(expected))
    assert result.passed == (expected == RIGHT), result.verdict.reasons
    if not result.passed:
        assert any(expected in reason for reason in result.verdict.reasons), result.verdict.reasons


@pytest.mark.parametrize(
    "cheat", [c for c in CHEATS.values() if not c.compiles], ids=lambda cheat: cheat.name
)
def test_what_only_python_can_do_passes_in_no_case_among_attackers(attacked: Resident, cheat: Cheat) -> None:
    result = attacked.cheat(cheat.name)
    assert not result.passed, result.verdict


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
