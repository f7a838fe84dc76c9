"""`tune` on one captured launch of nvcc's: the numbers in its source, and a template's argument."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

from .captured import TARGETS, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def sums(kerncap_of_module: CommandLine) -> Path:
    options = ("--launch", "0:1", "--source-dir", str(TARGETS))
    captured = capture(kerncap_of_module, build("row_sums.cu"), options=options)
    captured.target_is_unchanged()
    return captured.one("row_sums")


@pytest.mark.parametrize("options", [(), ("--hostile",)])
def test_the_numbers_of_a_source_are_searched(
    kerncap: CommandLine, sums: Path, options: tuple[str, ...]
) -> None:
    bounds = ("--bound", "STEP=2:4", "--bound", "WIDTH=2:8", "--trust")
    done = kerncap("tune", "--json", sums, *bounds, *options, timeout=300)
    assert done.status == 0, done.stderr
    found = done.document
    states = {(trial["point"]["STEP"], trial["point"]["WIDTH"]): trial["state"] for trial in found["trials"]}
    assert {states[2, width] for width in (2, 4, 8)} <= {"timed", "slow"}, found
    assert {state for (step, _), state in states.items() if step == 4} == {"wrong"}, found
    [shape] = found["shapes"]
    assert found["result"] == "pass" and shape["best"]["config"]["STEP"] == 2, found
    assert shape["best"]["ms"] > 0 and shape["captured_ms"] > 0, shape
