"""`blame` on an NVIDIA GPU: PTX at each level, and the captured image."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.blame import planted
from tests.integration.blame.test_blame import TARGET, rows
from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
LEVELS = [f"PTX -O{level}" for level in range(4)]


def captured(kerncap: CommandLine, python: Path | str, target: Path = TARGET) -> Path:
    # Triton's own cache knows nothing of a mistake in Triton.
    cache = {"TRITON_CACHE_DIR": str(kerncap.folder / "cache")}
    done = kerncap("capture", "--json", "--no-self-check", "-o", "out", "--", str(python), target, env=cache)
    [path] = done.document["captured"]
    return kerncap.folder / path


def blamed(kerncap: CommandLine, path: Path) -> dict[str, Any]:
    [run] = kerncap("blame", "--json", path).document["runs"]
    return dict(run)


def test_no_stage_of_a_healthy_launch_differs(kerncap: CommandLine) -> None:
    run = blamed(kerncap, captured(kerncap, sys.executable))
    found = rows(run)
    assert [name for name in found if name in (*LEVELS, "captured image")] == [*LEVELS, "captured image"], run
    assert run["result"] == "pass" and "differs" not in found.values(), run
    assert not any(stage["varies"] for stage in run["stages"])


def test_what_llvm_makes_wrong_is_in_ptx(kerncap: CommandLine, tmp_path: Path) -> None:
    python = planted.python_with(tmp_path / "env", planted.WRONG_PTX)
    run = blamed(kerncap, captured(kerncap, python))
    assert run["guilty"]["stage"] == "PTX -O0" and "PTX -O0 differs from TTGIR" in run["guilty"]["what"], run


def test_what_ptxas_makes_wrong_is_in_the_image(kerncap: CommandLine, tmp_path: Path) -> None:
    python = planted.python_with(tmp_path / "env", planted.WRONG_IMAGE)
    run = blamed(kerncap, captured(kerncap, python))
    assert run["guilty"]["stage"] == "captured image" and "NVIDIA" in run["guilty"]["to"], run


RACES = """
@triton.jit
def count(x, out):
    k = tl.load(x + tl.program_id(0) * 1024 + tl.arange(0, 1024)) % 16
    tl.store(out + k, tl.load(out + k) + 1)

@triton.jit
def late(x, out):  # the first program stores last
    program = tl.program_id(0)
    at = program * 0
    for _ in range(tl.where(program == 0, 1000, 0)):
        at = tl.load(x + at)
    tl.store(out + 1 + program, at)
    tl.store(out, program)

x = (torch.arange(1 << 16, dtype=torch.int32, device="cuda") + 1) % (1 << 16)
KERNEL[(64,)](x, torch.zeros(128, dtype=torch.int32, device="cuda"))
torch.cuda.synchronize()
"""


@pytest.mark.parametrize("kernel", ["count", "late"])
def test_a_race_is_found_before_ptxas_is_blamed(kerncap: CommandLine, kernel: str) -> None:
    """Whether its result varies from run to run, or not."""
    target = kerncap.target(RACES.replace("KERNEL", kernel))
    run = blamed(kerncap, captured(kerncap, sys.executable, target))
    print([(stage["name"], stage["varies"], stage["before"]) for stage in run["stages"]])
    guilty = run["guilty"]
    assert "the kernel races: program" in guilty["what"], run
    assert guilty["to"] == "the author of the kernel", guilty


def test_an_order_is_no_fault_of_ptxas(kerncap: CommandLine) -> None:
    """Programs take the next place; which of them comes first is another one in each run."""
    target = kerncap.target(
        """
        @triton.jit
        def queue(next, out):
            place = tl.atomic_add(next, 1)
            tl.store(out + place, tl.program_id(0))

        next = torch.zeros(1, dtype=torch.int32, device="cuda")
        out = torch.empty(1 << 14, dtype=torch.int32, device="cuda")
        queue[(1 << 14,)](next, out)
        torch.cuda.synchronize()
        """
    )
    run = blamed(kerncap, captured(kerncap, sys.executable, target))
    assert run["guilty"]["stage"] == "PTX -O0" and "varies from run to run" in run["guilty"]["what"], run
    assert "author" in run["guilty"]["to"]
