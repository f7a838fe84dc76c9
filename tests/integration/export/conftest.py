"""What is captured once for all tests of exported projects."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.integration.small_softmax import small_softmax

from .bare import Bare

ROOT = Path(__file__).parents[3]
Capture = Callable[[Path], Path]


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    return Bare.make(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="session")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """The only reproducer of a program; each is captured once."""
    kerncap = CommandLine(tmp_path_factory.mktemp("captured"))
    made: dict[Path, Path] = {}

    def capture(program: Path) -> Path:
        if program not in made:
            out = kerncap.folder / f"out{len(made)}"
            done = kerncap("capture", "-o", out, "--", sys.executable, program)
            assert done.status == 0, done.stderr
            [made[program]] = out.iterdir()
        return made[program]

    return capture


def sample(name: str) -> Path:
    return ROOT / "samples" / name / "run.py"


@pytest.fixture(scope="session")
def softmax(captured: Capture, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(small_softmax(tmp_path_factory.mktemp("softmax")))
