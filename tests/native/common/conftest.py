"""The program of the cases, plain and under sanitizers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.building import PLAIN_AND_SANITIZED, shims
from tests.native.common.captured import Run


@pytest.fixture(scope="session", params=PLAIN_AND_SANITIZED)
def program(request: pytest.FixtureRequest) -> Path:
    return shims("common_tests", request.param) / "tests/common/common_tests"


@pytest.fixture
def capture(tmp_path: Path, program: Path) -> Iterator[Run]:
    yield Run(tmp_path, program)
