"""On an NVIDIA GPU: saves of a Triton kernel, judged by a resident engine."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import CommandLine
from tests.integration.watching import Watching

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

SAMPLE = Path(__file__).parents[3] / "samples" / "softmax" / "run.py"
LONGEST_MS = 150.0  # from the save to the verdict, compile time apart
_SAVES = 9

# It returns while a stream of its own still works, and nothing waits for that one.
EARLY = """

import torch


class JITFunction(triton.runtime.JITFunction):
    side = torch.cuda.Stream()

    def run(self, *args, **kwargs):
        with torch.cuda.stream(self.side):
            {delay}
            return super().run(*args, **kwargs)


softmax_kernel = JITFunction(softmax_kernel.fn)
"""


@pytest.fixture(scope="module")
def softmax(kerncap_of_module: CommandLine) -> Path:
    out = kerncap_of_module.folder / "softmax"
    done = kerncap_of_module("capture", "-o", out, "-k", "softmax", "--", sys.executable, SAMPLE, timeout=300)
    assert done.status == 0, done.stderr
    [path] = out.iterdir()
    return path


@pytest.fixture
def source(softmax: Path, tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text((softmax / "source" / "kernel.py").read_text())
    return file


def facts(document: dict[str, Any]) -> dict[str, Any]:
    found = document["candidate"]
    assert found is not None and found["registers"] > 0 and 0 < found["occupancy"] <= 1, document
    return dict(found)


def test_edits_are_told_apart_in_time(
    kerncap_of_module: CommandLine, softmax: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = source.read_text()
    with Watching(kerncap_of_module, softmax, source) as watching:
        assert watching.first["result"] == "pass" and not watching.first["edited"], watching.first
        facts(watching.first)

        right = watching.save(
            text.replace("tl.exp(x - row_max(x))", "tl.exp2((x - row_max(x)) * 1.4426950408889634)")
        )
        assert right["result"] == "pass", right
        facts(right)
        times = right["times"]
        assert times["clock"] == "device events" and times["low"] <= times["ratio"] <= times["high"]
        assert right["best"]["number"] == right["save"]

        wrong = watching.save(
            text.replace(
                "numerator / tl.sum(numerator, axis=0)", "numerator / (tl.sum(numerator, axis=0) + 1)"
            )
        )
        assert wrong["result"] == "fail" and wrong["first_wrong"]["buffer"] == "out_ptr", wrong
        assert wrong["first_wrong"]["index"] == [0, 0]

        broken = watching.save(text.replace("tl.exp(", "tl.expp("))
        line = 1 + text[: text.index("tl.exp(")].count("\n")
        assert broken["result"] == "fail" and broken["stage"] == "build", broken
        assert (broken["diagnostics"][0]["line"], Path(broken["diagnostics"][0]["file"]).name) == (
            line,
            "mine.py",
        )

        wide = watching.save(
            text.replace("@triton.jit\ndef softmax", "# kerncap: num_warps=8\n@triton.jit\ndef softmax")
        )
        assert wide["result"] == "pass" and wide["launch_changes"]["num_warps"][1] == 8, wide

        spins = watching.save(
            text.replace("    row = tl.program_id(0)", "    row = tl.program_id(0) + (1 << 40)")
        )
        assert spins["result"] == "fail", "a fault, and the next save is judged all the same"
        waits = []
        for number in range(_SAVES):
            done = watching.save(text.replace("axis=0)\n    tl.store", f"axis=0)  # {number}\n    tl.store"))
            assert done["result"] == "pass" and done["edited"], done
            waits.append(done["save_to_verdict_ms"])
    median = statistics.median(waits)
    with capsys.disabled():
        print(
            f"\ntriton: save to verdict {median:.0f} ms, compile apart ({min(waits):.0f} to {max(waits):.0f})"
        )
    assert median <= LONGEST_MS, waits


@pytest.mark.parametrize("delay", ["torch.cuda._sleep(200_000_000)", "pass"])
def test_a_candidate_that_returns_before_its_stream_has_finished_fails(
    kerncap_of_module: CommandLine, softmax: Path, source: Path, delay: str
) -> None:
    """However soon that stream ends: its time would be measured in one where nothing happens."""
    text = source.read_text()
    with Watching(kerncap_of_module, softmax, source) as watching:
        early = watching.save(text + EARLY.format(delay=delay))
        assert early["result"] == "fail", early
        assert "a JITFunction that its module defines" in early["summary"], early["summary"]
        assert early["times"] is None, "what is not right is not timed"
        assert watching.save(text)["result"] == "pass"


@pytest.mark.parametrize(
    ("stage", "old", "new"), [("ttir", "tt.return", "tt.retrun"), ("ptx", "ret;", "rett;")]
)
def test_later_stages_are_edited_too(
    kerncap_of_module: CommandLine, softmax: Path, tmp_path: Path, stage: str, old: str, new: str
) -> None:
    done = kerncap_of_module("replay", softmax, "--once", "--stage", stage, "--copy", str(tmp_path / stage))
    assert done.status == 0, done.stdout + done.stderr
    file = tmp_path / stage / f"softmax_kernel.{stage}"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    done = kerncap_of_module("replay", softmax, "--once", "--stage", stage, "--copy", str(tmp_path / stage))
    line = 1 + text[: text.index(old)].count("\n")
    assert done.status == 1 and f"softmax_kernel.{stage}:{line}" in done.stdout, done.stdout + done.stderr
