"""Jobs of several processes on two devices: torchrun's ranks, and kernels that read a peer's memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import CommandLine

from .captured import TARGETS, build

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400), pytest.mark.usefixtures("two_devices")]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def captured(kerncap: CommandLine, *arguments: str | Path) -> tuple[dict[str, Any], str]:
    """The document of a capture, and what the target and the command line said."""
    done = kerncap("capture", "--json", "--no-self-check", *arguments, timeout=300)
    try:
        document = json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.fail(f"status {done.status}\n{done.stdout}\n{done.stderr}")
    assert document["target_status"] == 0, done.stderr
    assert isinstance(document, dict)
    return document, done.stderr


def test_the_same_kernel_of_both_ranks(kerncap_of_module: CommandLine) -> None:
    document, said = captured(
        kerncap_of_module, "-k", "MulFunctor", "-o", "ranks", "--", *TORCHRUN, TARGETS / "ranks.py"
    )
    assert "1500000.0" in said  # (1 + 2) * 100,000 values, times 2 and 3
    paths = [kerncap_of_module.folder / path for path in document["captured"]]
    assert sorted(path.parent.name for path in paths) == ["rank0", "rank1"], said
    assert sorted(entry["rank"] for entry in document["reproducers"]) == [0, 1]
    for path in paths:
        done = kerncap_of_module("replay", "--json", path, timeout=200)
        assert done.status == 0 and done.document["result"] == "pass", done.stdout + done.stderr


def test_one_rank_alone(kerncap_of_module: CommandLine) -> None:
    options = ("-k", "MulFunctor", "--rank", "1", "-o", "one")
    document, said = captured(kerncap_of_module, *options, "--", *TORCHRUN, TARGETS / "ranks.py")
    [path] = document["captured"]
    assert Path(path).parent.name == "rank1", said


@pytest.mark.parametrize("way", ["", "ipc"])
def test_a_kernel_that_reads_a_peer(kerncap_of_module: CommandLine, way: str) -> None:
    """It replays with the application's bytes, or the capture or the replay says by name why not."""
    program = build("peer.cu")
    document, said = captured(
        kerncap_of_module, "-k", "add_peer", "-o", f"peer{way}", "--", program, *([way] if way else [])
    )
    assert "1 149998" in said
    if not document["captured"]:
        assert any("add_peer" in failed for failed in document["failed"]), document
        return
    [path] = document["captured"]
    done = kerncap_of_module("replay", "--json", path, timeout=200)
    if done.status == 4:
        assert "device 1" in done.stderr or "peer" in done.stderr, done.stderr
        return
    assert done.status == 0 and done.document["result"] == "pass", done.stdout + done.stderr
    assert done.document["compared_bytes"] > 0
