"""The cheats that evaluators of kernels have met in public: each is told by name, and honest rewrites pass.

Each candidate says in its docstring what it does, where that was seen, and what has to be said of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kerncap.api.verify import VerifyOptions, parse_stages
from kerncap.api.verify.verify_result import STAGES
from kerncap.errors import UsageError
from tests.integration.conftest import CommandLine

from .resident import RIGHT, Cheat, Resident, cheats, resident


@pytest.fixture(scope="module")
def rows(kerncap_of_module: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    folder = tmp_path_factory.mktemp("candidates")
    with resident(kerncap_of_module, folder, VerifyOptions(trust=True)) as opened:
        yield opened


@pytest.mark.parametrize(
    "cheat", [c for c in cheats() if not c.host.startswith("none: ")], ids=lambda cheat: cheat.name
)
def test_a_cheat_is_told_by_name(rows: Resident, cheat: Cheat) -> None:
    result = rows.judge("candidates", cheat.name, cheat.stages(cheat.host))
    assert result.passed == (cheat.host == RIGHT), result.verdict.reasons
    if not result.passed:
        assert any(cheat.host in reason for reason in result.verdict.reasons), result.verdict.reasons


@pytest.mark.long
def test_another_order_passes_every_stage(rows: Resident) -> None:
    result = rows.judge("honest", "other_order", STAGES[1:])
    assert result.passed, result.verdict.reasons
    assert {stage.name: stage.result for stage in result.stages} == dict.fromkeys(STAGES, "pass")
    shown = {stage.name: stage.shown for stage in result.stages}
    assert shown["determinism"] == [
        "the captured kernel: 2 runs agree bit by bit", "the candidate: 2 runs agree bit by bit"
    ]  # fmt: skip
    assert shown["numerics"][0] == "against the same source in float64"
    assert shown["numerics"][2].startswith("out_ptr, the candidate: ulps max ")
    assert shown["shapes"] == [
        "as the captured kernel on other values of x_ptr, w_ptr",
        "as the captured kernel on rows = 3",
        "as the captured kernel on rows = 1",
        "as the captured kernel on columns = 99",
        "as the captured kernel on columns = 51",
        "as the captured kernel on columns = 1",
        "as the captured kernel on padded rows (x_stride = 132, out_stride = 104) at other addresses",
        "as the captured kernel on tensors that begin one element later, at other addresses",
    ]
    assert shown["sanitizer"] == ["16 checks proved for every program of the grid, nothing found"]
    assert "bytes of poison around every tensor, the candidate writes none" in shown["memory"][0]
    assert result.as_dict()["stages"][0]["shown"] == ["loads, launches, and ends in time with no fault"]


def test_a_less_exact_kernel_fails_by_its_ulps(rows: Resident) -> None:
    result = rows.judge("candidates", "tolerance", ("numerics",))
    assert [stage.result for stage in result.stages] == ["pass", "fail"]
    assert "within tolerance, and less exact throughout" in result.verdict.reasons[0]


def test_stages_that_do_not_exist_are_named() -> None:
    assert parse_stages("memory,oracle") == ("smoke", "oracle", "memory")
    assert parse_stages("all") == STAGES
    with pytest.raises(
        UsageError, match="--stages oracle,speed: speed is not a stage; choose from smoke, oracle"
    ):
        parse_stages("oracle,speed")


@pytest.mark.long
def test_another_split_passes(rows: Resident) -> None:
    result = rows.judge("honest", "other_split")
    assert result.passed, result.verdict.reasons
    assert "a second run on the same contents does the work again" in result.stages[1].shown
    assert "as the captured kernel on other values of x_ptr, w_ptr" in result.stages[1].shown
