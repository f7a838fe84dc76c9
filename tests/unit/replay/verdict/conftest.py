"""A vector addition that stays open for all candidates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.replay import build
from tests.unit.replay.resident import Resident, resident


@pytest.fixture(scope="package")
def adder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    with resident(build.add(), tmp_path_factory.mktemp("adder")) as opened:
        yield opened
