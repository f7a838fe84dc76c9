"""The stand-in driver with the kernels of rig_kernels.cpp, for the files that replay on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import rig


@pytest.fixture(scope="session")
def own_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rig.kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def stand_in(own_kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.use(monkeypatch, own_kernels)
