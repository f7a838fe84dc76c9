"""Ranges on a GPU: Triton's and torch's launches in one reproducer, replayed in order in one process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import LaunchRange
from tests.integration.conftest import CommandLine

from .captured import TARGETS

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

PROGRAM = TARGETS / "torch_range.py"


def captured(kerncap: CommandLine, *options: str) -> tuple[Path, dict[str, Any]]:
    done = kerncap(
        "capture", "--json", "-o", "out", *options, "--", sys.executable, PROGRAM, timeout=400
    )  # fmt: skip
    document = done.document
    assert len(document["captured"]) == 1 and not document["failed"], done.stderr
    return kerncap.folder / document["captured"][0], document


@pytest.fixture(scope="module")
def mixed(kerncap_of_module: CommandLine) -> tuple[Path, dict[str, Any]]:
    """One step from its norm to its SwiGLU, with the product that torch launches between them."""
    return captured(kerncap_of_module, "--from", "rms_norm:1", "--to", "swiglu")


def test_triton_and_torch_launches_are_one_range(mixed: tuple[Path, dict[str, Any]]) -> None:
    path, document = mixed
    with LaunchRange.open(path) as opened:
        opened.verify()
        kernels = [launch.manifest.kernel.name for launch in opened.launches]
        positions = [launch.position for launch in opened.launches]
    assert kernels[0] == "rms_norm" and kernels[-1] == "swiglu" and len(kernels) >= 3, kernels
    assert positions == list(range(positions[0], positions[0] + len(positions)))
    assert [check["result"] for check in document["self_checks"].values()] == ["pass"], document


def test_it_is_replayed_bit_for_bit(kerncap: CommandLine, mixed: tuple[Path, dict[str, Any]]) -> None:
    document = kerncap("replay", "--json", mixed[0], timeout=300).judged
    assert document["result"] == "pass" and document["exact"], document
    assert not any(step["changed_between_regions"] for step in document["steps"]), document
    flows = kerncap("inspect", "--json", mixed[0]).document["flows"]
    last = len(document["steps"]) - 1
    assert any(flow["from"] == 0 for flow in flows) and any(flow["to"] == last for flow in flows), flows


def test_what_torch_writes_between_triton_launches_is_there(kerncap: CommandLine) -> None:
    """Only the Triton kernels: the product is something that is not in the range."""
    path, _ = captured(kerncap, "-k", "rms_norm|swiglu", "--launches", "2:4", "--no-self-check")
    document = kerncap("verify", "--json", path, timeout=300).judged
    assert document["result"] == "pass", document
    assert [step["kernel"] for step in document["steps"]] == ["rms_norm", "swiglu"]
    # The norm doesn't reach what the product wrote: it is there from the start, and comes from outside.
    inspected = kerncap("inspect", "--json", path).document
    assert not inspected["flows"], inspected
    assert inspected["launches"][1]["from_outside"] >= 256 * 2048 * 4, inspected


def test_sources_run_a_range_of_triton_launches(kerncap: CommandLine) -> None:
    path, _ = captured(kerncap, "-k", "rms_norm|swiglu", "--launches", "2:4", "--no-self-check")
    document = kerncap("replay", "--json", "--engine", "jit", path, timeout=300).judged
    assert document["result"] == "pass" and document["engine"] == "jit", document


def test_a_candidate_is_judged_at_its_launch(
    kerncap: CommandLine, mixed: tuple[Path, dict[str, Any]]
) -> None:
    path = mixed[0]
    with LaunchRange.open(path) as opened:
        last = len(opened.launches) - 1
        text = opened.launches[last].source_text()
    assert text is not None
    wrong = kerncap.folder / "wrong.py"
    wrong.write_text(text.replace("* up", "* up * 1.01"))
    options = ("--launch", str(last), "--candidate", wrong)
    failed = kerncap("verify", "--json", *options, path, timeout=300).judged
    assert failed["result"] == "fail", failed


def test_launches_on_two_streams_race_unless_something_orders_them(kerncap: CommandLine) -> None:
    program = TARGETS / "torch_streams.py"
    done = kerncap(
        "capture", "--json", "-o", "out", "-k", "^(fill|double)$", "--launches", "2:12", "--", sys.executable,
        program, timeout=400,
    )  # fmt: skip
    assert done.status == 0 and len(done.document["captured"]) == 1, done.stderr
    path = kerncap.folder / done.document["captured"][0]
    launches = kerncap("sanitize", "--json", path, timeout=300).judged["launches"]
    results = [one["result"] for one in launches]
    # Only the first pair: an event, the host's waits and a copy to the host order the others.
    assert results == ["pass", "fail", *["pass"] * 8], launches
    found = launches[1]["findings"]
    assert len(found) == 1 and found[0]["check"] == "race", found
    assert "launch 0 (fill, stream 0x" in found[0]["message"], found
    assert "access the same 16,384 bytes" in found[0]["message"], found
