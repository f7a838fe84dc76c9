from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.format.damage import GOLDEN, GOLDEN_BLOCK, GOLDEN_NATIVE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the golden reproducer that a test may damage."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "repro"))


@pytest.fixture
def native_folder(tmp_path: Path) -> Path:
    """A copy of the golden native reproducer."""
    return Path(shutil.copytree(GOLDEN_NATIVE, tmp_path / "native"))


@pytest.fixture
def block_folder(tmp_path: Path) -> Path:
    """A copy of the golden reproducer of a launch in an allocator's block."""
    return Path(shutil.copytree(GOLDEN_BLOCK, tmp_path / "block"))
