"""Nurseries that all tests share; the stand-in driver with the kernels of rig_kernels.cpp."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared_compilers import shared_compilers
from tests.shared_nurseries import own_nurseries, shared_nurseries

from . import rig

__all__ = ["own_kernels", "own_nurseries", "shared_compilers", "shared_nurseries", "stand_in"]


@pytest.fixture(scope="session")
def own_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rig.kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def stand_in(own_kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.use(monkeypatch, own_kernels)
