from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.format.damage import GOLDEN


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the golden reproducer that a test may damage."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "repro"))
