"""A fused Triton kernel for launches of a range, judged with their captured images."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

MLP = Path(__file__).parents[4] / "samples" / "mlp"
FUSED = MLP / "fused.py"
NEEDED_NO_MORE = ("--intermediate", "0.y", "--intermediate", "1.c")


@pytest.fixture(scope="module")
def mlp(kerncap_of_module: CommandLine) -> Path:
    options = ("-k", "^(rms_norm|matmul|swiglu)$", "--launches", "3:6")
    [path] = kerncap_of_module.capture(*options, target=MLP / "run.py")
    return path


@pytest.mark.parametrize("options", [(), ("--hostile",)])
def test_a_fused_kernel_passes(kerncap: CommandLine, mlp: Path, options: tuple[str, ...]) -> None:
    found = kerncap("verify", "--json", mlp, "--candidate", FUSED, *NEEDED_NO_MORE, *options).judged
    assert (found["result"], found["engine"]) == ("pass", "binary"), found
    [_, oracle, *_] = found["stages"]
    assert any("on other values of" in said for said in oracle["shown"]), oracle


def test_it_is_open_whether_intermediates_are_needed(kerncap: CommandLine, mlp: Path) -> None:
    done = kerncap("verify", "--json", mlp, "--candidate", FUSED)
    assert done.status == 5 and "--intermediate 0.y --intermediate 1.c" in done.document["summary"]


@pytest.mark.parametrize(
    "old, new",
    [("1e-6", "1e-1"), ("tl.store(out + rows[:, None] * N", "tl.store(out + (rows[:, None] % 8) * N")],
)
def test_a_wrong_one_fails_and_the_place_is_named(
    kerncap: CommandLine, mlp: Path, old: str, new: str
) -> None:
    wrong = kerncap.folder / "wrong.py"
    wrong.write_text(FUSED.read_text().replace(old, new))
    found = kerncap("verify", "--json", mlp, "--candidate", wrong, *NEEDED_NO_MORE).judged
    assert found["result"] == "fail" and "2.out" in found["summary"], found


def test_one_that_does_not_compile(kerncap: CommandLine, mlp: Path) -> None:
    wrong = kerncap.folder / "wrong.py"
    wrong.write_text(FUSED.read_text().replace("tl.sigmoid(gate)", "tl.sigmoidal(gate)"))
    found = kerncap("verify", "--json", mlp, "--candidate", wrong, *NEEDED_NO_MORE).judged
    assert found["result"] == "fail" and "does not compile" in found["summary"], found
