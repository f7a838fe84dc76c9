"""A stranger's reproducer whose code leaves a mark where it runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.format.damage import GOLDEN_BLOCK


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A Triton reproducer with a source, of another machine, in a folder of its own."""
    (tmp_path / "given").mkdir()
    return Path(shutil.copytree(GOLDEN_BLOCK, tmp_path / "given" / "scale-1a2b3c4d"))


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that hostile code makes."""
    return tmp_path / "it-ran"
