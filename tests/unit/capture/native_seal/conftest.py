"""A session for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.capture.native_seal.session import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)
