"""`blame` on an NVIDIA GPU: PTX at each level, and the captured image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.blame import planted
from tests.integration.blame.test_blame import TARGET, rows
from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
LEVELS = [f"PTX -O{level}" for level in range(4)]


def captured(kerncap: CommandLine, python: Path | str) -> Path:
    done = kerncap("capture", "--json", "--no-self-check", "-o", "out", "--", str(python), TARGET)
    [path] = done.document["captured"]
    return kerncap.folder / path


def blamed(kerncap: CommandLine, path: Path) -> dict[str, Any]:
    [run] = kerncap("blame", "--json", "--device", "auto", path).document["runs"]
    return dict(run)


def test_no_stage_of_a_healthy_launch_differs(kerncap: CommandLine) -> None:
    import sys

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
