"""`kerncap verify --prove`: the stage, its words and its statuses."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kerncap.api.verify import VerifyOptions, verify
from kerncap.api.verify.verify_result import StageResult
from kerncap.errors import UsageError
from tests.integration.conftest import CommandLine
from tests.integration.small_softmax import SAMPLE, small_softmax


@pytest.fixture(scope="module")
def softmax(kerncap_of_module: CommandLine) -> Path:
    options = ("--no-self-check", "-o", "out")
    program = small_softmax(kerncap_of_module.folder)
    finished = kerncap_of_module("capture", *options, "--", sys.executable, program)
    assert finished.status == 0, finished.stderr
    [found] = (kerncap_of_module.folder / "out").glob("softmax_kernel-*")
    return found


def proof(path: Path, candidate: Path) -> StageResult:
    result = verify(path, VerifyOptions(candidate=candidate, stages=("smoke",), prove=True, trust=True))
    assert [stage.name for stage in result.stages] == ["smoke", "proof"]
    assert result.answer.value == result.stages[1].result
    return result.stages[1]


def changed(folder: Path, old: str, new: str) -> Path:
    text = (SAMPLE / "faster.py").read_text()
    assert old in text
    path = folder / "candidate.py"
    path.write_text(text.replace(old, new))
    return path


def test_an_equal_candidate_is_proved_and_a_wrong_one_shown(kerncap: CommandLine, softmax: Path) -> None:
    good = kerncap("verify", softmax, "--candidate", SAMPLE / "faster.py", "--prove", "--stages", "smoke")
    assert good.status == 0, good.stdout + good.stderr
    assert "  shown: PROVED equal over the reals, for all float values, at these sizes" in good.stdout
    assert "  not shown: assumed: rounding is left out" in good.stdout
    assert re.search(
        r"^  shown: rounding: out_ptr, the candidate: ulps max .*; mean signed [+-]", good.stdout, re.M
    )
    assert good.result_line == "Result: PASS (proof passed)"
    bad = kerncap("verify", softmax, "--candidate", SAMPLE / "wrong.py", "--prove", "--stages", "smoke")
    assert bad.status == 1, bad.stdout + bad.stderr
    assert bad.result_line.startswith(
        "Result: FAIL (proof: not the same function: with all ones in every tensor, "
    )


@pytest.mark.long
def test_a_candidate_with_a_configuration_of_its_own(softmax: Path, tmp_path: Path) -> None:
    other = changed(tmp_path, "@triton.jit", "# kerncap: BLOCK=256\n@triton.jit")
    assert proof(softmax, other).result == "pass"


def test_what_only_other_values_show(softmax: Path, tmp_path: Path) -> None:
    """No captured value is that large."""
    without = changed(tmp_path, "x - tl.max(x, axis=0)", "x")
    found = proof(softmax, without)
    assert found.result == "fail"
    assert "is nan in candidate.py and 0 in the captured kernel" in found.reasons[0]


def test_what_rounding_hides_is_not_proved(softmax: Path, tmp_path: Path) -> None:
    biased = changed(
        tmp_path, "(1.0 / tl.sum(numerator, axis=0))", "(1.0 / tl.sum(numerator, axis=0)) + 1e-13"
    )
    found = proof(softmax, biased)
    assert found.result == "undecided"
    assert "exact arithmetic gives other values for 400 of 400 elements of out_ptr" in found.reasons[0]


def test_what_is_not_modelled_is_named(softmax: Path, tmp_path: Path) -> None:
    bits = changed(
        tmp_path, "result = numerator", "numerator = (numerator.to(tl.int32, bitcast=True)).to(tl.float32, "
        "bitcast=True)\n    result = numerator",
    )  # fmt: skip
    found = proof(softmax, bits)
    assert found.result == "undecided"
    assert "not proved: tt.bitcast at candidate.py:16: not modelled, the bits of a float" in found.reasons[0]


def test_a_candidate_is_needed(softmax: Path) -> None:
    with pytest.raises(UsageError, match="add --candidate"):
        verify(softmax, VerifyOptions(prove=True))
